// Package history defines the record of a robustness run: every change of the API, every list and watch event that a server
// received, every fault, every answer that every client received, and the actions of processes and operators. It is data only. A
// run writes it, validators read it, and a folder stores it for debugging.
//
// All times are offsets from the start of the run, taken from one monotonic clock in the process that runs the suite.
package history

import "time"

// History is the record of one run. Each slice is ordered by time.
type History struct {
	Run     Run      `json:"run"`
	Changes []Change `json:"changes"`
	Reads   []Read   `json:"reads"`
	Faults  []Fault  `json:"faults"`
	Events  []Event  `json:"events"`
	// Publications are those of servers, relays and sidecars.
	Publications []Publication `json:"publications"`
	Answers      []Answer      `json:"answers"`
	Samples      []Sample      `json:"samples"`
	// Tables has the decoded text of each table that any client received, by Answer.Digest.
	Tables map[string]string `json:"-"`
}

// Run describes a run.
type Run struct {
	Seed     uint64        `json:"seed"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration"`
	// Calm is when the last change was made and the last fault ended: from then on every live client must converge.
	Calm time.Duration `json:"calm"`
	// Settled is when the run stopped waiting for convergence; answers between Calm and Settled are used to judge Convergent.
	Settled time.Duration `json:"settled"`
	// Interval is how often servers read and clients poll.
	Interval time.Duration `json:"interval"`
	// Hold is the guard's hold time, Window its window, and MaxLoss its limit for lost routes.
	Hold    time.Duration `json:"hold"`
	Window  time.Duration `json:"window"`
	MaxLoss float64       `json:"max_loss"`
	// Soak is how long servers serve each change to the canary alone; 0 without a canary.
	Soak time.Duration `json:"soak,omitempty"`
	// MemoryLimit is the documented limit for one process, in bytes of resident memory.
	MemoryLimit uint64 `json:"memory_limit"`
	// Patience is the longest that an answer to a healthy client may take; 0 means 5 s.
	Patience time.Duration `json:"patience,omitempty"`
	// Stretch is by which factor everything took longer because others used the machine; 0 and 1 mean no delay.
	Stretch float64  `json:"stretch,omitempty"`
	Options Options  `json:"options"`
	Members []Member `json:"members"`
	Plant   string   `json:"plant,omitempty"` // the planted fault; empty in an honest run
}

// Options are the flags of the servers that affect tables. Other flags have the zero value in [rules.Options].
type Options struct {
	EndpointSlices bool `json:"endpoint_slices"`
	Healthcheck    bool `json:"healthcheck"`
	HTTPSRedirect  bool `json:"https_redirect"`
}

// Kinds of members.
const (
	Server  = "server"  // routesrv that reads the API
	Relay   = "relay"   // routesrv that reads another one
	Sidecar = "sidecar" // dataplane-client
	Poller  = "poller"  // asks as an unmodified Skipper does, with If-None-Match
	Delta   = "delta"   // asks with deltas and applies them
	Stream  = "stream"  // holds /routes/watch open
)

// Member is a process or a client of the run.
type Member struct {
	Name string `json:"name"` // unique in the run
	Kind string `json:"kind"`
	// Upstreams are the members that it asks, through the fault proxy; empty for a server, which asks the API.
	Upstreams []string `json:"upstreams,omitempty"`
	// Transport is how a server reads (poll, watch) and how a sidecar fetches (poll, delta, stream).
	Transport string `json:"transport,omitempty"`
	// Mode is the initial mode of a sidecar: False, Pre or Exec.
	Mode string `json:"mode,omitempty"`
	Zone string `json:"zone,omitempty"` // requested by a client
	// Canary means that the client asks for the table of the canary.
	Canary bool `json:"canary,omitempty"`
	// Slow means that the client reads its bodies slowly on purpose. Bounded does not judge its times.
	Slow bool `json:"slow,omitempty"`
	// Light means that the client keeps no texts: it takes the digest of a table from its ETag, and checks only base and target
	// of deltas. Runs with tables of many megabytes have hundreds of such clients.
	Light bool `json:"light,omitempty"`
	// Mortal means that the client behaves like a proxy that dies of a table with [Fatal]: its next request names no table.
	Mortal bool `json:"mortal,omitempty"`
}

// Fatal is the text in a table that ends a mortal client.
const Fatal = "no-proxy-survives-this"

// Change is one write to the API. Changes have strictly rising revisions, except after a reset, which Reset marks.
type Change struct {
	At        time.Duration `json:"at"`
	Revision  uint64        `json:"revision"`
	Kind      string        `json:"kind"` // Ingress, RouteGroup, Service, EndpointSlice
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	// Object is the object as JSON after the write; empty if it was deleted.
	Object string `json:"object,omitempty"`
	// Class is the purpose of the write: valid, invalid, poison, mass, repair, endpoint, refused.
	Class string `json:"class"`
	// Reset means that the API was restored to its state at this revision, and that revisions continue from there, below earlier
	// ones. Such a change has no object.
	Reset bool `json:"reset,omitempty"`
}

// Read is one list, one discovery answer or one watch event that the API sent to a member.
type Read struct {
	At       time.Duration `json:"at"` // when the API decided on the answer
	Member   string        `json:"member"`
	Kind     string        `json:"kind"`            // as Change.Kind, or Discovery
	Verb     string        `json:"verb"`            // list, watch, get
	Revision uint64        `json:"revision"`        // of the list or event
	Whole    bool          `json:"whole"`           // it left the API correct; a fault may still have struck on the way
	Fault    string        `json:"fault,omitempty"` // what the API did instead, as Fault.Name
}

// Fault is one injected fault.
type Fault struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"` // equal to From for a fault that strikes once
	Name string        `json:"name"`
	// Link is the connection that it strikes, as "asker>asked" with names of members or "api"; or the name of one member for
	// faults of processes (kill, stop, disk).
	Link string `json:"link"`
	Args string `json:"args,omitempty"` // for people: bytes, status, delay
}

// Event is an action of a process or an operator.
type Event struct {
	At     time.Duration `json:"at"`
	Member string        `json:"member"`
	// Name is one of started, ready, killed, stopped, continued, ended, accept, mode, held, kept, resumed, released. held is about a whole
	// table, kept about objects; resumed means that the objects which the previous process kept stay kept. A mortal client died.
	Name string `json:"name"`
	Args string `json:"args,omitempty"` // accept and died: the digest; mode: the new one; held and kept: the guard's code
}

// Publication is a table that a process published, according to its log. Clients need not have seen it.
type Publication struct {
	At       time.Duration `json:"at"` // when the harness read the log; a client may have had the table before
	Member   string        `json:"member"`
	Digest   string        `json:"digest"`
	Revision uint64        `json:"revision"`
	Stale    bool          `json:"stale,omitempty"` // from the last-known-good file, before anything confirmed it
}

// What a client did with an answer.
const (
	Applied   = "applied"   // a table, or a delta that led to one: the client now holds this digest
	Unchanged = "unchanged" // 304, or a heartbeat
	Refused   = "refused"   // the client rejected the answer; Why says why
	Failed    = "failed"    // no complete answer: refused connection, reset, time-out, error status
)

// Answer is a client's answer to one request, or one event of a stream.
type Answer struct {
	Begin  time.Duration `json:"begin"` // the request was sent, or the event began
	End    time.Duration `json:"end"`   // the last byte was read
	Client string        `json:"client"`
	Server string        `json:"server"` // the member that was asked
	Status int           `json:"status"` // 0 without an answer
	Form   string        `json:"form"`   // table, delta, event, none
	// ETag, Revision, State and LastRead are from the answer: ETag and X-Table-State verbatim; LastRead as an offset, zero if
	// missing.
	ETag     string        `json:"etag,omitempty"`
	Revision uint64        `json:"revision,omitempty"`
	State    string        `json:"state,omitempty"`
	LastRead time.Duration `json:"last_read,omitempty"`
	// Base is the ETag that the client held when it asked.
	Base string `json:"base,omitempty"`
	// Digest is the hex SHA-256 of the decoded table that the client holds after this answer; the text is in Tables. Empty if it
	// holds none. For Refused and Failed it is the table that it held before.
	Digest string `json:"digest,omitempty"`
	// Body is the number of bytes on the wire.
	Body    int64  `json:"body"`
	Outcome string `json:"outcome"`
	Why     string `json:"why,omitempty"` // for Refused and Failed
}

// Sample is the resource usage of a process at one time.
type Sample struct {
	At          time.Duration `json:"at"`
	Member      string        `json:"member"`
	RSS         uint64        `json:"rss"` // bytes
	Goroutines  int           `json:"goroutines,omitempty"`
	Descriptors int           `json:"descriptors"`
	Disk        int64         `json:"disk"` // bytes in its folder
	// Held, Problems and Alerts are from its metrics: whether a hold is on, problems by reason, and failed reads by reason.
	Held     bool           `json:"held,omitempty"`
	Problems map[string]int `json:"problems,omitempty"`
	Failed   map[string]int `json:"failed,omitempty"`
}
