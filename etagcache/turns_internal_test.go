package etagcache

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

var (
	crowded = netip.MustParseAddr("10.0.0.1") // has many streams
	lonely  = netip.MustParseAddr("10.0.0.2")
)

// line makes n turns, all of which are taken.
func line(n int) *turns {
	t := &turns{}
	t.init(n)
	for range n {
		t.try()
	}
	return t
}

// wait takes a turn in a goroutine and sends who got it.
func wait(ctx context.Context, t *turns, who netip.Addr, got chan<- netip.Addr) {
	go func() {
		if t.take(ctx, who) == nil {
			got <- who
		}
	}()
	synctest.Wait() // so that the order is known
}

// TestAddressesTakeTurns: an address with a hundred waiting streams delays only itself.
func TestAddressesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, got := line(1), make(chan netip.Addr, 200)
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			wait(ctx, turns, crowded, got)
		}
		wait(ctx, turns, lonely, got)
		for i, want := range []netip.Addr{crowded, lonely, crowded, crowded} {
			turns.pass()
			synctest.Wait()
			if who := <-got; who != want {
				t.Errorf("turn %d is that of %s, want %s", i, who, want)
			}
		}
		cancel()
		synctest.Wait()
		if turns.pass(); turns.free != 1 || len(turns.ring) != 0 || len(turns.lines) != 0 {
			t.Errorf("%d free, in line %v", turns.free, turns.lines)
		}
	})
}

// TestWhoLeavesTheLineLosesNoTurn: neither the turn of the one who leaves, which may come at the same moment, nor that of another
// is lost.
func TestWhoLeavesTheLineLosesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, got := line(1), make(chan netip.Addr, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		left := make(chan error)
		go func() { left <- turns.take(ctx, crowded) }()
		synctest.Wait()
		wait(t.Context(), turns, lonely, got)
		cancel(gone)
		if err := <-left; !errors.Is(err, gone) {
			t.Errorf("left with %v", err)
		}
		turns.pass()
		synctest.Wait()
		if who := <-got; who != lonely {
			t.Errorf("the turn of %s", who)
		}
		turns.pass()
		if turns.free != 1 {
			t.Errorf("%d free", turns.free)
		}
	})
	for range 1000 { // both at once
		turns := line(1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- turns.take(ctx, crowded) }()
		for waits := false; !waits; runtime.Gosched() {
			turns.mu.Lock()
			waits = len(turns.ring) == 1
			turns.mu.Unlock()
		}
		cancel() // the waiting one leaves the line, and often gets the turn first
		turns.pass()
		if <-done == nil {
			turns.pass()
		}
		if turns.free != 1 || len(turns.ring) != 0 {
			t.Fatalf("%d free, in line %v", turns.free, turns.ring)
		}
	}
}

// TestATurnEndsByItself: a turn ends by itself, and only once.
func TestATurnEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := line(1)
		end := turns.begin()
		time.Sleep(turnTime)
		synctest.Wait()
		if end(); turns.free != 1 {
			t.Errorf("%d free", turns.free)
		}
	})
}
