package gate

import (
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Candidate is a table that a producer offers, with what the producer knows of it. It is a value; nobody changes what it
// refers to.
type Candidate struct {
	Table *table.Table
	// Read is the read of the source, or the answer of a server, that showed the table.
	Read table.Read
	// Snapshot is what the table was compiled from; nil where only tables are known.
	Snapshot *kube.Snapshot
	// Origin is where the table comes from. The last-good file says so.
	Origin string

	// Of a table that a server sent:

	// Names are the ETags that name the table, the server's first; empty if nothing does.
	Names []string
	// Sent is the digest of the text as the server sent it. It is that of Table unless the text was not canonical.
	Sent table.Digest
	// State is the X-Table-State of the answer; empty for a table that is neither stale nor held.
	State string
}

// Served is the candidate that is served. It is immutable: an answer that confirms it makes a new one.
type Served struct {
	Candidate
	// Committed is when this process began to serve the table; Confirmed when a read last showed it, zero if none has.
	Committed, Confirmed time.Time
	// Stale says that the table comes from the last-good file, and that no read has shown it yet.
	Stale bool
}

// View is what a Gate has at one moment: the served table and the one that it holds back; nil if there is none.
type View struct {
	Served *Served
	Held   *Candidate
}

// Result is what became of an offer.
type Result int

// The results.
const (
	Published Result = iota // the table is served now
	Unchanged               // the table was served already
	Held                    // the table is held back
	Overtaken               // nothing: an acceptance or another offer came after the producer had asked
)

// Outcome is what became of an offer, with the reason.
type Outcome struct {
	Result Result
	// Before is the table that was served before; nil if there was none.
	Before *table.Table
	// Now is the table that is served now; nil if there is none. During a hold it can be new, too: the half that is not to
	// blame goes on.
	Now *table.Table
}
