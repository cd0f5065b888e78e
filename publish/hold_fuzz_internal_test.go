package publish

import (
	"fmt"
	"testing"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/table"
)

// model is a naive implementation of the rules about holds in the package documentation.
type model struct {
	manual bool
	ends   map[string]time.Duration // by kind; never is negative
}

const never = -1

type observation struct {
	at   time.Duration
	kind string // "" if fine
	// missing says how many of all served requests are not in the new table.
	missing, all int
}

// judge reports whether the table of an observation is published.
func (m *model) judge(o observation, hold time.Duration) bool {
	if o.kind == "" && (len(m.ends) == 0 || o.missing == 0) {
		m.ends = nil
		return true
	}
	if m.ends == nil {
		m.ends = make(map[string]time.Duration)
	}
	if _, held := m.ends[o.kind]; o.kind != "" && !held {
		if m.ends[o.kind] = o.at + hold; m.manual || o.kind == "empty" || o.kind == "generated" {
			m.ends[o.kind] = never
		}
	}
	for _, end := range m.ends {
		if end == never || o.at < end {
			return false
		}
	}
	m.ends = nil
	return true
}

// groups maps each bit of a set to its routes: two generated routes, two halves of each of two namespaces, and two routes without
// a namespace.
var groups = func() (groups [8][]string) {
	groups[0], groups[1] = []string{"kube__redirect"}, []string{"clone_kube__healthz_up"}
	groups[6], groups[7] = []string{"g"}, []string{"h"}
	for i := range 10 {
		groups[2] = append(groups[2], fmt.Sprintf("kube_one__i%d__h__p__s", i))
		groups[3] = append(groups[3], fmt.Sprintf("kube_rg__one__g__all__%d_0", i))
		groups[4] = append(groups[4], fmt.Sprintf("kubeew_two__i%d__h__p__s", i))
		groups[5] = append(groups[5], fmt.Sprintf("clone_kube_rg__two__g__all__%d_0_https_redirect", i))
	}
	return groups
}()

// observe classifies a step between two sets, with a limit of half.
func observe(served, candidate byte) (o observation) {
	own := 0
	for i, group := range groups {
		if i < 2 {
			continue // generated
		}
		was, is := served>>i&1 == 1, candidate>>i&1 == 1
		if was {
			o.all += len(group)
			if !is {
				o.missing += len(group)
			}
		}
		if is {
			own++
		}
	}
	const ingresses = 0b010100
	lost := func(name byte) bool { return served&name == name && candidate&name == 0 }
	switch {
	case candidate == 0:
		o.kind = "empty"
	case served == 0:
	case own == 0 && o.all > 0:
		o.kind = "generated"
	case 2*o.missing > o.all, lost(ingresses):
		o.kind = "loss"
	}
	return o
}

func routesOf(set byte) []string {
	var out []string
	for i, group := range groups {
		if set>>i&1 == 1 {
			out = append(out, group...)
		}
	}
	return out
}

// FuzzGuardAgreesWithModel plays histories of pairs (what is read, seconds since the last event). A set high bit of the time
// means that the read failed; the next bit, that an acceptance follows. With manual, time releases nothing.
func FuzzGuardAgreesWithModel(f *testing.F) {
	f.Add([]byte{0xff, 0, 0x0f, 10, 0x0f, 30, 0x07, 30}, false)
	f.Add([]byte{0xff, 0, 0x01, 10, 0x03, 63, 0, 1, 0, 63, 0xff, 1}, false)
	f.Add([]byte{0xff, 0, 0x0c, 10, 0x0c, 128 + 60, 0xff, 3, 0x0c, 3, 0x0c, 60, 0x0c, 2}, false)
	f.Add([]byte{0, 0, 0, 64, 0xff, 1, 0x04, 64 + 5, 0x04, 1}, false)
	f.Add([]byte{0xff, 0, 0xf3, 1, 0xd3, 30, 0xf3, 31, 0xf3, 60, 0xcf, 1}, false)
	f.Add([]byte{0xff, 0, 0xf3, 1, 0x03, 30, 0xd3, 31, 0xff, 60, 0xcf, 1, 0xcf, 64}, true)
	f.Fuzz(func(t *testing.T, events []byte, manual bool) {
		const hold = time.Minute
		cfg := guard.Config{Hold: hold, Window: 1, Manual: manual} // no memory: the windows have separate tests
		g := newHeldTables(t, cfg)
		m := model{manual: cfg.Manual}
		var served *table.Table
		var servedSet byte
		var now time.Duration
		for i := 0; i+1 < len(events); i += 2 {
			set, code := events[i], events[i+1]
			now += time.Duration(code&63)*time.Second + 1 // never twice at the same time: the window is that short
			if code&128 != 0 {
				continue // the read failed, so the guard is not asked
			}
			candidate := newTable(t, routesOf(set)...)
			o := observe(servedSet, set)
			if o.at = now; served != nil && servedSet == set {
				o.kind = "" // no change, even if an empty table was accepted before
			}
			want := m.judge(o, hold)
			got := g.offer(served, candidate, startTime.Add(now))
			if got.publish != want {
				t.Fatalf("event %d at %v: %08b after %08b: publish %v, want %v (%+v)", i/2, now, set, servedSet, got.publish, want, got)
			}
			if g.state().Held == want {
				t.Fatalf("event %d: held %v after publish %v", i/2, g.state().Held, want)
			}
			accept := code&64 != 0
			if accept {
				_, err := g.accept(Acceptance{Digest: candidate.Digest()})
				if (err == nil) == want {
					t.Fatalf("event %d: accept gave %v after publish %v", i/2, err, want)
				}
			}
			if want || accept {
				served, servedSet = candidate, set
				m = model{manual: cfg.Manual}
			}
		}
	})
}
