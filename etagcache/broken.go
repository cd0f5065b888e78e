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
	known recent[bodyKey, uint32] // rotations
}

// bodyKey identifies bytes sent to an address. It does not include the revision, which does not change the bytes.
type bodyKey struct {
	client   netip.Addr
	digest   table.Digest
	encoding encoding
}

// rotation returns the rotation of the next ETag: 0 if no body has broken off. A client that names a lower one, or no ETag at all, may
// have half a body.
func (b *brokenBodies) rotation(key bodyKey) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known.byKey[key]
}

// brokeOff records that a body with a rotation broke off, unless it has already done so under a higher one.
func (b *brokenBodies) brokeOff(key bodyKey, rotation uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rotation >= b.known.byKey[key] {
		b.known.put(key, rotation+1, maxBroken)
	}
}
