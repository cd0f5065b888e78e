package kube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDifferenceIsExact: whatever the order of the lists, it has what they do not share, and nothing else.
func TestDifferenceIsExact(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		var a, b []*Service
		for n := range random.IntN(60) {
			s := &Service{Name: fmt.Sprintf("%02d", n)}
			if random.IntN(8) > 0 {
				a = append(a, s)
			}
			if random.IntN(8) == 0 {
				s = &Service{Name: s.Name}
			}
			if random.IntN(8) > 0 {
				b = append(b, s)
			}
		}
		if seed%3 == 0 {
			random.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
		}
		gone, fresh := unshared(a, b)
		for _, lists := range [][3][]*Service{{a, b, gone}, {b, a, fresh}} {
			want := slices.DeleteFunc(slices.Clone(lists[0]), func(s *Service) bool { return slices.Contains(lists[1], s) })
			if !slices.Equal(lists[2], want) {
				t.Fatalf("seed %d: the difference has %d objects, want %d", seed, len(lists[2]), len(want))
			}
		}
	}
}
