package compile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func FuzzIDs(f *testing.F) {
	f.Add("")
	f.Add("kube_shop__cart__a,kube_shop__cart__a_redirect,kube_shop__cart__b")
	f.Add("a,,b,a,ab,abc")
	f.Add(strings.Repeat("x", 300) + "," + strings.Repeat("x", 200) + "y")
	f.Fuzz(func(t *testing.T, text string) {
		list := strings.Split(text, ",")
		all := newIDs(new([]byte), list)
		for i, want := range list {
			if got := all.at(i); got != want {
				t.Errorf("id %d of %q: %q", i, list, got)
			}
		}
	})
}

// Ids of neighbours take a fraction of their text.
func TestNeighboursShareTheirIDs(t *testing.T) {
	var list []string
	for i := range maxIDs {
		list = append(list, fmt.Sprintf("kube_team-shop__checkout-frontend__checkout_shop_example_org____checkout-%d", i/2)+[]string{"", "_https_redirect"}[i%2])
	}
	slices.Sort(list)
	if n, whole := len(newIDs(new([]byte), list)), len(strings.Join(list, "")); n > whole/4 {
		t.Errorf("%d bytes for ids of %d", n, whole)
	}
}
