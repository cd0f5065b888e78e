package delivery

import (
	"container/list"
	"context"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxBroken limits how many broken bodies are remembered; the least recently used one is forgotten first.
const maxBroken = 4096

// maxChecked limits how many connections to one address are checked for one request. Only addresses shared by many clients have
// more than a few.
const maxChecked = 64

// Ledger remembers which bodies have not arrived. It identifies clients by address: a Skipper opens a new connection for most
// requests and sends nothing else that distinguishes it. Its methods are safe for concurrent use.
type Ledger struct {
	broke func() // set by New; called when a body broke off

	busy   atomic.Int64 // number of entries in open and broken; usually zero, so that the lock is not needed
	mu     sync.Mutex
	open   map[Key]map[*Body]struct{} // sent, and not known to have arrived
	broken map[Key]*list.Element      // elements of lru
	lru    *list.List                 // of brokenBody, most recently used first
}

// Key identifies bytes sent to an address. It does not include the revision, which does not change the bytes.
type Key struct {
	Client   netip.Addr
	Digest   [sha256.Size]byte // of the content before encoding
	Encoding uint8             // any number that identifies the content coding
}

type brokenBody struct {
	key      Key
	rotation uint32 // the highest one under which the body broke off
	healed   bool   // the body has arrived since, under a higher rotation
}

// Body is a body that is being sent or was sent, until it is known whether it arrived. [Ledger.Begin] creates it.
type Body struct {
	ledger    *Ledger
	key       Key
	rotation  uint32
	conn      *trackedConn // nil if the connection is not tracked
	closing   bool         // the connection ends with this body
	tls       bool
	awaited   atomic.Bool   // a request has already waited for its end
	written   chan struct{} // closed when the handler has finished writing, successfully or not
	concluded chan struct{} // closed when it is known whether the body arrived
}

// New returns a ledger that calls broke for each body that broke off. It calls broke while holding a lock: broke must be quick
// and must not use the ledger.
func New(broke func()) *Ledger {
	return &Ledger{
		broke: broke, open: make(map[Key]map[*Body]struct{}), broken: make(map[Key]*list.Element), lru: list.New(),
	}
}

// Rotation returns the current rotation for the ETag of the body.
func (l *Ledger) Rotation(key Key) uint32 {
	if l.busy.Load() == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rotationLocked(key)
}

func (l *Ledger) rotationLocked(key Key) uint32 {
	e, ok := l.broken[key]
	if !ok {
		return 0
	}
	l.lru.MoveToFront(e)
	return e.Value.(*brokenBody).rotation + 1
}

// Arrived reports whether a client that names the ETag with this rotation can have the whole body. Bodies on connections to the
// client's address that the peer has just broken count as broken from now on: the client's next request may be faster than the
// goroutine that serves the old connection.
func (l *Ledger) Arrived(key Key, rotation uint32) bool {
	if l.busy.Load() == 0 {
		return true
	}
	l.check(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	return rotation >= l.rotationLocked(key)
}

// Whole reports whether a client at this address that names no ETag can have the whole body that it was sent last.
func (l *Ledger) Whole(key Key) bool {
	if l.busy.Load() == 0 {
		return true
	}
	l.check(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.broken[key]
	return !ok || e.Value.(*brokenBody).healed
}

// check concludes the bodies under key whose peer left before they arrived.
func (l *Ledger) check(key Key) {
	open := l.someOpen(key)
	awaitResets(open)
	for _, b := range open {
		if b.conn == nil {
			continue // the handler will find out
		}
		left := b.conn.left()
		if left {
			// Everything written has arrived, but the handler may not have written everything yet. This wait takes microseconds,
			// because a write to a peer that has left does not block.
			<-b.written
		}
		if b.conn.concluding() {
			<-b.concluded // takes microseconds as well
		}
		switch {
		case b.conn.lost():
			b.conclude(false)
		case left:
			b.conclude(true)
		}
	}
}

// A client that broke off a body and asks again at once may be faster than its reset. A request therefore waits once, for
// resetWait, for the end of other connections from its address that were sent the body it names. It does not wait if there are
// more than maxAwaited: then many clients share the address, or somebody opens connections without reading, and the other clients
// must not pay for it.
const (
	resetWait  = 20 * time.Millisecond
	maxAwaited = 4
)

// awaitResets waits briefly for peers to break connections whose bodies they may not have read.
func awaitResets(open []*Body) {
	waitFor := doubtful(open)
	undecided := func(b *Body) bool { return b.conn.open() }
	for end := time.Now().Add(resetWait); time.Now().Before(end) && slices.ContainsFunc(waitFor, undecided); {
		time.Sleep(time.Millisecond) // the kernel offers no event: the connection belongs to its own goroutine
	}
}

// doubtful returns the bodies worth waiting for. Every request waits for a body that is still being transferred; only one request
// waits for a body that the peer's kernel already has.
func doubtful(open []*Body) []*Body {
	var some []*Body
	for _, b := range open {
		if b.conn != nil && (b.conn.underway() || b.conn.open() && !b.awaited.Swap(true)) {
			some = append(some, b)
		}
	}
	if len(some) > maxAwaited {
		return nil
	}
	return some
}

// someOpen returns up to maxChecked of the open bodies for key.
func (l *Ledger) someOpen(key Key) []*Body {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []*Body
	for b := range l.open[key] {
		if some = append(some, b); len(some) == maxChecked {
			break
		}
	}
	return some
}

// Begin records that the body of an answer to r is about to be written under an ETag with the rotation. The caller must call
// [Body.End] when it has finished writing.
func (l *Ledger) Begin(r *http.Request, key Key, rotation uint32) *Body {
	b := &Body{
		ledger: l, key: key, rotation: rotation, conn: trackedOf(r), closing: r.Close, tls: r.TLS != nil,
		written: make(chan struct{}), concluded: make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.open[key]
	if set == nil {
		set = make(map[*Body]struct{})
		l.open[key] = set
	}
	set[b] = struct{}{}
	l.count()
	return b
}

// End records whether the whole body was written; nothing of the answer may follow. ctx is the context of the request. On a
// tracked connection this is not final: the body is concluded when the connection ends or is used for another request.
func (b *Body) End(ctx context.Context, whole bool) {
	defer close(b.written)
	if whole && ctx.Err() != nil {
		// The peer has closed the connection, perhaps because it has everything it wanted. Unless the connection knows better,
		// the request ended before its answer.
		whole = b.conn != nil && !b.conn.lost()
	}
	if whole && b.conn != nil {
		b.conn.sent(b)
		return
	}
	b.conclude(whole)
}

// conclude records whether the body arrived. Only the first call counts.
func (b *Body) conclude(arrived bool) {
	l := b.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.open[b.key]
	if _, ok := set[b]; !ok {
		return
	}
	delete(set, b)
	close(b.concluded)
	if len(set) == 0 {
		delete(l.open, b.key)
	}
	if !arrived {
		l.breakLocked(b.key, b.rotation)
	} else if e, ok := l.broken[b.key]; ok {
		known := e.Value.(*brokenBody)
		known.healed = known.healed || b.rotation > known.rotation
	}
	l.count()
}

// Break records that a body broke off for which Begin was not called.
func (l *Ledger) Break(key Key, rotation uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakLocked(key, rotation)
	l.count()
}

func (l *Ledger) breakLocked(key Key, rotation uint32) {
	l.broke()
	if e, ok := l.broken[key]; ok {
		known := e.Value.(*brokenBody)
		if rotation >= known.rotation {
			known.rotation, known.healed = rotation, false
		}
		l.lru.MoveToFront(e)
		return
	}
	l.broken[key] = l.lru.PushFront(&brokenBody{key: key, rotation: rotation})
	if l.lru.Len() > maxBroken {
		oldest := l.lru.Remove(l.lru.Back()).(*brokenBody)
		delete(l.broken, oldest.key)
	}
}

// count updates busy. The caller holds mu.
func (l *Ledger) count() {
	l.busy.Store(int64(len(l.open) + len(l.broken)))
}
