package etagcache

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// turnTime is how long a turn lasts at most. What has not been sent by then goes on without one: a reader that takes nothing, or
// little, must not be in the way of those that do.
const turnTime = time.Second

// turns says how many streams may be sent a full table at a time. Those of one address wait in line, and the addresses come in
// turn: whoever has many streams waits for them himself.
type turns struct {
	mu    sync.Mutex
	free  int
	lines map[netip.Addr][]chan struct{} // of the addresses in ring; closed when it is one's turn
	ring  []netip.Addr                   // those with somebody in line, the next first
}

func (t *turns) init(n int) {
	t.free, t.lines = n, make(map[netip.Addr][]chan struct{})
}

// try takes a turn if there is one at once.
func (t *turns) try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 {
		return false
	}
	t.free--
	return true
}

// take waits for a turn. The error is that of the context.
func (t *turns) take(ctx context.Context, who netip.Addr) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	if len(t.lines[who]) == 0 {
		t.ring = append(t.ring, who)
	}
	t.lines[who] = append(t.lines[who], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		if !t.leave(who, mine) {
			t.pass() // it came meanwhile
		}
		return context.Cause(ctx)
	}
}

// leave takes somebody out of the line, and reports false for one that is not in it any more.
func (t *turns) leave(who netip.Addr, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.lines[who]
	at := slices.Index(line, mine)
	if at < 0 {
		return false
	}
	if t.lines[who] = slices.Delete(line, at, at+1); len(t.lines[who]) == 0 {
		delete(t.lines, who)
		t.ring = slices.DeleteFunc(t.ring, func(a netip.Addr) bool { return a == who })
	}
	return true
}

// pass ends a turn, and gives it to whoever is next.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) == 0 {
		t.free++
		return
	}
	who := t.ring[0]
	t.ring = t.ring[1:]
	line := t.lines[who]
	close(line[0])
	if line = line[1:]; len(line) > 0 {
		t.lines[who] = line
		t.ring = append(t.ring, who)
	} else {
		delete(t.lines, who)
	}
}

// begin makes a function that ends the turn, if time has not ended it before.
func (t *turns) begin() (end func()) {
	once := sync.OnceFunc(t.pass)
	timer := time.AfterFunc(turnTime, once)
	return func() {
		timer.Stop()
		once()
	}
}
