//go:build !race

package table_test

import "testing"

func TestChangedListIsTheListMadeAnew(t *testing.T) {
	for seed := range uint64(20) {
		walkLists(t, seed, 3000, 20)
	}
	for seed := range uint64(50) {
		walkLists(t, seed, 5, 30)
	}
}
