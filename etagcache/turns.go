package etagcache

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// turnTime is the maximum duration of a turn. Then the turn passes to the next stream, and the rest of the table is sent without
// one, so that stalled or slow readers do not block others.
const turnTime = time.Second

// turns limits how many streams may be sent a full table at the same time. Streams of one address wait in a line, and the
// addresses alternate: a client with many streams delays only itself.
type turns struct {
	mu    sync.Mutex
	free  int
	lines map[netip.Addr][]chan struct{} // of the addresses in ring; a channel is closed when its turn comes
	ring  []netip.Addr                   // addresses with waiting streams, the next one first
}

func (t *turns) init(n int) {
	t.free, t.lines = n, make(map[netip.Addr][]chan struct{})
}

// try takes a turn if one is free.
func (t *turns) try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == 0 {
		return false
	}
	t.free--
	return true
}

// take waits for a turn. It returns the error of the context.
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
			t.pass() // the turn came meanwhile
		}
		return context.Cause(ctx)
	}
}

// leave removes a stream from its line. It returns false if the stream is no longer in it.
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

// pass ends a turn, and gives it to the next waiting stream.
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

// begin returns a function that ends the turn, unless turnTime has already ended it.
func (t *turns) begin() (end func()) {
	once := sync.OnceFunc(t.pass)
	timer := time.AfterFunc(turnTime, once)
	return func() {
		timer.Stop()
		once()
	}
}
