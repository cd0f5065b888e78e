package etagcache

import (
	"net/netip"
	"sync"

	"github.com/routesrv/routesrv/table"
)

// maxBroken limits how many broken bodies are remembered; the one that broke off first is forgotten first.
const maxBroken = 4096

// brokenBodies remembers the bodies whose writing failed: the peer cannot have all of them. It identifies clients by address,
// because a Skipper opens a new connection for most requests and sends nothing else that distinguishes it.
//
// A rotation is part of the ETag of a body. It is higher than those under which the body broke off, so a client with half a body
// cannot name the whole one.
//
// It does not notice a body that breaks off after its last byte was passed to the kernel: every write succeeded. It is in memory,
// so a restart empties it. The zero value is empty.
type brokenBodies struct {
	mu    sync.Mutex
	known recent[bodyKey, brokenBody]
}

// bodyKey identifies bytes sent to an address. It does not include the revision, which does not change the bytes.
type bodyKey struct {
	client   netip.Addr
	digest   table.Digest
	encoding encoding
}

// brokenBody is what is known of the bodies under one key. The zero value means that none has broken off.
type brokenBody struct {
	rotation uint32 // of the next ETag; a client that names a lower one does not have the whole body
	healed   bool   // the body has been written completely since, under that rotation
}

// whole reports whether a client that names no ETag can have the whole body that was last sent to its address.
func (b brokenBody) whole() bool { return b.rotation == 0 || b.healed }

func (b *brokenBodies) get(key bodyKey) brokenBody {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known.byKey[key]
}

// sent records whether the whole body was written under a rotation, unless it has broken off since, under a higher one.
func (b *brokenBodies) sent(key bodyKey, rotation uint32, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch known := b.known.byKey[key]; {
	case rotation < known.rotation:
	case !whole:
		b.known.put(key, brokenBody{rotation: rotation + 1}, maxBroken)
	case known.rotation > 0:
		b.known.byKey[key] = brokenBody{known.rotation, true}
	}
}
