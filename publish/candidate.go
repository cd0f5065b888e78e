package publish

import (
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Candidate is a table that a producer offers, with what the producer knows about it. It is a value; nothing that it refers to
// may be changed.
type Candidate struct {
	Table *table.Table
	// Read is the read of the source, or the answer of a server, that showed the table.
	Read table.Read
	// Snapshot is what the table was compiled from; nil where only tables are known.
	Snapshot *kube.Snapshot
	// Origin is where the table comes from, as recorded in the last-known-good file.
	Origin string

	// Only for a table that a server sent:

	// Names are the ETags of the table, the server's first; empty if it has none.
	Names []string
	// Sent is the digest of the text as the server sent it. It equals the digest of Table unless the text was not canonical.
	Sent table.Digest
	// State is the X-Table-State of the answer; empty for a table that is neither stale nor held.
	State string
}

// Served is the served candidate. It is immutable: an answer that confirms it creates a new one.
type Served struct {
	Candidate
	// Committed is when this process began to serve the table. Confirmed is when a read last showed it; zero if none has.
	Committed, Confirmed time.Time
	// Initialized is when the Publisher first served a table that a read had shown, and Updated when it last began to serve a different
	// one. Zero means never.
	Initialized, Updated time.Time
	// Stale means that the table comes from the last-known-good file and no read has shown it yet.
	Stale bool
}

// View is the served table and the held one at one moment; nil if there is none.
type View struct {
	Served *Served
	Held   *Candidate
}

// Result is the result of an offer.
type Result int

// The results.
const (
	Published Result = iota // the table is now served
	Unchanged               // the table was already served
	Held                    // the table is held back
	Overtaken               // no effect: an acceptance or another offer came after the producer had asked
)

// Outcome is the result of an offer, with the reason.
type Outcome struct {
	Result Result
	// Before is the table served before; nil if there was none.
	Before *table.Table
	// Now is the table served now; nil if there is none. It can be new even while objects are kept: everything
	// else is still updated.
	Now *table.Table
}
