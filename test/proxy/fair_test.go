package proxy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/trial"
	"github.com/routesrv/routesrv/test/programs"
)

// fairness is how long a change of a team waits at most, whatever other teams do.
const fairness = 10 * time.Second

// inNamespace is an object of a namespace, with a filter. A text of Lua that ends its process is known to real proxies as well.
func (r *rehearsal) inNamespace(namespace, name, filter string) string {
	return strings.Replace(r.object(name, filter), "namespace: shop}", "namespace: "+namespace+"}", 1)
}

func killer(n int) string { return fmt.Sprintf(`lua("os.exit(3) -- %d")`, n) }

// unfair is what one team does to others.
type unfair struct {
	name      string
	innocents int
	teams     int
	guilty    func(r *rehearsal, second int) string // the objects of the other team, after some seconds
	standIn   bool                                  // a real proxy survives it
}

// TestTrialsAreFair: a team changes objects while another team brings texts that end, block or flood the trial proxy, whose process needs more than a
// second to come back. The changes of the first team are served within ten seconds, and no text of the other one is served untried.
func TestTrialsAreFair(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	const hang = `setRequestHeader("X-Hang", "1")`
	for _, c := range []unfair{
		{"a new killer each second", 12, 1, func(r *rehearsal, second int) string {
			return r.inNamespace("evil", "evil", killer(second))
		}, false},
		{"a new killer each second, and many teams", 12, 12, func(r *rehearsal, second int) string {
			return r.inNamespace("evil", "evil", killer(second))
		}, false},
		{"eight killers", 27, 9, func(r *rehearsal, _ int) (all string) {
			for i := range 8 {
				all += r.inNamespace("evil", fmt.Sprint("evil-", i), killer(i))
			}
			return all
		}, false},
		{"eight killers of eight teams at once", 27, 9, func(r *rehearsal, second int) (all string) {
			for i := range 8 * min(second, 1) {
				all += r.inNamespace(fmt.Sprint("evil-", i), fmt.Sprint("evil-", i), killer(i))
			}
			return all
		}, false},
		{"a flood", 1, 1, func(r *rehearsal, _ int) string {
			all := []string{}
			for i := range 5000 {
				all = append(all, fmt.Sprintf("setRequestHeader(\"X-Flood\", \"%d\")", i))
			}
			return strings.Replace(r.inNamespace("evil", "evil", "flood"), `["flood"]`, "['"+strings.Join(all, "', '")+"']", 1)
		}, false},
		{"one that blocks the proxy", 3, 3, func(r *rehearsal, _ int) string {
			return r.inNamespace("evil", "evil", hang)
		}, true},
		{"one that blocks the proxy at once", 3, 3, func(r *rehearsal, second int) string {
			return strings.Repeat(r.inNamespace("evil", "evil", hang), min(second, 1))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.standIn && os.Getenv(ProgramVariable) != "" {
				t.Skip("a real proxy survives the text")
			}
			// The bound is one of time. A machine that is overloaded for seconds may break it, but not three times in a row.
			const runs = 3
			for n := 1; ; n++ {
				took := c.delay(t, hang)
				if took <= fairness {
					break
				}
				if n == runs {
					t.Fatalf("the changes of the other teams took %v, in the last of %d runs", took, runs)
				}
			}
		})
	}
}

// delay returns how long the changes of innocent teams wait.
func (c *unfair) delay(t *testing.T, hang string) time.Duration {
	faults := Faults{Die: []string{"os.exit(3)"}, Hang: []string{hang}}
	r, p := withSlowTrial(t, faults)
	began, innocents := time.Now(), ""
	r.write(t, c.guilty(r, 0))
	if c.guilty(r, 0) != "" {
		programs.Eventually(t, "a trial of the other team", func() bool { return r.status(t).Trial.Waiting > 0 || len(p.Deaths()) > 0 })
	}
	filters := []string{}
	for i := range c.innocents {
		filters = append(filters, fmt.Sprintf(`setPath("/innocent-%d")`, i))
		innocents += r.inNamespace(fmt.Sprint("team-", i%c.teams), fmt.Sprint("innocent-", i), filters[i])
	}
	changed := time.Now()
	served := func() bool {
		table := r.table(t)
		if strings.Contains(table, "os.exit") || strings.Contains(table, hang) {
			t.Fatal("a text of the other team is served")
		}
		return !slices.ContainsFunc(filters, func(filter string) bool { return !strings.Contains(table, filter) })
	}
	began = began.Add(-time.Second)                                  // the objects of the first second are written together
	for second := -1; !served(); time.Sleep(20 * time.Millisecond) { // a table comes when it comes
		if now := int(time.Since(began) / time.Second); now != second {
			second = now
			r.write(t, c.guilty(r, second)+innocents)
		}
		if time.Since(changed) > time.Minute {
			t.Fatalf("not all changes are served after a minute: %+v", r.status(t).Trial)
		}
	}
	took := time.Since(changed).Round(10 * time.Millisecond)
	if strings.Contains(r.server.Log(), trial.LogLapsed) {
		t.Error("texts passed without a trial")
	}
	t.Logf("%v, the proxy died %d times", took, len(p.Deaths()))
	return took
}

// withSlowTrial is withTrial with a proxy that needs a while to come back.
func withSlowTrial(t *testing.T, faults Faults) (*rehearsal, *Proxy) {
	t.Helper()
	traffic, support := programs.FreeAddresses(t)
	r := newRehearsal(t, "--trial-proxy=http://"+support, "--state-dir="+t.TempDir())
	p := Start(t, Config{
		RoutesURL: r.server.Support + api.PathTrialRoutes, AliveURL: r.server.Support + api.PathTrialAlive, Traffic: traffic, Support: support,
		Faults: faults, Poll: 500 * time.Millisecond, Backoff: 1500 * time.Millisecond,
	})
	r.server.Ready(t)
	programs.Eventually(t, "verdicts on the served table, as in a fleet", func() bool { s := r.status(t).Trial; return s.Accepted > 0 && s.Waiting == 0 })
	return r, p
}
