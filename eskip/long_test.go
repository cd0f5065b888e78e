//go:build !race

package eskip

import (
	"math/rand/v2"
	"testing"
)

func TestAgreesWithOracleOnRandomText(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	parsed := 0
	for range 15_000 {
		text := randomText(rnd)
		if _, err := Parse(text); err == nil {
			parsed++
		}
		checkAgainstOracle(t, text)
		if t.Failed() {
			return
		}
	}
	if parsed < 150 {
		t.Errorf("only %d of the random documents parse: the test says little", parsed)
	}
}
