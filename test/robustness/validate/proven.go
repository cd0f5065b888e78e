package validate

import (
	"fmt"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// maxDeaths is how often a proxy may die of one table. A single death may have another cause.
const maxDeaths = 2

// Proven: a proxy that has died twice of a table does not get it again, also after a restart of its data plane.
func Proven(h *history.History) []Violation { return alone(h, (*Index).proven) }

func (x *Index) proven() []Violation {
	type death struct{ client, digest string }
	deaths := make(map[death]int)
	var all []Violation
	for _, e := range x.h.Events {
		if e.Name != "died" {
			continue
		}
		d := death{e.Member, e.Args}
		if deaths[d]++; deaths[d] > maxDeaths {
			all = append(all, Violation{NameProven, e.At, e.Member, -1, fmt.Sprintf("it got table %s again, of which it had died %d times", short(e.Args), maxDeaths)})
		}
	}
	return all
}
