package etagcache_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// A replica that holds an intent serves it with the newest backends. A client that has such a table from another replica gets the
// newer one. A client that has the table held here got it from a replica that released it, and keeps it.
func TestTablesOfAHeldIntentAreInOrder(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	read := func(at uint64, r table.Read) table.Read {
		r.Oldest, r.Newest, r.At, r.Consistent = at, at, start, true
		return r
	}
	c.Begin()(parseTable(t, `a: * -> "http://10.0.0.1"; b: * -> "http://10.0.0.1";`, 10, start), read(10, table.Read{}))

	candidate := parseTable(t, `a: * -> "http://10.0.0.3";`, 13, start)
	served := parseTable(t, `a: * -> "http://10.0.0.3"; b: * -> "http://10.0.0.3";`, 13, start)
	c.Begin()(served, read(13, table.Read{Held: true, Live: true, Candidate: candidate}))

	elsewhere := parseTable(t, `a: * -> "http://10.0.0.2"; b: * -> "http://10.0.0.2";`, 12, start)
	for range 2 {
		if w := naming(c, "/routes", fmt.Sprintf(`"%s.12"`, elsewhere.Digest())); w.Code != http.StatusOK {
			t.Errorf("a client with endpoints of before: %d, want the table", w.Code)
		}
		if w := naming(c, "/routes", fmt.Sprintf(`"%s.13"`, candidate.Digest())); w.Code != http.StatusNotModified {
			t.Errorf("a client that has the table which is held here: %d, want 304", w.Code)
		}
		again(c, read(14, table.Read{Held: true, Live: true, Candidate: candidate}))
	}
	again(c, read(15, table.Read{})) // the objects are back
	if w := naming(c, "/routes", fmt.Sprintf(`"%s.13"`, candidate.Digest())); w.Code != http.StatusOK {
		t.Errorf("after the hold: %d, want the table", w.Code)
	}
}

// TestConsistentReadCountsAfterReadsThroughCaches: a consistent read decides a claim also if the client asks again only after a later read
// through caches, which proves less. Otherwise the client would keep its older table while one kind has no writes.
func TestConsistentReadCountsAfterReadsThroughCaches(t *testing.T) {
	rechecks := 0
	c := newCache(t, etagcache.Config{Recheck: func() { rechecks++ }})
	served, named := parseTable(t, `a: * -> "http://10.0.0.1";`, 16, start), parseTable(t, `a: * -> "http://10.0.0.2";`, 14, start)
	c.Begin()(served, table.Read{Oldest: 10, Newest: 16, At: start})
	ask := func(want int, when string) {
		t.Helper()
		if w := naming(c, "/routes", fmt.Sprintf(`"%s.14"`, named.Digest())); w.Code != want {
			t.Errorf("%s: %d, want %d", when, w.Code, want)
		}
	}
	ask(http.StatusNotModified, "before a consistent read")
	if rechecks != 1 {
		t.Errorf("%d consistent reads were requested, want 1", rechecks)
	}
	again(c, table.Read{Oldest: 16, Newest: 16, At: start, Consistent: true})
	again(c, table.Read{Oldest: 10, Newest: 16, At: start})
	ask(http.StatusOK, "after a consistent read and one through caches")
	again(c, table.Read{Oldest: 8, Newest: 9, At: start}) // the source was restored
	ask(http.StatusNotModified, "after a restore")
}

// A client keeps the held table only while it is held, also one that this replica served before.
func TestClientsOfAHeldTableKeepIt(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	first := parseTable(t, `a: * -> "http://10.0.0.1"; b: * -> "http://10.0.0.1";`, 10, start)
	c.Begin()(first, table.Read{Oldest: 10, Newest: 10, At: start})
	candidate := parseTable(t, `a: * -> "http://10.0.0.2";`, 11, start)
	c.Begin()(parseTable(t, `a: * -> "http://10.0.0.2"; b: * -> "http://10.0.0.2";`, 11, start),
		table.Read{Oldest: 11, Newest: 11, At: start, Held: true, Live: true, Candidate: candidate})
	if w := naming(c, "/routes", fmt.Sprintf(`"%s.10"`, first.Digest())); w.Code != http.StatusOK {
		t.Errorf("a client with the table before: %d, want the table", w.Code)
	}
	// A table that was served before is held now, as after an etcd that went back and forth: clients that have it keep it.
	again(c, table.Read{Oldest: 12, Newest: 12, At: start, Held: true, Live: true, Candidate: first})
	if w := naming(c, "/routes", fmt.Sprintf(`"%s.10"`, first.Digest())); w.Code != http.StatusNotModified {
		t.Errorf("a client that has the table which is held here: %d, want 304", w.Code)
	}
}

// The served table changes during a hold, but not the fact that one is held.
func TestStateStaysWhileAHeldIntentLives(t *testing.T) {
	c := newCache(t, etagcache.Config{})
	state := func() string { return naming(c, "/routes", "").Header().Get("X-Table-State") }
	for _, tt := range []struct {
		backends bool
		want     string
	}{{false, "held"}, {true, "backends-held"}} {
		for revision := uint64(10); revision < 13; revision++ {
			c.Begin()(parseTable(t, fmt.Sprintf(`a: * -> "http://10.0.0.%d";`, revision), revision, start), table.Read{Newest: revision, Oldest: revision, At: start, Held: true, Live: true, Backends: tt.backends})
			if got := state(); got != tt.want {
				t.Errorf("state %q after a read, want %q", got, tt.want)
			}
		}
	}
	c.Publish(parseTable(t, `b: * -> <shunt>;`, 20, start)) // accepted
	if got := state(); got != "" {
		t.Errorf("state %q after an acceptance, want none", got)
	}
}
