package validate

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// maxDeaths is how often a proxy may die of one table. A single death may have another cause.
const maxDeaths = 2

// livesFor is how long a proxy must have lived with a table until the table is proven.
const livesFor = 30 * time.Second

// Proven: a proxy that has died twice of a table does not get it again; and after a restart, before it has asked a server, a data plane serves a table
// that was proven.
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
	type has struct{ plane, digest string }
	since := make(map[has]time.Duration) // when the proxy first got it
	begin := make(map[string]time.Duration)
	for _, i := range x.byEnd() {
		a := &x.h.Answers[i]
		if a.Outcome != history.Applied {
			continue
		}
		if m := x.members[a.Client]; m != nil && m.Mortal {
			if _, known := begin[a.Server]; !known {
				begin[a.Server] = a.End
			}
			if _, known := since[has{a.Server, a.Digest}]; !known {
				since[has{a.Server, a.Digest}] = a.End
			}
		}
		first, known := begin[a.Server]
		got, has := since[has{a.Server, a.Digest}]
		for _, stop := range x.down(a.Server) {
			if known && a.State == "stale" && stop.to <= a.Begin && first < stop.from-livesFor-time.Second && (!has || got > stop.from-livesFor) {
				all = append(all, Violation{NameProven, a.End, a.Client, i, fmt.Sprintf(
					"%s served table %s after a restart at %v, with which its proxy had not lived", a.Server, short(a.Digest), stop.to.Round(time.Millisecond))})
			}
		}
	}
	return all
}
