package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/routesrv/routesrv/table"
)

// An acceptance may name an earlier table of the held intent: any of the most recent ones, or an older one that was shown to
// somebody.
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
		h.show(tab.WithRevision(0)) // the same table again is no other table
		same, _ := table.New([]table.Route{route}, uint64(n), time.Time{})
		digests = append(digests, same.Digest()) // which does not show tab to anybody
		if n%2 == 0 {
			tab.Digest() // tab is shown to somebody
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
