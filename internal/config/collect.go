package config

import (
	"os"
	"runtime/debug"
)

// gcPercent trades a little CPU time for memory: nearly all of the heap is the table and, in a program that computes one, the
// objects. They are long-lived, and the default would allow as much garbage again. A table that is being received must not take
// twice its size because of uncollected garbage. docs/performance.md compares values.
const gcPercent = 30

// setGCPercent sets gcPercent unless GOGC is set.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
