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
	b.sent(key, 4, false)
	b.sent(key, 2, false) // a late report of an older break
	b.sent(key, 4, true)  // of a body that began before the break
	if b.get(key).rotation != 5 || b.get(key).whole() {
		t.Errorf("rotation %d, whole %v after 4 and 2 broke off", b.get(key).rotation, b.get(key).whole())
	}
	b.sent(key, 5, true)
	if b.get(key).rotation != 5 || !b.get(key).whole() {
		t.Errorf("rotation %d, whole %v after 5 was written", b.get(key).rotation, b.get(key).whole())
	}
	b.sent(key, 5, false)
	client, digest, encoding := key, key, key
	client.client = netip.AddrFrom4([4]byte{127, 0, 0, 2})
	digest.digest = table.Digest{2}
	encoding.encoding = zstandard
	for _, other := range []bodyKey{client, digest, encoding} {
		b.sent(other, 0, true)
		if b.get(other).rotation != 0 || !b.get(other).whole() {
			t.Errorf("%+v broke off, too", other)
		}
	}
	if len(b.known.keys) != 1 {
		t.Errorf("%d bodies are remembered, want the broken one", len(b.known.keys))
	}
}

// When there are too many breaks, the first ones are forgotten.
func TestBrokenBodiesAreBounded(t *testing.T) {
	var b brokenBodies
	key := func(n int) bodyKey {
		return bodyKey{client: netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})}
	}
	for n := range maxBroken + 3 {
		b.sent(key(n), 0, false)
		b.sent(key(n), 1, false)
	}
	for n, want := range map[int]uint32{0: 0, 2: 0, 3: 2, maxBroken: 2, maxBroken + 2: 2} {
		if got := b.get(key(n)).rotation; got != want {
			t.Errorf("body %d has rotation %d, want %d", n, got, want)
		}
	}
	if len(b.known.byKey) != maxBroken || len(b.known.keys) != maxBroken {
		t.Errorf("%d bodies are remembered under %d keys", len(b.known.byKey), len(b.known.keys))
	}
}
