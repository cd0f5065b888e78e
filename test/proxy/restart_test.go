package proxy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// TestServerRestartsWithAKiller: the server restarts while an object that ends the proxies is in its table, and innocent objects change. No proxy tries
// any later table with that text before its next retry, and the server serves the innocent changes.
func TestServerRestartsWithAKiller(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and 7 processes")
	}
	t.Parallel()
	r := newRehearsal(t, "--state-dir="+t.TempDir())
	r.server.Ready(t)
	all := fleetOf(t, r, 3)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, d := range all {
		asking.Go(func() { d.ask("a.example.org", stop) })
	}
	fatal := r.object("fatal", fatalText())
	r.write(t, fatal)
	for i, d := range all {
		programs.Eventually(t, fmt.Sprintf("plane %d: the proven table", i), func() bool { return d.proof(t).Proof.Instead != "" && d.Proxy.Ready() })
	}
	fallen := time.Now()
	deaths := make([]int, len(all))
	for i, d := range all {
		deaths[i] = len(d.Deaths())
	}
	r.server.Kill(t)
	r.serve()
	r.server.Ready(t)
	more := fatal
	for i := range 5 {
		name := fmt.Sprint("innocent-", i)
		more += r.object(name, fmt.Sprintf("setPath(%q)", "/"+name))
		r.write(t, more)
		programs.Eventually(t, name, func() bool { return strings.Contains(r.table(t), "/"+name) })
		digest := r.status(t).Table.Digest.String()
		for j, d := range all {
			programs.Eventually(t, fmt.Sprintf("plane %d: it has fetched %s", j, name), func() bool { return r.held(t, fmt.Sprint("plane-", j)) == digest })
			if d.proof(t).Proof.Instead == "" {
				t.Errorf("plane %d: it serves %s to its proxy", j, name)
			}
		}
	}
	for i, d := range all {
		for _, death := range d.Deaths()[deaths[i]:] {
			if after := death.Sub(fallen); after < 50*time.Second { // the first retry is after a minute
				t.Errorf("plane %d: its proxy died again %s after it got the proven table", i, after)
			}
		}
	}
	if s := r.status(t); s.Guard.KeptCount != 0 || !strings.Contains(r.table(t), fatalText()) {
		t.Errorf("%d objects are kept, the table is\n%s", s.Guard.KeptCount, r.table(t))
	}
	r.write(t, strings.TrimPrefix(more, fatal))
	r.settled(t, all)
	close(stop)
	asking.Wait()
	r.answered(t, all)
}

// held returns the digest of the table that a data plane holds, as the server shows it.
func (r *rehearsal) held(t *testing.T, id string) string {
	t.Helper()
	for _, c := range r.clients(t).Clients {
		if c.ID == id && c.Holds != nil {
			return c.Holds.Digest.String()
		}
	}
	return ""
}
