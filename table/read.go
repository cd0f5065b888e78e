package table

import "time"

// Read is what is known of one complete read of a source, for whoever has to order the tables of several readers.
//
// A read is not of one instant: each of its lists is of another, and one that comes from a cache may be older than the
// rest, or be of an old revision only because nothing of its kind was written since. So a read lies between two
// revisions.
type Read struct {
	// Oldest is the revision up to which the read is complete: it has all that was written until then. It is the lowest
	// of the lists, 0 if that is not known.
	Oldest uint64
	// Newest is the highest revision of the lists: nothing that was written later is in the read. 0 if the source has no
	// revisions.
	Newest uint64
	// Consistent says that the read went past all caches: it is not older than any write before it began.
	Consistent bool
	// Held says that the read showed another table than the one that is served, which a guard holds back.
	Held bool
	// Live says of a Held read that the table that is served was made of it all the same, but for what is held. Backends
	// says that only backends are. Candidate is the table that is held back; nil if that is not known.
	Live, Backends bool
	Candidate      *Table
	// Waiting says that the read showed another table than the one that is served, which is to be served soon: package budget has
	// changes wait that only add endpoints.
	Waiting bool
	// Stale says that the source, another route server, has the table from a checkpoint, and has not read its own source since.
	Stale bool
	// At is when the read was complete.
	At time.Time
}
