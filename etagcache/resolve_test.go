package etagcache_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// relayed tells the cache of a response of another route server, which does not say up to where its table is complete.
func relayed(c *etagcache.Cache, t *table.Table, r table.Read) {
	r.Newest = t.Revision()
	c.Begin()(t, r)
}

func naming(c *etagcache.Cache, path, tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("If-None-Match", tag)
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	return w
}

// TestResolvedClaim: a table that the source approved is sent under its revision at the source.
func TestResolvedClaim(t *testing.T) {
	asked := 0
	c := newCache(t, etagcache.Config{Recheck: func() { asked++ }})
	tab := parseTable(t, `a: * -> <shunt>;`, 10, start)
	relayed(c, tab, table.Read{At: start})
	other := parseTable(t, `b: * -> <shunt>;`, 12, start)
	name := fmt.Sprintf(`"%s.12"`, other.Digest())
	for range 3 {
		if w := naming(c, "/routes", name); w.Code != http.StatusNotModified || w.Header().Get("Etag") != name {
			t.Fatalf("before: %d, %v", w.Code, w.Header())
		}
		relayed(c, tab, table.Read{At: start})
	}
	claim := etagcache.Claim{Digest: other.Digest(), Revision: 12}
	if got := c.Claims(); len(got) != 1 || got[0] != claim || asked != 1 {
		t.Fatalf("claims %v, asked %d times", got, asked)
	}
	if c.Resolve(claim, other.Digest(), 14) || c.Resolve(etagcache.Claim{Revision: 3}, tab.Digest(), 14) {
		t.Error("resolved for a table that is not current, or for a claim that nobody made")
	}
	if !c.Resolve(claim, tab.Digest(), 14) || len(c.Claims()) != 0 {
		t.Error("not resolved")
	}
	relayed(c, tab.WithRevision(14), table.Read{At: start})
	want := fmt.Sprintf(`"%s.14"`, tab.Digest())
	if w := naming(c, "/routes", name); w.Code != http.StatusOK || w.Header().Get("Etag") != want {
		t.Errorf("after: %d, %v, want %s", w.Code, w.Header(), want)
	}
	if w := naming(c, "/routes", fmt.Sprintf(`"%s.13"`, other.Digest())); w.Code != http.StatusNotModified {
		t.Errorf("another claim: %d", w.Code)
	}
}

// TestResolvedClaimOfAZone: the table of the zone is also sent under the higher revision.
func TestResolvedClaimOfAZone(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	tab := manyRoutes(t, 0, 10)
	relayed(c, tab, table.Read{At: start})
	other := manyRoutes(t, 1, 12).Zone("a")
	name := fmt.Sprintf(`"%s.12"`, other.Digest())
	if w := naming(c, "/routes/a", name); w.Code != http.StatusNotModified {
		t.Fatalf("before: %d", w.Code)
	}
	c.Resolve(etagcache.Claim{Digest: other.Digest(), Revision: 12}, tab.Digest(), 14)
	want := fmt.Sprintf(`"%s.14"`, tab.Zone("a").Digest())
	if w := naming(c, "/routes/a", name); w.Code != http.StatusOK || w.Header().Get("Etag") != want {
		t.Errorf("after: %d, %v, want %s", w.Code, w.Header(), want)
	}
}

func TestStreamThatWaitsIsWokenByResolve(t *testing.T) {
	streaming(t, etagcache.Config{}, func(t *testing.T, ctx context.Context, c *etagcache.Cache, tr *http.Transport) {
		tab, other := manyRoutes(t, 0, 10), manyRoutes(t, 1, 12)
		relayed(c, tab, table.Read{At: time.Now()})
		l := listen(t, ctx, tr, watchURL, "", fmt.Sprintf(`"%s.12"`, other.Digest()))
		l.held = other
		l.next("current")
		begin := time.Now()
		c.Resolve(etagcache.Claim{Digest: other.Digest(), Revision: 12}, tab.Digest(), 14)
		l.next("fetch")
		if l.held.Digest() != tab.Digest() || time.Since(begin) > time.Second {
			t.Errorf("the client is at %s after %v", l.held.Digest(), time.Since(begin))
		}
	})
}

func TestStateOfTheSourcePassesThrough(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	tab := parseTable(t, `a: * -> <shunt>;`, 10, start)
	state := func() string { return naming(c, "/routes", "").Header().Get("X-Table-State") }
	for _, step := range []struct {
		read table.Read
		want string
	}{
		{table.Read{At: start}, ""}, {table.Read{At: start, Stale: true}, "stale"}, {table.Read{At: start, Held: true}, "held"},
		{table.Read{At: start}, ""}, {table.Read{At: start, Held: true}, "held"},
	} {
		relayed(c, tab, step.read)
		if got := state(); got != step.want {
			t.Errorf("%+v: state %q, want %q", step.read, got, step.want)
		}
	}
}

func TestTheETagFollowsAHigherRevision(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	tab := parseTable(t, `a: * -> <shunt>;`, 10, start)
	relayed(c, tab, table.Read{At: start})
	for _, revision := range []uint64{12, 14, 14} {
		relayed(c, tab.WithRevision(revision), table.Read{At: start})
	}
	want := fmt.Sprintf(`"%s.14"`, tab.Digest())
	if got := naming(c, "/routes", "").Header().Get("Etag"); got != want {
		t.Errorf("ETag %s, want %s", got, want)
	}
}

// TestAClaimFromBeforeTheSourceWentBackIsMadeAgain: a claim that nobody decided because its table came is decided once the source has gone back.
func TestAClaimFromBeforeTheSourceWentBackIsMadeAgain(t *testing.T) {
	asked := 0
	c := newCache(t, etagcache.Config{Recheck: func() { asked++ }})
	older, newer := parseTable(t, `a: * -> <shunt>;`, 10, start), parseTable(t, `b: * -> <shunt>;`, 12, start)
	relayed(c, older, table.Read{At: start})
	name := fmt.Sprintf(`"%s.12"`, newer.Digest())
	naming(c, "/routes", name) // another replica has it already
	relayed(c, newer, table.Read{At: start})
	if asked != 1 || len(c.Claims()) != 0 {
		t.Fatalf("asked %d times, claims %v", asked, c.Claims())
	}
	relayed(c, parseTable(t, `c: * -> <shunt>;`, 9, start), table.Read{At: start})
	if w := naming(c, "/routes", name); w.Code != http.StatusNotModified {
		t.Errorf("at first: %d", w.Code)
	}
	claim := etagcache.Claim{Digest: newer.Digest(), Revision: 12}
	if got := c.Claims(); asked != 2 || len(got) != 1 || got[0] != claim {
		t.Errorf("asked %d times, claims %v: the client would keep its table for ever", asked, got)
	}
}
