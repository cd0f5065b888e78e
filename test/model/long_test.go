//go:build !race

package model_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestGuaranteesOfPublishingHold runs the model with random scripts.
func TestGuaranteesOfPublishingHold(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 12))
			script := make([]byte, 81)
			for i := range script {
				script[i] = byte(chance.UintN(256))
			}
			if v := play(t, script, mistake{}); v != nil {
				t.Errorf("%s: %s", v.guarantee, v.text)
			}
		})
	}
}
