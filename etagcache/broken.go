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

type brokenBody struct {
	rotation uint32 // of the next ETag
	healed   bool   // the body has been written completely since, under that rotation
}

// rotation returns the current rotation for the ETag of the body. A client that names a lower one does not have the whole body.
func (b *brokenBodies) rotation(key bodyKey) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known.byKey[key].rotation
}

// whole reports whether a client that names no ETag can have the whole body that was last sent to its address.
func (b *brokenBodies) whole(key bodyKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.known.byKey[key]
	return !ok || known.healed
}

// written records that the whole body was written under a rotation.
func (b *brokenBodies) written(key bodyKey, rotation uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.known.byKey[key]; ok && rotation >= known.rotation {
		b.known.byKey[key] = brokenBody{known.rotation, true}
	}
}

// failed records that writing the body under a rotation failed, unless it has broken off since, under a higher one.
func (b *brokenBodies) failed(key bodyKey, rotation uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rotation >= b.known.byKey[key].rotation {
		b.known.put(key, brokenBody{rotation: rotation + 1}, maxBroken)
	}
}
