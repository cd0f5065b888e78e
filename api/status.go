package api

import (
	"encoding/json"
	"time"

	"github.com/routesrv/routesrv/kube"
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
	Trial         *Trial         `json:"trial,omitempty"`         // with a trial proxy
	Takeovers     []Takeover     `json:"takeovers,omitempty"`     // of the last hour, newest first
	Warnings      []Warning      `json:"warnings,omitempty"`      // conditions that need an operator
	Canary        *Canary        `json:"canary,omitempty"`        // with --canary
	Steering      *Steering      `json:"steering,omitempty"`      // while anything is frozen or pinned
	DyingClients  int            `json:"dying_clients,omitempty"` // clients of this replica whose proxies died after a new table: see /clients
	Decisions     []Decision     `json:"decisions,omitempty"`     // about held tables, newest first
	Problems      map[string]int `json:"problems"`                // by severity
	LastKnownGood *File          `json:"last_known_good,omitempty"`
}

// PathCanary is the prefix of the paths of the canary's table.
const PathCanary = "/canary"

// MaxSoaking is the maximum number of objects in a status.
const MaxSoaking = 1000

// Canary lists the changes that only the canary is served.
type Canary struct {
	SoakSeconds float64        `json:"soak_seconds"`
	Query       string         `json:"query,omitempty"`
	Verdict     *CanaryVerdict `json:"verdict,omitempty"` // the last answer to the query
	// NextPromotion is when something is promoted, unless the query prevents it; zero if nothing is about to be.
	NextPromotion time.Time `json:"next_promotion,omitzero"`
	Count         int       `json:"count"`
	Halted        int       `json:"halted"`  // of Count
	Objects       []Soaking `json:"objects"` // the newest first, at most MaxSoaking
	Table         *Table    `json:"table,omitempty"`
}

// CanaryVerdict is an answer to a canary query.
type CanaryVerdict struct {
	At     time.Time `json:"at"`
	Firing bool      `json:"firing"` // it returned series, so nothing is promoted
	Failed bool      `json:"failed"` // it was not answered, so soaks are extended
	Text   string    `json:"text"`
}

// Soaking is an object whose newest version soaks, or was halted.
type Soaking struct {
	kube.Ref
	Detail string    `json:"detail"` // when its newest version was written, and by which field manager
	Since  time.Time `json:"since"`  // when this version was first seen
	Until  time.Time `json:"until,omitzero"`
	Began  time.Time `json:"began"` // when the object began to soak, perhaps with an earlier version
	// Capped means that Until ends three soak times, because the object keeps changing.
	Capped bool   `json:"capped,omitempty"`
	Halted string `json:"halted,omitempty"` // why; empty if it soaks
	By     string `json:"by"`               // who halted it: the query (canary) or an operator
	Served string `json:"served"`           // which version the fleet has, in words
	Waits  string `json:"waits"`
}

// Warning is a served change that needs an operator.
type Warning struct {
	What    string    `json:"what"`           // one of WarnLost, WarnDeaths and WarnTakeovers
	Since   time.Time `json:"since,omitzero"` // zero if unknown
	Text    string    `json:"text"`           // with what changed last, and by whom
	Command string    `json:"command"`        // remedy, without the name of the program
}

// What warnings are about.
const (
	WarnLost      = "hosts_lost"
	WarnDeaths    = "proxy_deaths"
	WarnTakeovers = "takeovers"
)

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

// Source is the state of a producer: a poller that reads a cluster, or a relay that fetches from another route server.
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
	Revision    uint64 `json:"revision"` // highest of the last successful read
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
	// Unusable is why the existing file could not be used; empty if it could. KeptAs is its new name; if it could not be moved,
	// nothing is written.
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

// Problems is the answer to GET /problems.
type Problems struct {
	Count    int       `json:"count"`
	Problems []Problem `json:"problems"`
}

// Problem is an object, or a route of it, that does not work as its team intends.
type Problem struct {
	ID       string    `json:"id"`
	Owner    kube.Ref  `json:"owner"`
	Route    string    `json:"route,omitempty"` // id of the route, if the problem is about one
	Reason   string    `json:"reason"`          // one of the reasons in docs/reference/problems.md
	Severity string    `json:"severity"`        // error, warning or info
	Message  string    `json:"message"`
	Cause    string    `json:"cause,omitempty"`
	Text     string    `json:"text"` // for the team that owns the object
	Since    time.Time `json:"since"`
	Replicas []string  `json:"replicas,omitempty"` // that see the problem, unless all do: in a merged answer
}

// Applied describes the applied table. It is a value; a later poll creates a new one.
type Applied struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision"`
	Routes   int          `json:"routes"`
	Bytes    int          `json:"bytes"` // of the text
	// Origin is the URL of the server that sent the table, without the password; for a table from the last-known-good file, the
	// origin stored in the file.
	Origin    string    `json:"origin"`
	ETag      string    `json:"etag,omitempty"`     // of the server; empty for a table from the last-known-good file
	Committed time.Time `json:"committed"`          // when this process applied the table
	Confirmed time.Time `json:"confirmed,omitzero"` // by a server, since the start
	// SourceRead is when the server last read its source, as proved by X-Source-Read, by Date and Age of other servers, or by the
	// last-known-good file. Zero if unknown.
	SourceRead time.Time `json:"source_read,omitzero"`
	Stale      bool      `json:"stale"` // from the last-known-good file, and not confirmed by a server yet
	// LeftOut counts the parts of the server's text that no reader can parse or no proxy survives; 0 for the last-known-good file.
	LeftOut     int    `json:"left_out,omitempty"`
	ServerState string `json:"server_state,omitempty"` // X-Table-State of the server's last answer
}

// Fetch is the state of a client that fetches its table from route servers: in the status of a data plane and of a relay.
type Fetch struct {
	Applied    *Applied     `json:"applied,omitempty"`   // nil before the first table
	AgeSeconds float64      `json:"age_seconds"`         // since Applied.SourceRead; 0 if unknown
	Held       *Guard       `json:"held,omitempty"`      // the held table, if there is one
	Transport  string       `json:"transport,omitempty"` // in use: "stream" or "poll"; empty before the first attempt
	Stream     *FetchStream `json:"stream,omitempty"`    // the last stream, if there was one
	Zone       string       `json:"zone,omitempty"`      // last requested; empty for the full table

	LastAttempt time.Time `json:"last_attempt,omitzero"` // start of the last round, or of opening the last stream
	LastSuccess time.Time `json:"last_success,omitzero"` // end of the last useful round, or the last confirmation by a stream
	NextAttempt time.Time `json:"next_attempt,omitzero"` // unless a stream is open
	Failures    int       `json:"failures"`              // attempts without a usable answer since LastSuccess
	FailedTotal uint64    `json:"failed_total"`          // all such attempts

	Servers       []FetchServer `json:"servers"` // in the order of preference
	LastKnownGood *File         `json:"last_known_good,omitempty"`
}

// FetchStream is the state of a stream.
type FetchStream struct {
	URL       string    `json:"url"`                // of the server, without the password
	Connected time.Time `json:"connected,omitzero"` // zero if no stream is open
	LastEvent time.Time `json:"last_event,omitzero"`
}

// FetchServer is the state of a server.
type FetchServer struct {
	URL         string    `json:"url"` // without the password
	InUse       bool      `json:"in_use"`
	LastAttempt time.Time `json:"last_attempt,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Failures counts the attempts since LastSuccess; Reason and LastError are from the last failed attempt, and empty while the
	// server is healthy.
	Failures  int       `json:"failures"`
	Reason    string    `json:"reason,omitempty"`
	LastError string    `json:"last_error,omitempty"`
	RetryAt   time.Time `json:"retry_at,omitzero"` // of a failing server
}

// Paths of the trial proxy, on the support listener.
const (
	PathTrialRoutes = "/trial/routes"
	PathTrialAlive  = "/trial/alive"
)

// Trial describes the trial proxy of a route server, and what it tried.
type Trial struct {
	Build    string `json:"build,omitempty"`  // of the proxy
	Silent   string `json:"silent,omitempty"` // why the proxy does not answer
	Unused   bool   `json:"unused,omitempty"` // it does not accept requests; texts are loaded but not exercised
	Accepted int    `json:"accepted"`
	Waiting  int    `json:"waiting"`
	// Suspects were in a table that the proxy did not survive, and Lapsed pass because it does not answer; both are among Waiting.
	Suspects int            `json:"suspects"`
	Lapsed   int            `json:"lapsed"`
	Failed   []TrialFailure `json:"failed"`
}

// TrialFailure is a filter or predicate that failed its trial.
type TrialFailure struct {
	Text      string    `json:"text"` // such as compress(-1)
	Predicate bool      `json:"predicate,omitempty"`
	Verdict   string    `json:"verdict"`         // refused, died, hung or grew
	Words     string    `json:"words,omitempty"` // of the proxy, or the observation
	At        time.Time `json:"at"`
}

// Takeover describes requests that a published change took from another object.
type Takeover struct {
	At   time.Time `json:"at"`
	From kube.Ref  `json:"from"`
	To   kube.Ref  `json:"to"`
	// Lost is how many routes of From lost requests. Example is one of these requests, with both objects.
	Lost    int    `json:"lost"`
	Example string `json:"example"`
}
