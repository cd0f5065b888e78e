//go:build !race

package dataplane_test

import "testing"

// TestStreamsNeverGiveATableThatNoServerPublished runs the model with random scripts.
func TestStreamsNeverGiveATableThatNoServerPublished(t *testing.T) {
	randomScripts(t, 25, 160, 2, runStreamModel)
}

// TestNeverHoldsATableThatNoServerPublished runs the model with random scripts.
func TestNeverHoldsATableThatNoServerPublished(t *testing.T) {
	randomScripts(t, 40, 160, 1, runModel)
}
