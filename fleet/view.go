package fleet

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// State is how a client fares, compared with the table that its replica serves.
type State string

// The states of a client. A client has one of them at each moment.
const (
	// Current clients hold the table that their replica serves, or a newer one.
	Current State = "current"
	// Behind clients hold an older table, or no table that the replica knows.
	Behind State = "behind"
	// Rejected clients say that they cannot apply the table, and why.
	Rejected State = "rejected"
	// Silent clients have not been heard for three of their intervals. They leave after [Forget].
	Silent State = "silent"
)

// States returns the states, in the order in which they are shown.
func States() []State { return []State{Current, Behind, Rejected, Silent} }

// Kind is what a client is.
type Kind string

// The kinds of clients.
const (
	// Sidecar is a dataplane-client beside a proxy.
	Sidecar Kind = "sidecar"
	// RelayKind is a route server that has its table from another one.
	RelayKind Kind = "relay"
	// Proxy is a client that does not say what it is, such as an unmodified Skipper.
	Proxy Kind = "proxy"
)

// View is the body of GET /clients: the clients that were heard of lately, as one replica knows them together with its peers.
// Fields may be added; the ones here keep their names and meaning.
type View struct {
	Time  time.Time `json:"time"`            // of the answer
	Table *Table    `json:"table,omitempty"` // that the answering replica serves; nil before the first
	// Counts are the clients in each state, whatever the request chose; Total is their sum. Clients behind relays are not in
	// them: see Relays.
	Counts Counts `json:"counts"`
	Total  int    `json:"total"`
	// Zones and Versions are the same counts by zone and by version of the client, sorted by name; an empty name is for clients
	// that say none. At most [MaxGroups] of each, the largest; the clients of the others are counted under "other".
	Zones    []Group `json:"zones"`
	Versions []Group `json:"versions"`
	// Replicas are the answering replica first, then its peers, sorted by address. One with an error gave no answer, and its
	// clients are missing in this view.
	Replicas []Replica `json:"replicas"`
	// Relays have their clients as a summary. Their clients are in Clients only if the peers of the replica include the relay.
	Relays []Relay `json:"relays"`
	// Publishes are the last tables, the newest first, and how long the fleet took to hold them.
	Publishes []Publish `json:"publishes"`
	// Clients are those that the request chose, sorted by state (rejected, behind, silent, current), then by id. Truncated says
	// that there are more of them: Matched in all.
	Clients   []Client `json:"clients"`
	Matched   int      `json:"matched"`
	Truncated bool     `json:"truncated"`
}

// Counts is a number of clients for each state.
type Counts struct {
	Current  int `json:"current"`
	Behind   int `json:"behind"`
	Rejected int `json:"rejected"`
	Silent   int `json:"silent"`
}

// Table names a table.
type Table struct {
	ETag     string       `json:"etag,omitempty"` // with its quotes
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision,omitempty"`
	Since    time.Time    `json:"since,omitzero"` // when the replica began to serve it; zero if it never did
}

// Group is the counts of the clients that have something in common.
type Group struct {
	Name   string `json:"name"`
	Counts Counts `json:"counts"`
}

// Replica is what a route server or relay said when it was asked for its clients.
type Replica struct {
	Name    string `json:"name"`              // host name, as in Client.Replica; the address if the replica did not answer
	Address string `json:"address,omitempty"` // host:port that was asked; empty for the answering replica
	// Instance is random, and another one after each start.
	Instance string `json:"instance,omitempty"`
	Self     bool   `json:"self,omitempty"`  // the answering replica
	Relay    bool   `json:"relay,omitempty"` // it has its table from another route server
	Table    *Table `json:"table,omitempty"` // that it serves; nil for none, or no answer
	Clients  int    `json:"clients"`         // that it knows, before clients that several replicas know are merged
	Full     bool   `json:"full,omitempty"`  // it knows as many clients as it can, and does not take others in
	// Error says why there is no answer, or only part of one. Its clients are missing then.
	Error string `json:"error,omitempty"`
}

// Relay is a relay and the summary of its clients, as its last report gave them. It is among Clients itself, too.
type Relay struct {
	ID     string    `json:"id"`     // as in Client.ID
	Counts Counts    `json:"counts"` // of its own clients
	Total  int       `json:"total"`
	Heard  time.Time `json:"heard"` // when it reported that
	State  State     `json:"state"` // of the relay itself
	// Details says that the clients of the relay are among Clients.
	Details bool `json:"details"`
}

// Publish is one table, and how long it took until clients held it. The clients are those that are not silent.
type Publish struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision,omitempty"`
	Time     time.Time    `json:"time"`
	// Seconds until half, 99 percent and all of the clients held this table or a newer one; nil while that has not happened.
	Half *float64 `json:"half_seconds,omitempty"`
	Most *float64 `json:"most_seconds,omitempty"`
	All  *float64 `json:"all_seconds,omitempty"`
	// Holders is how many clients hold exactly this table now.
	Holders int `json:"holders"`
}

// Client is what is known of one client.
type Client struct {
	// ID is stable for the life of a client: what it calls itself, such as namespace/pod, else "address user-agent".
	ID      string `json:"id"`
	Kind    Kind   `json:"kind"`
	Pod     string `json:"pod,omitempty"` // namespace/name
	Node    string `json:"node,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Version string `json:"version,omitempty"` // of the client; for a proxy that says nothing, its user agent
	Mode    string `json:"mode,omitempty"`    // False, Pre or Exec, of a sidecar
	// Inferred says that the client did not name itself: what is here follows from its requests and its address. Several
	// clients behind one address are one then.
	Inferred bool   `json:"inferred,omitempty"`
	Address  string `json:"address"`         // of the peer of its connection, without the port
	Replica  string `json:"replica"`         // that heard it last
	Relay    string `json:"relay,omitempty"` // ID of the relay that it asks; empty if it asks a replica
	Stream   bool   `json:"stream,omitempty"`

	State State `json:"state"`
	// Holds is the table that the client has, by what it names in requests or says; nil if it has named none.
	Holds *Table `json:"holds,omitempty"`
	// Fetched is the table that its proxy got from the sidecar last; nil if nobody said.
	Fetched *Table `json:"fetched,omitempty"`
	// Applied says how far the proxy is with Fetched. No proxy tells which table it has applied: see [Applied].
	Applied Applied `json:"applied,omitempty"`
	// BehindVersions is how many tables were published after the one that it holds, and BehindSeconds for how long there has been
	// a newer one. 0 in state Current; BehindVersions is -1 if the table is not known or too old to count.
	BehindVersions int     `json:"behind_versions,omitempty"`
	BehindSeconds  float64 `json:"behind_seconds,omitempty"`
	Reason         string  `json:"reason,omitempty"` // in state Rejected, in the words of the client
	// Reported is when it last reported; zero if it never did. Fetched, Applied, Reason and Figures are of that time.
	Reported time.Time `json:"reported,omitzero"`

	FirstHeard      time.Time `json:"first_heard"`
	LastHeard       time.Time `json:"last_heard"`
	IntervalSeconds float64   `json:"interval_seconds"` // between what it lets hear; Silent after three of them
	// Figures are what the proxy of a sidecar says of itself; nil if nobody could read its metrics.
	Figures *Figures `json:"figures,omitempty"`
}

// Applied is how far a proxy is with the table that it fetched.
type Applied string

// What can be known about a table that a proxy fetched.
const (
	// AppliedUnknown is all that can be said without figures of the proxy, or before it fetched a table.
	AppliedUnknown Applied = ""
	// AppliedFetched says that the proxy has fetched the table, and not shown that it applied it.
	AppliedFetched Applied = "fetched"
	// AppliedDone says that the proxy has applied a table after it fetched this one.
	AppliedDone Applied = "applied"
)

// Figures are what a proxy says of itself in its metrics. Counters are since its start. A figure that its metrics do not have is
// nil.
type Figures struct {
	Time      time.Time `json:"time"`                 // when they were read
	Requests  *uint64   `json:"requests,omitempty"`   // that reached the proxy
	Errors    *uint64   `json:"errors_5xx,omitempty"` // answered with 5xx
	NoRoute   *uint64   `json:"no_route,omitempty"`   // answered with 404 for want of a route
	Routes    *uint64   `json:"routes,omitempty"`     // valid ones in its table
	Updates   *uint64   `json:"updates,omitempty"`    // tables applied
	LastApply time.Time `json:"last_apply,omitzero"`  // when it began to process its table; whole seconds
	// Refused is how many routes it has refused by reason, since its start: a proxy never takes one back, so a growing number
	// counts, and not the number itself. RefusedNew is how many of all were added since the proxy fetched its table.
	Refused    map[string]uint64 `json:"refused,omitempty"`
	RefusedNew uint64            `json:"refused_new,omitempty"`
}

// MaxGroups is how many zones and versions a View has at most.
const MaxGroups = 100

// Forget is how long a silent client is remembered.
const Forget = time.Hour
