package validate

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// DeltaEqual: applying a delta gives the bytes of the full table. A delta that arrived intact leads to the digest that it names,
// so no client has to refuse one.
func DeltaEqual(h *history.History) []Violation { return alone(h, (*Index).deltaEqual) }

func (x *Index) deltaEqual() []Violation {
	var all []Violation
	for i := range x.h.Answers {
		a := &x.h.Answers[i]
		if a.Form != "delta" && a.Form != "event" {
			continue
		}
		switch digest, _, ok := tag(a); {
		case a.Outcome == history.Refused && !x.faultOn(a.Client, a.Server, a.Begin-time.Second, a.End):
			all = append(all, Violation{NameDeltaEqual, a.End, a.Client, i, fmt.Sprintf(
				"%s from %s to table %s cannot be applied to %s: %s", a.Form, a.Server, short(digest), short(a.Digest), a.Why)})
		case a.Outcome == history.Applied && ok && digest != a.Digest:
			all = append(all, Violation{NameDeltaEqual, a.End, a.Client, i, fmt.Sprintf(
				"%s from %s leads to table %s, its name is %s", a.Form, a.Server, short(a.Digest), short(digest))})
		}
	}
	return all
}
