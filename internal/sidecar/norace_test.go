//go:build !race

package sidecar_test

// fleetSize is that of the simulation.
const fleetSize = 300
