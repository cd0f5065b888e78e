//go:build race

package sidecar_test

// fleetSize is the number of data planes in the simulation. The runtime of the race detector does not survive half an hour of 300
// data planes: it runs out of epochs.
const fleetSize = 30
