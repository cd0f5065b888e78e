package table

import "time"

// Read describes one complete read of a source, for ordering the tables of several readers.
//
// A read does not happen at one instant: each of its lists has another revision, and a list from a cache may be older than the
// others, or have an old revision only because no object of its kind was written since. So a read lies between two revisions.
type Read struct {
	// Oldest is the revision up to which the read is complete: it includes everything written until then. It is the lowest
	// revision of the lists, 0 if unknown.
	Oldest uint64
	// Newest is the highest revision of the lists: the read includes nothing that was written later. 0 if the source has no
	// revisions.
	Newest uint64
	// Consistent means that the read bypassed all caches: it is not older than any write before it began.
	Consistent bool
	// Held means that the read showed another table than the served one, and that a guard holds that table back.
	Held bool
	// Live, for a Held read, means that the served table was nevertheless derived from it, except for the held part. Backends
	// means that only backends are held. Candidate is the held table; nil if unknown.
	Live, Backends bool
	Candidate      *Table
	// Waiting means that the read showed another table than the served one, which will be served soon: package budget delays
	// changes that only add endpoints.
	Waiting bool
	// Stale means that the source, another route server, has the table from a last-known-good file and has not read its own
	// source since.
	Stale bool
	// At is when the read was complete.
	At time.Time
}
