package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// An acceptance may name a table of before: any of the last ones, and of those before what somebody here was told.
func TestWhichTablesOfAHeldIntentCanBeAccepted(t *testing.T) {
	var h parts
	var digests []table.Digest
	const all = 2 * maxShown
	for n := range all {
		route := table.Route{ID: "a", Text: fmt.Sprintf("a: * -> status(%d) -> <shunt>;", n)}
		tab, err := table.New([]table.Route{route}, uint64(n), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			h.first = tab
		}
		h.show(tab)
		h.show(tab.WithRevision(0)) // the same once more is no other table
		same, _ := table.New([]table.Route{route}, uint64(n), time.Time{})
		digests = append(digests, same.Digest()) // which tells nobody of tab
		if n%2 == 0 {
			tab.Digest() // somebody is told
		}
	}
	if len(h.shown) > maxAnyDigest || len(h.told) > maxShown {
		t.Errorf("%d tables and %d digests are kept", len(h.shown), len(h.told))
	}
	for _, tt := range []struct {
		n    int
		want bool
	}{
		{all - 1, true}, {all - maxAnyDigest, true}, {all - maxAnyDigest - 2, true}, {all - maxAnyDigest - 1, false},
		{all - maxShown, true}, {0, false}, {1, true}, // the first
	} {
		if got := h.isOfHeld(digests[tt.n]); got != tt.want {
			t.Errorf("table %d of %d: %v, want %v", tt.n, all, got, tt.want)
		}
	}
}
