// Package rollout decides how a data plane moves to the route server and back: which mode is in force, whether a cutover is
// allowed, when a data plane without an answering route server may read the cluster itself, and which tables its proxy lives with.
//
// It has five parts. Each only decides: no I/O, no clock, no log. Time is an argument.
//
//   - [Mode] says where the data plane's table comes from. A [Setting] is what an operator writes, such as "Exec:25%";
//     [Setting.For] returns its mode for one data plane. [MemberOf] selects which of its names counts for a share.
//   - [CutoverConfig] says whether the comparisons of Pre allow a cutover.
//   - [Decider] checks the requested mode against the cutover check and against what this data plane can do. It decides which mode is in
//     force and, if that is not the requested one, says why and what to do.
//   - [Fallback] decides when a data plane in Exec without an answering route server starts to read the cluster, and when it
//     stops.
//   - [Proof] decides which tables a proxy has lived with, and which one it probably died of.
//
// # What it guarantees
//
// Raising the share of a setting only adds data planes to Exec, and lowering it only removes some. Membership is the same in
// every process and after every restart. Where the share goes by nodes, it also survives a rollout of a Deployment, which renames
// every pod. If the cutover check refuses a switch to Exec, the current mode stays in force. A data plane starts to read the cluster only
// in its own slot of the fallback window. The slots of a fleet are spread evenly over the window, so that the loss of a route
// server does not bring back the load that it removes.
//
// # What it does not do
//
// It starts and stops nothing and knows tables only by their digests: package sidecar carries out its decisions.
package rollout

import (
	"crypto/sha256"
	"encoding/binary"
)

// Purposes of hashes of names. A name's hashes for different purposes are independent: data planes that enter Exec first must not
// be the ones that read the cluster first.
const (
	forShare = "share"
	forSlot  = "slot"
)

// place returns a fixed pseudo-random position in [0, 2^64) for a name. It uses SHA-256, because names of pods and nodes differ
// in few characters and faster hashes place such names close together.
func place(purpose, name string) uint64 {
	sum := sha256.Sum256([]byte(purpose + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}
