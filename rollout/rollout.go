// Package rollout decides how a data plane moves to the route server and back: which mode is in force, whether a cutover
// is allowed, and when a data plane whose route servers are gone may read the cluster itself.
//
// It has four parts, and each is a decision without anything else: no I/O, no clock, no log. Time comes in as an argument.
//
//   - [Mode] says who feeds the data plane; a [Setting] is what an operator writes, such as "Exec:25%", and
//     [Setting.For] makes a mode of it for one data plane. [ShareBy] says which of its names counts for a share.
//   - [GateConfig] says whether the comparisons of Pre allow a cutover.
//   - [Decider] holds what was asked for against the gate and against what this data plane can do. It says which mode is
//     in force and, if that is not the one asked for, why and what to do about it.
//   - [Fallback] says when a data plane in Exec that has lost its route servers starts to read the cluster, and when it
//     stops.
//
// # What it guarantees
//
// Raising the share of a setting only adds data planes to Exec, lowering it only takes some away, and which are in is the
// same for every process and after every restart. A rollout of a Deployment, which gives every pod another name, changes nothing about
// that where the share goes by nodes. A switch to Exec that the gate refuses leaves the mode that was in
// force. A data plane starts to read the cluster only in its own slot of the fallback window; the slots of a fleet are
// spread evenly over it, so that a route server that dies does not bring back the load that it was put there to take
// away.
//
// # What it does not do
//
// It starts and stops nothing and does not know what a table is: package sidecar does what is decided here.
package rollout

import (
	"crypto/sha256"
	"encoding/binary"
)

// Purposes of hashes of names. What a name gets for one says nothing about what it gets for another: those that enter
// Exec first must not be those that read the cluster first.
const (
	forShare = "share"
	forSlot  = "slot"
)

// place gives a name a fixed place in [0, 2^64) that looks random. SHA-256, as names of pods and nodes differ in few characters and
// faster hashes put such names side by side.
func place(purpose, name string) uint64 {
	sum := sha256.Sum256([]byte(purpose + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}
