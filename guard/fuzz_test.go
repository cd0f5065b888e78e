package guard_test

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// model is the rule of the package documentation, written down naively: it keeps the whole history since the last
// published table and derives the verdict from that.
type model struct {
	history []observation
}

type observation struct {
	at   time.Duration
	kind string // "" if fine
}

// judge appends an observation and says whether its table is published.
func (m *model) judge(o observation, hold time.Duration) bool {
	m.history = append(m.history, o)
	if o.kind == "" {
		return true
	}
	if o.kind == "empty" || o.kind == "generated" {
		return false
	}
	// Look back over the unbroken run of reads that agree.
	first := len(m.history) - 1
	for first > 0 && m.history[first-1].kind == o.kind {
		first--
	}
	run := m.history[first:]
	if len(run) >= 2 && o.at-run[0].at >= hold {
		m.history = nil
		return true
	}
	return false
}

// kindOf classifies a step between two sets of routes a to h, of which the first two are generated, with a limit of
// half.
func kindOf(served, candidate byte) string {
	gone, all, own, ownServed := 0, 0, 0, 0
	for i := range 8 {
		was, is := served>>i&1 == 1, candidate>>i&1 == 1
		if was {
			all++
			if !is {
				gone++
			}
		}
		if is && i >= 2 {
			own++
		}
		if was && i >= 2 {
			ownServed++
		}
	}
	switch {
	case candidate == 0:
		return "empty"
	case served == 0:
		return ""
	case own == 0 && ownServed > 0:
		return "generated"
	case 2*gone > all:
		return "loss"
	}
	return ""
}

func routesOf(set byte) []string {
	names := []string{"kube__redirect", "clone_kube__healthz_up", "c", "d", "e", "f", "g", "h"}
	var out []string
	for i, name := range names {
		if set>>i&1 == 1 {
			out = append(out, name)
		}
	}
	return out
}

// FuzzGuardAgreesWithModel plays histories of pairs (what is read, seconds since the last event). A read with the
// high bit of the time set failed; one with the next bit set is followed by an acceptance.
func FuzzGuardAgreesWithModel(f *testing.F) {
	f.Add([]byte{0xff, 0, 0x0f, 10, 0x0f, 30, 0x07, 30})
	f.Add([]byte{0xff, 0, 0x01, 10, 0x03, 63, 0, 1, 0, 63, 0xff, 1})
	f.Add([]byte{0xff, 0, 0x0c, 10, 0x0c, 128 + 60, 0xff, 3, 0x0c, 3, 0x0c, 60, 0x0c, 2})
	f.Add([]byte{0, 0, 0, 64, 0xff, 1, 0x04, 64 + 5, 0x04, 1})
	f.Fuzz(func(t *testing.T, events []byte) {
		const hold = time.Minute
		g := newGuard(t, guard.Config{Hold: hold, Window: 1}) // no memory: the windows have a test of their own
		var m model
		var served *table.Table
		var servedSet byte
		var now time.Duration
		for i := 0; i+1 < len(events); i += 2 {
			set, code := events[i], events[i+1]
			now += time.Duration(code&63)*time.Second + 1 // never twice at the same time: the window is that short
			if code&128 != 0 {
				continue // the read failed: nobody is asked
			}
			candidate := tableOf(t, routesOf(set)...)
			kind := kindOf(servedSet, set)
			if served != nil && servedSet == set {
				kind = "" // no change, even if an empty table was accepted before
			}
			want := m.judge(observation{now, kind}, hold)
			got := g.Judge(served, candidate, start.Add(now))
			if got.Publish != want {
				t.Fatalf("event %d at %v: %08b after %08b: publish %v, want %v (%+v)", i/2, now, set, servedSet, got.Publish, want, got)
			}
			if g.State().Held == want {
				t.Fatalf("event %d: held %v after publish %v", i/2, g.State().Held, want)
			}
			accept := code&64 != 0
			if accept {
				_, err := g.Accept(candidate.Digest(), start.Add(now))
				if (err == nil) == want {
					t.Fatalf("event %d: accept gave %v after publish %v", i/2, err, want)
				}
			}
			if want || accept {
				served, servedSet = candidate, set
				m.history = nil
			}
		}
	})
}
