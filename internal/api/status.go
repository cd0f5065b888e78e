package api

import (
	"encoding/json"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Status is the answer of a route server to GET /status.
type Status struct {
	Version       string         `json:"version"`
	Started       time.Time      `json:"started"`
	Ready         bool           `json:"ready"`
	Table         *Table         `json:"table,omitempty"`
	Source        Source         `json:"source"`
	Upstream      *Fetch         `json:"upstream,omitempty"` // only on a relay
	Guard         Guard          `json:"guard"`
	Trial         *Trial         `json:"trial,omitempty"`          // with a trial proxy, or if proxies of the fleet died of something
	Takeovers     []Takeover     `json:"takeovers,omitempty"`      // of the last hour, newest first
	Steering      *Steering      `json:"steering,omitempty"`       // while anything is frozen or pinned
	SuspectTables int            `json:"suspect_tables,omitempty"` // of which proxies of this replica's clients died: see /clients
	Decisions     []Decision     `json:"decisions,omitempty"`      // about held tables, newest first
	Problems      map[string]int `json:"problems"`                 // by severity
	LastKnownGood *File          `json:"last_known_good,omitempty"`
}

// Table is the served table in the status of a route server or a data plane.
type Table struct {
	Digest       table.Digest `json:"digest"`
	Revision     uint64       `json:"revision"`
	ReadRevision uint64       `json:"read_revision"` // of the last read that showed the table
	Routes       int          `json:"routes"`
	Bytes        int          `json:"bytes"`
	Zones        []string     `json:"zones"`
	Time         time.Time    `json:"time"`
	LastRead     time.Time    `json:"last_read,omitzero"` // of its source
	AgeSeconds   float64      `json:"age_seconds"`        // since that read
	Stale        bool         `json:"stale"`              // from a last-known-good file that no read has confirmed yet
	Held         bool         `json:"held"`               // a guard holds back a newer table of the source
}

// Source is the state of a producer: a poller that reads a cluster, or a relay that asks another route server.
type Source struct {
	// LastAttempt is when the last read or request started, and LastSuccess when the last successful one ended. Zero means never.
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the failed polls since the last success; LastError is the error of the last one.
	Failures  int    `json:"failures"`
	LastError string `json:"last_error,omitempty"`
	// FailedTotal counts all failed polls, EmptyTotal all that returned no routes.
	FailedTotal uint64 `json:"failed_total"`
	EmptyTotal  uint64 `json:"empty_total"`
	// Revision is the highest revision of the last successful read.
	Revision uint64 `json:"revision"`
	// NextAttempt is when the next read is due; a read requested by a client comes earlier.
	NextAttempt time.Time `json:"next_attempt,omitzero"`
	// Started is when Run began, Initialized when it first published or confirmed a table, Updated when it last published one.
	// Zero means never.
	Started     time.Time `json:"started,omitzero"`
	Initialized time.Time `json:"initialized,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
}

// File is the state of a file that a process keeps up to date.
type File struct {
	Path    string    `json:"path"`
	Written time.Time `json:"written,omitzero"` // by this process
	// LastRead is when the table in the file was last known to be current, as far as the disk has it.
	LastRead time.Time `json:"last_read,omitzero"`
	Error    string    `json:"error,omitempty"` // of the last attempt; empty if it succeeded
	// Unusable says why the file found at the path could not be used; empty if it could. KeptAs is its new name; empty if it
	// could not be moved, and then nothing is written.
	Unusable string `json:"unusable,omitempty"`
	KeptAs   string `json:"kept_as,omitempty"`
}

// Fresh is the answer of a data plane to GET /fresh.
type Fresh struct {
	Fresh        bool      `json:"fresh"`
	AgeSeconds   float64   `json:"age_seconds"` // since the last read of the source
	LimitSeconds float64   `json:"limit_seconds"`
	LastRead     time.Time `json:"last_read,omitzero"`
	Reason       string    `json:"reason,omitempty"` // why the table is not fresh
}

// Error is an answer that refuses a request.
type Error struct {
	Error string `json:"error"`
	// Held and Reason describe the table that is held, when the error is about another table.
	Held   string `json:"held,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Shards is the answer to GET /swarm/redis/shards and /swarm/valkey/shards, in the form of Skipper's route server.
type Shards struct {
	Endpoints []ShardEndpoint `json:"endpoints"`
}

// ShardEndpoint is one endpoint of a service.
type ShardEndpoint struct {
	Address string `json:"address"`
}

// HeldTable is the answer to GET /guard/held.
type HeldTable struct {
	Hold       *Guard          `json:"hold"`
	Accept     string          `json:"accept"`     // command that accepts it in the pod
	Difference json.RawMessage `json:"difference"` // as `routesrv diff -o json` prints it
}
