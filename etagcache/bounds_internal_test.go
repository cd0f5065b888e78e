package etagcache

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// numbered is a table of n routes; the routes in odd have another text.
func numbered(t *testing.T, n int, version int, odd ...int) *table.Table {
	t.Helper()
	routes := make([]table.Route, 0, n)
	for i := range n {
		code := 0
		if slices.Contains(odd, i) {
			code = version
		}
		id := fmt.Sprintf("r%03d", i)
		routes = append(routes, table.Route{ID: id, Text: fmt.Sprintf("%s: * -> status(%d) -> <shunt>;", id, code)})
	}
	tab, err := table.New(routes, uint64(version), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// since returns the ids of the routes that differ between a version and the last one.
func since(h *history, order uint64) (ids []string, ok bool) {
	h.add(digestOf(int(order)), "", seen(order, 0))
	return h.since(digestOf(int(order)), "", 1000)
}

// A delta goes back as far as changes are remembered, and names what has changed since, and nothing older.
func TestChangesAreRememberedForSomeVersions(t *testing.T) {
	const routes, last = 400, 300
	var c history
	before := numbered(t, routes, 0)
	c.record(nil, before, 1)
	for order := uint64(2); order <= last; order++ {
		now := numbered(t, routes, int(order), int(order)) // each version changes a different route, and reverts that of the previous version
		c.record(before, now, order)
		before = now
		if len(c.changed) > maxVersions+32 {
			t.Fatalf("%d ids are remembered after %d versions", len(c.changed), order)
		}
	}
	for back := range uint64(maxVersions + 1) {
		ids, ok := since(&c, last-back)
		var want []string
		if back > 0 {
			for order := last - back; order <= last; order++ {
				want = append(want, fmt.Sprintf("r%03d", order))
			}
		}
		if !ok || !slices.Equal(ids, want) {
			t.Fatalf("%d versions back: %v, %v, want %v", back, ids, ok, want)
		}
	}
	if _, ok := since(&c, last-maxVersions-1); ok {
		t.Errorf("changes of more than %d versions are remembered", maxVersions)
	}
}

// Added and removed routes count as changes.
func TestChangesEndWhereTheSourceWentBack(t *testing.T) {
	var c history
	small, large := numbered(t, 100, 0), numbered(t, 110, 0)
	c.record(nil, small, 1)
	c.record(small, large, 2)
	c.record(large, small, 3)
	if ids, ok := since(&c, 2); !ok || len(ids) != 10 || !slices.Contains(ids, "r109") {
		t.Errorf("routes that went: %v, %v", ids, ok)
	}
	c.record(nil, small, 4) // the source has gone back: there is no earlier version
	if _, ok := since(&c, 3); ok {
		t.Error("a delta may cross what is no change")
	}
}

func claimOf(n int) Claim {
	var d table.Digest
	binary.BigEndian.PutUint64(d[:], uint64(n)+1)
	return Claim{d, 100}
}

func clientNo(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}) }

// A client that names many tables evicts its own claims, the oldest first.
func TestAClientHasFewClaims(t *testing.T) {
	var c claims
	other := claimOf(1000)
	c.ask(other, clientNo(1), 1)
	for n := range maxClaimsPerClient + 1 {
		if _, isNew := c.ask(claimOf(n), clientNo(0), 1); !isNew {
			t.Fatalf("claim %d is known", n)
		}
	}
	if len(c.known.keys) != maxClaimsPerClient+1 {
		t.Errorf("%d claims are remembered, want all of one client and one of another", len(c.known.keys))
	}
	for n := range maxClaimsPerClient + 1 {
		if _, known := c.known.byKey[claimOf(n)]; known != (n > 0) {
			t.Errorf("claim %d is known: %v", n, known)
		}
	}
	if _, isNew := c.ask(other, clientNo(0), 1); isNew {
		t.Error("the claim of the other client is forgotten")
	}
}

// All clients together evict the oldest claims first.
func TestClaimsArePushedOutInOrder(t *testing.T) {
	var c claims
	for n := range maxClaims {
		c.ask(claimOf(n), clientNo(n), uint64(n))
	}
	want := maps.Clone(c.known.byKey)
	for gone := range 5 {
		n := maxClaims + gone
		c.ask(claimOf(n), clientNo(n), 1000)
		delete(want, claimOf(gone))
		want[claimOf(n)] = c.known.byKey[claimOf(n)]
		if !maps.Equal(c.known.byKey, want) {
			t.Fatalf("claim %d did not take the place of claim %d; %d claims", n, gone, len(c.known.keys))
		}
	}
}
