//go:build !race

package sidecar_test

// fleetSize is the number of data planes in the simulation.
const fleetSize = 300
