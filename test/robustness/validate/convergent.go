package validate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// Convergent: after the last change and the last fault, every live client reaches the table of the final objects.
func Convergent(h *history.History) []Violation { return alone(h, (*Index).convergent) }

func (x *Index) convergent() []Violation {
	run := &x.h.Run
	if run.Settled <= run.Calm {
		return nil // the run has no end to judge
	}
	last := make(map[string]int)
	for _, i := range x.byEnd() {
		if a := &x.h.Answers[i]; a.End <= run.Settled && (has(a) || a.Form != "event" && a.Status != 0) {
			last[a.Client] = i
		}
	}
	wanted := make(map[string]string)
	var all []Violation
	for i := range run.Members {
		m := &run.Members[i]
		if !isClient(m) || m.Slow || !x.lives(m.Name, run.Settled) {
			continue
		}
		at, ok := last[m.Name]
		if !ok {
			all = append(all, Violation{NameConvergent, run.Settled, m.Name, -1, "no answer in the whole run"})
			continue
		}
		a := &x.h.Answers[at]
		zone := x.zone(a.Client, a.Server)
		want, known := wanted[zone]
		if !known {
			want = join(x.oracle.whole(x.epochs[len(x.epochs)-1], zone))
			wanted[zone] = want
		}
		held := a.State == api.StateHeld || a.State == api.StateBackendsHeld
		got, kept := x.h.Tables[a.Digest]
		switch sum := sha256.Sum256([]byte(want)); {
		case hex.EncodeToString(sum[:]) == a.Digest:
		case held && run.Hold > 0 && run.Settled-run.Calm < run.Hold+2*run.Interval+x.processing:
			// the hold had no time to end; Complete and Live judge what is served meanwhile
		default:
			all = append(all, Violation{NameConvergent, a.End, m.Name, at, fmt.Sprintf(
				"%v after the last change the client holds table %s from %s (%s): %s", (a.End - run.Calm).Round(time.Millisecond), short(a.Digest), a.Server,
				strings.TrimSpace(a.Outcome+" "+a.State), difference(got, kept, want))})
		}
	}
	return all
}

func join(lines []line) string {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return strings.Join(texts, "\n")
}

// difference names the first route in which two tables differ.
func difference(got string, kept bool, want string) string {
	if !kept {
		return "its text was not kept"
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, l := range w {
		if _, ok := slices.BinarySearch(g, l); !ok {
			return fmt.Sprintf("%d routes, want %d, it has not %.200s", len(g), len(w), l)
		}
	}
	for _, l := range g {
		if _, ok := slices.BinarySearch(w, l); !ok {
			return fmt.Sprintf("%d routes, want %d, it should not have %.200s", len(g), len(w), l)
		}
	}
	return fmt.Sprintf("%d routes, want %d", len(g), len(w))
}
