package delivery

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

// Requests wait for the ends of a few connections, but not of many: an attacker may have opened them.
func TestManyOpenBodiesAreNotWaitedFor(t *testing.T) {
	open := func(n int) []*Body {
		all := make([]*Body, n)
		for i := range all {
			all[i] = &Body{conn: &trackedConn{}} // no TCP: it counts as open
		}
		return all
	}
	few := open(maxAwaited)
	if got := len(doubtful(few)); got != maxAwaited {
		t.Errorf("%d of %d bodies are waited for", got, maxAwaited)
	}
	if got := len(doubtful(few)); got != 0 {
		t.Errorf("%d bodies that were waited for are waited for again", got)
	}
	if got := len(doubtful(open(maxAwaited + 1))); got != 0 {
		t.Errorf("%d of %d bodies are waited for, want none", got, maxAwaited+1)
	}
}

// TestLedgerIsBounded: when there are too many breaks, the ledger forgets the one that was named longest ago.
func TestLedgerIsBounded(t *testing.T) {
	broken := 0
	l := New(func() { broken++ })
	key := func(n int) Key {
		return Key{Client: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}
	}
	for n := range maxBroken {
		l.Break(key(n), 0)
	}
	if !l.Arrived(key(0), 1) { // so key(1) is the one that was named longest ago
		t.Error("the next rotation has not arrived")
	}
	l.Break(key(maxBroken), 0)
	for n, want := range map[int]uint32{0: 1, 1: 0, 2: 1, maxBroken: 1} {
		if got := l.Rotation(key(n)); got != want {
			t.Errorf("body %d has rotation %d, want %d", n, got, want)
		}
	}
	if got := len(l.broken); got != maxBroken || l.lru.Len() != maxBroken || broken != maxBroken+1 {
		t.Errorf("%d bodies are remembered, %d in order, %d counted", got, l.lru.Len(), broken)
	}
}

// TestNothingIsKeptOfWholeBodies: a body that arrived leaves no trace, and nothing needs the lock.
func TestNothingIsKeptOfWholeBodies(t *testing.T) {
	l := New(func() { t.Error("a body broke off") })
	r := httptest.NewRequest("GET", "/routes", nil)
	for range 3 {
		b := l.Begin(r, Key{}, 0)
		if got := l.busy.Load(); got != 1 {
			t.Errorf("busy is %d during a body", got)
		}
		b.End(r.Context(), true)
	}
	if l.busy.Load() != 0 || len(l.open)+len(l.broken)+l.lru.Len() != 0 {
		t.Errorf("busy is %d with %d open and %d broken bodies", l.busy.Load(), len(l.open), len(l.broken))
	}
}
