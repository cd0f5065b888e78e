//go:build !race

package etagcache_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// TestEveryAnswerLeadsToTheTable simulates clients that come back after any number of versions, with any encoding and zone.
func TestEveryAnswerLeadsToTheTable(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := newCache(t, etagcache.Config{})
		handler := c.Handler()
		type client struct {
			zone string
			etag string
			held *table.Table
		}
		clients := make([]client, 12)
		for i := range clients {
			clients[i].zone = []string{"", "", "a", "b", "nowhere"}[i%5]
		}
		version := map[int]int{}
		deltas := 0
		for step := range 150 {
			for range 1 + rng.IntN(3) {
				if i := rng.IntN(40); rng.IntN(4) == 0 {
					delete(version, i)
				} else {
					version[i] = step
				}
			}
			version[0] = step
			var doc strings.Builder
			for i := range 40 {
				if v, ok := version[i]; ok {
					if i%3 == 0 {
						fmt.Fprintf(&doc, "r%02d: Path(\"/%d\") -> <shunt>;", i, v)
					} else {
						doc.WriteString(zoned(fmt.Sprintf("r%02d", i), v))
					}
				}
			}
			tab := parseTable(t, doc.String(), uint64(step+1), start)
			poll(c, tab, uint64(step+1), start)
			for n := range clients {
				cl := &clients[n]
				if rng.IntN(1+n) > 0 { // later ones come back less often
					continue
				}
				path := strings.TrimSuffix("/routes/"+cl.zone, "/")
				encoding := []string{"", "gzip", "zstd", "zstd, gzip"}[rng.IntN(4)]
				w := askDelta(handler, path, encoding, cl.etag)
				got, want := applied(t, cl.held, w), tab.Zone(cl.zone)
				if got != string(want.Text()) {
					t.Fatalf("seed %d, step %d, zone %q, status %d: client has\n%s\nwant\n%s", seed, step, cl.zone, w.Code, got, want.Text())
				}
				if w.Code == http.StatusIMUsed {
					deltas++
				}
				cl.held, cl.etag = want, w.Header().Get("Etag")
				if again := askDelta(handler, path, "", cl.etag); again.Code != http.StatusNotModified {
					t.Fatalf("seed %d, step %d: status %d for the current table in another encoding, want 304", seed, step, again.Code)
				}
			}
		}
		if deltas < 50 {
			t.Errorf("seed %d: %d answers were deltas, want most of them", seed, deltas)
		}
	}
}

func TestBrokenBodyIsNeverConfirmed(t *testing.T) {
	reset := func(c *rawClient) { c.cut() }
	closed := func(c *rawClient) { _ = c.conn.Close() } // with unread data
	for _, test := range []struct {
		name    string
		read    float64 // share of the body that the client reads before it leaves
		leave   func(*rawClient)
		tls     bool
		headers []string
	}{
		{name: "reset at once", leave: reset},
		{name: "reset in the middle", read: 0.01, leave: reset},
		{name: "closed in the middle", read: 0.01, leave: closed},
		{name: "closed in the middle over TLS", read: 0.01, leave: closed, tls: true},
		{name: "last body of its connection, reset", leave: reset, headers: []string{"Connection: close"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, test.tls)
			poll(s.cache, incompressible(t, more, 7), 7, start)
			etag := s.breakOff(t, test.read, test.leave, "", test.headers...).Header.Get("Etag")

			status, again := s.fetch(t, etag)
			if status != http.StatusOK {
				t.Fatalf("got %d for the ETag of a body that broke off, want 200", status)
			}
			if again == etag {
				t.Fatalf("the body came again under the ETag %s that is known to be broken", etag)
			}
			if status, confirmed := s.fetch(t, again); status != http.StatusNotModified || confirmed != again {
				t.Errorf("got %d, %s for the whole body %s; want 304 and its ETag", status, confirmed, again)
			}
			// Another client behind the same address, with the first ETag: once more, not twice.
			if status, other := s.fetch(t, etag); status != http.StatusOK || other != again {
				t.Errorf("got %d, %s for the first ETag; want 200 and %s", status, other, again)
			}
			if got := testutil.ToFloat64(s.metrics.BrokenBodies); got != 1 {
				t.Errorf("%v broken bodies counted, want 1", got)
			}
		})
	}
}
