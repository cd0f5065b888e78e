package lister

import (
	"bytes"
	"testing"
)

func TestDigestsTellTextsApart(t *testing.T) {
	h, err := newHasher()
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 200)
	for name, h := range map[string]*Hasher{"GMAC": h, "SHA-256": (&Hasher{key: h.key}).fork()} {
		seen := map[Digest]int{}
		for n := range text { // every length, and every bit of some bytes
			seen[h.Sum(text[:n])]++
		}
		for i := 0; i < len(text); i += 97 {
			for bit := range 8 {
				other := bytes.Clone(text)
				other[i] ^= 1 << bit
				seen[h.Sum(other)]++
			}
		}
		if want := len(text) + (len(text)+96)/97*8; len(seen) != want {
			t.Errorf("%s: %d digests of %d texts", name, len(seen), want)
		}
		if a, b := h.Sum(text), h.fork().Sum(bytes.Clone(text)); a != b || a == (Digest{}) {
			t.Errorf("%s: the same text has the digests %x and %x", name, a, b)
		}
		if n := testing.AllocsPerRun(100, func() { h.Sum(text) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Who knows the digests of one process, or how they are made, knows nothing about those of another.
func TestEachSourceHasAKeyOfItsOwn(t *testing.T) {
	a, err := newHasher()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newHasher()
	if err != nil {
		t.Fatal(err)
	}
	if text := []byte("text"); a.Sum(text) == b.Sum(text) {
		t.Error("two sources make the same digests")
	}
}
