package cluster

import "testing"

// All of a few objects, or most of many: a loss of half of them happens every day.
func TestWhichLossesAreConfirmed(t *testing.T) {
	for _, tt := range []struct {
		lost, known int
		want        bool
	}{
		{0, 0, false}, {0, 10, false}, {1, 1, true}, {1, 2, false}, {2, 2, true}, {2, 3, true}, {5, 10, false}, {6, 10, true}, {10, 10, true},
	} {
		if got := (listing{lost: tt.lost}).suspicious(tt.known); got != tt.want {
			t.Errorf("%d of %d: %v, want %v", tt.lost, tt.known, got, tt.want)
		}
	}
}
