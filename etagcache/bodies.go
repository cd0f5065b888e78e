package etagcache

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/table"
)

// maxBroken bounds how many broken bodies are remembered; the one that was used longest ago is forgotten first.
const maxBroken = 4096

// maxChecked bounds how many connections to one address are looked at for one request. More than a few have only
// addresses that many clients share.
const maxChecked = 64

// bodies remembers which bodies have not arrived at whom. Addresses stand for clients: a Skipper opens a new
// connection for most requests and sends nothing else that would tell it from another.
type bodies struct {
	counter prometheus.Counter // of broken bodies

	busy   atomic.Int64 // entries in open and broken: most of the time there are none, and nobody needs the lock
	mu     sync.Mutex
	open   map[bodyKey]map[*receipt]struct{} // sent, and not known to have arrived
	broken map[bodyKey]*list.Element         // of lru
	lru    *list.List                        // of brokenBody, most recently used first
}

// bodyKey names the bytes that were sent to an address. The revision is not part of it: it does not change the bytes.
type bodyKey struct {
	client   netip.Addr
	digest   table.Digest
	encoding encoding
}

type brokenBody struct {
	key      bodyKey
	rotation uint32 // the highest under which the body broke off
	healed   bool   // it has arrived since, under a higher one
}

// receipt is a body that was sent, or is being sent, until it is known to have arrived.
type receipt struct {
	bodies   *bodies
	key      bodyKey
	rotation uint32
	conn     *trackedConn // nil if the connection is not tracked
	closing  bool         // the connection ends with this body
	tls      bool
	awaited  atomic.Bool   // a request has waited for its end
	written  chan struct{} // closed when the handler is done with writing, well or not
	settled  chan struct{} // closed when it is known whether the body arrived
}

func (b *bodies) init(counter prometheus.Counter) {
	b.counter = counter
	b.open = make(map[bodyKey]map[*receipt]struct{})
	b.broken = make(map[bodyKey]*list.Element)
	b.lru = list.New()
}

// rotation returns the rotation of the ETag under which the body is sent now.
func (b *bodies) rotation(key bodyKey) uint32 {
	if b.busy.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rotationLocked(key)
}

func (b *bodies) rotationLocked(key bodyKey) uint32 {
	e, ok := b.broken[key]
	if !ok {
		return 0
	}
	b.lru.MoveToFront(e)
	return e.Value.(*brokenBody).rotation + 1
}

// arrived reports whether a client that names the ETag with this rotation can be believed to hold its body. Bodies on
// connections to the client's address that the peer has just broken off count as broken from now on: the client may
// well be faster with its next request than the goroutine that serves the old connection.
func (b *bodies) arrived(key bodyKey, rotation uint32) bool {
	if b.busy.Load() == 0 {
		return true
	}
	b.check(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	return rotation >= b.rotationLocked(key)
}

// whole reports whether a client at this address that names no ETag can be believed to hold the body it was sent last.
func (b *bodies) whole(key bodyKey) bool {
	if b.busy.Load() == 0 {
		return true
	}
	b.check(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.broken[key]
	return !ok || e.Value.(*brokenBody).healed
}

// check settles the bodies under key whose peer has left before they arrived.
func (b *bodies) check(key bodyKey) {
	open := b.someOpen(key)
	awaitResets(open)
	for _, r := range open {
		if r.conn == nil {
			continue // the handler will know
		}
		left := r.conn.left()
		if left {
			// All that was written has arrived, but not all may have been written. It is a matter of microseconds:
			// nobody waits for a peer that has left.
			<-r.written
		}
		if r.conn.concluding() {
			<-r.settled // likewise
		}
		switch {
		case r.conn.lost():
			b.settle(r, false)
		case left:
			b.settle(r, true)
		}
	}
}

// A client that broke a body off and asks again at once may be faster than its reset, so a request waits once for the ends of
// other connections from its address that were sent the very body it names: resetWait, and not if there are more than
// maxAwaited. Then many clients share the address, or somebody opens connections and does not read, and the others must not pay
// for it.
const (
	resetWait  = 20 * time.Millisecond
	maxAwaited = 4
)

// awaitResets waits a moment for peers to break off bodies that they may not have read.
func awaitResets(open []*receipt) {
	waitFor := doubtful(open)
	undecided := func(r *receipt) bool { return r.conn.open() }
	for end := time.Now().Add(resetWait); time.Now().Before(end) && slices.ContainsFunc(waitFor, undecided); {
		time.Sleep(time.Millisecond) // the kernel has no event for us: the connection belongs to its own goroutine
	}
}

// doubtful returns the receipts whose ends are worth a wait. A body that is on its way is waited for by every request; one that
// the peer's kernel has, by one request only.
func doubtful(open []*receipt) []*receipt {
	var some []*receipt
	for _, r := range open {
		if r.conn != nil && (r.conn.underway() || r.conn.open() && !r.awaited.Swap(true)) {
			some = append(some, r)
		}
	}
	if len(some) > maxAwaited {
		return nil
	}
	return some
}

// someOpen returns up to maxChecked of the receipts for key.
func (b *bodies) someOpen(key bodyKey) []*receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	var some []*receipt
	for r := range b.open[key] {
		if some = append(some, r); len(some) == maxChecked {
			break
		}
	}
	return some
}

// begin says that a body is about to be written.
func (b *bodies) begin(r *receipt) {
	r.bodies = b
	r.written = make(chan struct{})
	r.settled = make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	set := b.open[r.key]
	if set == nil {
		set = make(map[*receipt]struct{})
		b.open[r.key] = set
	}
	set[r] = struct{}{}
	b.count()
}

// settle says whether the body arrived. Only the first call for a receipt counts.
func (b *bodies) settle(r *receipt, arrived bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(r, arrived)
}

func (b *bodies) settleLocked(r *receipt, arrived bool) {
	set := b.open[r.key]
	if _, ok := set[r]; !ok {
		return
	}
	delete(set, r)
	close(r.settled)
	if len(set) == 0 {
		delete(b.open, r.key)
	}
	if !arrived {
		b.markLocked(r.key, r.rotation)
	} else if e, ok := b.broken[r.key]; ok {
		known := e.Value.(*brokenBody)
		known.healed = known.healed || r.rotation > known.rotation
	}
	b.count()
}

// mark says that a body broke off that begin was not told about.
func (b *bodies) mark(key bodyKey, rotation uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.markLocked(key, rotation)
	b.count()
}

func (b *bodies) markLocked(key bodyKey, rotation uint32) {
	b.counter.Inc()
	if e, ok := b.broken[key]; ok {
		known := e.Value.(*brokenBody)
		if rotation >= known.rotation {
			known.rotation, known.healed = rotation, false
		}
		b.lru.MoveToFront(e)
		return
	}
	b.broken[key] = b.lru.PushFront(&brokenBody{key: key, rotation: rotation})
	if b.lru.Len() > maxBroken {
		oldest := b.lru.Remove(b.lru.Back()).(*brokenBody)
		delete(b.broken, oldest.key)
	}
}

// count updates busy. The caller holds mu.
func (b *bodies) count() {
	b.busy.Store(int64(len(b.open) + len(b.broken)))
}
