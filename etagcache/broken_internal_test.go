package etagcache

import (
	"net/netip"
	"testing"

	"github.com/routesrv/routesrv/table"
)

// A break concerns one body at one address.
func TestOtherBodiesAreNotTouched(t *testing.T) {
	var b brokenBodies
	key := bodyKey{netip.AddrFrom4([4]byte{127, 0, 0, 1}), table.Digest{1}, gzipped}
	b.brokeOff(key, 4)
	b.brokeOff(key, 2) // a late report of an older break
	if got := b.rotation(key); got != 5 {
		t.Errorf("rotation %d after 4 and 2 broke off", got)
	}
	client, digest, encoding := key, key, key
	client.client = netip.AddrFrom4([4]byte{127, 0, 0, 2})
	digest.digest = table.Digest{2}
	encoding.encoding = zstandard
	for _, other := range []bodyKey{client, digest, encoding} {
		if b.rotation(other) != 0 {
			t.Errorf("%+v broke off, too", other)
		}
	}
}

// When there are too many breaks, the first ones are forgotten.
func TestBrokenBodiesAreBounded(t *testing.T) {
	var b brokenBodies
	key := func(n int) bodyKey {
		return bodyKey{client: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}
	}
	for n := range maxBroken + 3 {
		b.brokeOff(key(n), 0)
		b.brokeOff(key(n), 1)
	}
	for n, want := range map[int]uint32{0: 0, 2: 0, 3: 2, maxBroken: 2, maxBroken + 2: 2} {
		if got := b.rotation(key(n)); got != want {
			t.Errorf("body %d has rotation %d, want %d", n, got, want)
		}
	}
	if len(b.known.byKey) != maxBroken || len(b.known.keys) != maxBroken {
		t.Errorf("%d bodies are remembered under %d keys", len(b.known.byKey), len(b.known.keys))
	}
}
