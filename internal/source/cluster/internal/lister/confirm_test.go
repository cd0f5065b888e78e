package lister

import (
	"slices"
	"testing"

	"github.com/routesrv/routesrv/kube"
)

// All of a few objects, or most of many: a loss of half of them happens every day.
func TestWhichLossesAreConfirmed(t *testing.T) {
	for _, tt := range []struct {
		lost, known int
		want        bool
	}{
		{0, 0, false}, {0, 10, false}, {1, 1, true}, {1, 2, false}, {2, 2, true}, {2, 3, true}, {5, 10, false}, {6, 10, true}, {10, 10, true},
	} {
		if got := (Listing{Lost: tt.lost}).Suspicious(tt.known); got != tt.want {
			t.Errorf("%d of %d: %v, want %v", tt.lost, tt.known, got, tt.want)
		}
	}
}

// TestForgettingBytesLeavesTheStateOfBefore, which others may have.
func TestForgettingBytesLeavesTheStateOfBefore(t *testing.T) {
	sum := Digest{1}
	before := State{Items: []Item{{Sum: sum, Object: &kube.Service{}}, {Sum: sum}}, Sorted: true, Seen: 7, Wire: WireDigest{1}}
	after := before
	after.ForgetBytes()
	if after.Wire != (WireDigest{}) || !after.Sorted || after.Seen != 7 || len(after.Items) != 2 || after.Items[0].Object != before.Items[0].Object {
		t.Errorf("the state is %+v", after)
	}
	for i := range before.Items {
		if before.Items[i].Sum != sum || after.Items[i].Sum != (Digest{}) {
			t.Errorf("item %d: digest %v, before %v", i, after.Items[i].Sum, before.Items[i].Sum)
		}
	}
}

func TestHashersTellTextsApart(t *testing.T) {
	h, err := newHasher()
	if err != nil {
		t.Fatal(err)
	}
	other, err := newHasher()
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Hasher{"GMAC": h, "SHA-256": (&Hasher{key: h.key}).fork()} {
		var seen []Digest
		for _, text := range []string{"", "a", "b", "ab", "\x00", "\x00\x00"} {
			d := h.Sum([]byte(text))
			if d == (Digest{}) || slices.Contains(seen, d) {
				t.Errorf("%s: %q has the digest of another text, %x", name, text, d)
			}
			if again := h.fork().Sum([]byte(text)); again != d || h.Sum([]byte(text)) != d {
				t.Errorf("%s: %q has the digests %x and %x", name, text, d, again)
			}
			seen = append(seen, d)
		}
	}
	if h.Sum([]byte("a")) == other.Sum([]byte("a")) {
		t.Error("two keys give one digest")
	}
}
