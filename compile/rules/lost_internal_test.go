package rules

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUnsharedFindsEveryDifference: whatever the order of the lists, nothing that they do not share is missed.
func TestUnsharedFindsEveryDifference(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		var a, b []*int
		for range random.IntN(60) {
			p := new(int)
			if random.IntN(8) > 0 {
				a = append(a, p)
			}
			if random.IntN(8) > 0 {
				b = append(b, p)
			}
		}
		if seed%3 == 0 {
			random.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
		}
		found := make(map[*int]bool)
		unshared(a, b, func(p *int) { found[p] = true })
		for _, p := range slices.Concat(a, b) {
			if (!slices.Contains(a, p) || !slices.Contains(b, p)) && !found[p] {
				t.Fatalf("seed %d: an object of one list is not found", seed)
			}
		}
	}
}
