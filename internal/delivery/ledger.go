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

// maxBroken bounds how many broken bodies are remembered; the one that was used longest ago is forgotten first.
const maxBroken = 4096

// maxChecked bounds how many connections to one address are looked at for one request. More than a few have only
// addresses that many clients share.
const maxChecked = 64

// Ledger remembers which bodies have not arrived at whom. Addresses stand for clients: a Skipper opens a new
// connection for most requests and sends nothing else that would tell it from another. Its methods are safe for concurrent use.
type Ledger struct {
	broke func() // set by New: a body broke off

	busy   atomic.Int64 // entries in open and broken: most of the time there are none, and nobody needs the lock
	mu     sync.Mutex
	open   map[Key]map[*Body]struct{} // sent, and not known to have arrived
	broken map[Key]*list.Element      // of lru
	lru    *list.List                 // of brokenBody, most recently used first
}

// Key names the bytes that were sent to an address. The revision is not part of it: it does not change the bytes.
type Key struct {
	Client   netip.Addr
	Digest   [sha256.Size]byte // of the content before it was encoded
	Encoding uint8             // any number for each content coding
}

type brokenBody struct {
	key      Key
	rotation uint32 // the highest under which the body broke off
	healed   bool   // it has arrived since, under a higher one
}

// Body is a body that was sent, or is being sent, until it is known whether it arrived. It is made by [Ledger.Begin].
type Body struct {
	ledger    *Ledger
	key       Key
	rotation  uint32
	conn      *trackedConn // nil if the connection is not tracked
	closing   bool         // the connection ends with this body
	tls       bool
	awaited   atomic.Bool   // a request has waited for its end
	written   chan struct{} // closed when the handler is done with writing, well or not
	concluded chan struct{} // closed when it is known whether the body arrived
}

// New returns a ledger that calls broke for each body that broke off. It calls it under a lock: broke must be quick, and must not
// use the ledger.
func New(broke func()) *Ledger {
	return &Ledger{
		broke: broke, open: make(map[Key]map[*Body]struct{}), broken: make(map[Key]*list.Element), lru: list.New(),
	}
}

// Rotation returns the rotation of the ETag under which the body is sent now.
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

// Arrived reports whether a client that names the ETag with this rotation can be believed to hold its body. Bodies on
// connections to the client's address that the peer has just broken off count as broken from now on: the client may
// well be faster with its next request than the goroutine that serves the old connection.
func (l *Ledger) Arrived(key Key, rotation uint32) bool {
	if l.busy.Load() == 0 {
		return true
	}
	l.check(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	return rotation >= l.rotationLocked(key)
}

// Whole reports whether a client at this address that names no ETag can be believed to hold the body it was sent last.
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

// check concludes the bodies under key whose peer has left before they arrived.
func (l *Ledger) check(key Key) {
	open := l.someOpen(key)
	awaitResets(open)
	for _, b := range open {
		if b.conn == nil {
			continue // the handler will know
		}
		left := b.conn.left()
		if left {
			// All that was written has arrived, but not all may have been written. It is a matter of microseconds:
			// nobody waits for a peer that has left.
			<-b.written
		}
		if b.conn.concluding() {
			<-b.concluded // likewise
		}
		switch {
		case b.conn.lost():
			b.conclude(false)
		case left:
			b.conclude(true)
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
func awaitResets(open []*Body) {
	waitFor := doubtful(open)
	undecided := func(b *Body) bool { return b.conn.open() }
	for end := time.Now().Add(resetWait); time.Now().Before(end) && slices.ContainsFunc(waitFor, undecided); {
		time.Sleep(time.Millisecond) // the kernel has no event for us: the connection belongs to its own goroutine
	}
}

// doubtful returns the bodies whose ends are worth a wait. A body that is on its way is waited for by every request; one that
// the peer's kernel has, by one request only.
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

// Begin notes that the body of an answer to r is about to be written, under an ETag with the rotation. The caller must call
// [Body.End] when it is done with writing.
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

// End notes whether all of the body was written, and nothing of the answer may follow; ctx is that of the request. Where the connection is tracked, this is not the last
// word: the body is concluded when the connection ends or is used for another request.
func (b *Body) End(ctx context.Context, whole bool) {
	defer close(b.written)
	if whole && ctx.Err() != nil {
		// The peer has closed the connection, maybe because it has all it wanted. If nobody knows better, the request
		// ended before its answer.
		whole = b.conn != nil && !b.conn.lost()
	}
	if whole && b.conn != nil {
		b.conn.sent(b)
		return
	}
	b.conclude(whole)
}

// conclude notes whether the body arrived. Only the first call counts.
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

// Break notes that a body broke off which Begin was not told about.
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
