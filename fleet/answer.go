package fleet

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// State is the state of a client compared with the table that its replica serves.
type State string

// The states of a client. A client is in exactly one of them.
const (
	// Current clients hold the table that their replica serves, or a newer one.
	Current State = "current"
	// Behind clients hold an older table, or a table that the replica does not know.
	Behind State = "behind"
	// Rejected clients have reported that they cannot apply the table, and why.
	Rejected State = "rejected"
	// Silent clients have not been heard for three of their intervals. They are removed after [Forget].
	Silent State = "silent"
)

// States returns the states in display order.
func States() []State { return []State{Current, Behind, Rejected, Silent} }

// Kind is the kind of a client.
type Kind string

// The kinds of clients.
const (
	// Sidecar is a dataplane-client beside a proxy.
	Sidecar Kind = "sidecar"
	// RelayKind is a route server that fetches its table from another one.
	RelayKind Kind = "relay"
	// Proxy is a client without an identity, such as an unmodified Skipper.
	Proxy Kind = "proxy"
)

// Clients is the body of GET /clients. Fields may be added; existing ones keep their names and meaning.
type Clients struct {
	Time  time.Time `json:"time"`            // of the answer
	Table *Table    `json:"table,omitempty"` // served by the answering replica; nil before the first table
	// Counts are the clients in each state, whatever the filter, without those behind relays; Total is their sum.
	Counts Counts `json:"counts"`
	Total  int    `json:"total"`
	// Zones and Versions are the same counts by zone and by version of the client, the [MaxGroups] largest; an empty name is for
	// clients that name none.
	Zones    []Group `json:"zones"`
	Versions []Group `json:"versions"`
	// Replicas lists the answering replica first, then its peers by address. The clients of one with an error are missing.
	Replicas []Replica `json:"replicas"`
	// Relays are summaries of the clients of relays, which are in Clients only if the peers of the replica include the relay.
	Relays []Relay `json:"relays"`
	// Suspects are tables that probably crashed proxies, as clients reported within [SuspectFor].
	Suspects []SuspectTable `json:"suspects,omitempty"`
	// Tables are the last tables that the replica with the newest one served, newest first.
	Tables []Table `json:"tables"`
	// Clients are those that match, by state (rejected, behind, silent, current), then by id. Truncated: of Matched, some are missing.
	Clients   []Client `json:"clients"`
	Matched   int      `json:"matched"`
	Truncated bool     `json:"truncated"`
}

// Counts is the number of clients in each state.
type Counts struct {
	Current  int `json:"current"`
	Behind   int `json:"behind"`
	Rejected int `json:"rejected"`
	Silent   int `json:"silent"`
}

// of returns a pointer to the counter for s; unknown states (from newer clients) share a scratch counter.
func (c *Counts) of(s State) *int {
	switch s {
	case Current:
		return &c.Current
	case Behind:
		return &c.Behind
	case Rejected:
		return &c.Rejected
	case Silent:
		return &c.Silent
	}
	return new(int)
}

func (c *Counts) add(s State) { *c.of(s)++ }

func (c Counts) with(s State) Counts { c.add(s); return c }

// Total returns the sum of all states.
func (c Counts) Total() int { return c.Current + c.Behind + c.Rejected + c.Silent }

// Of returns the number of clients in a state.
func (c Counts) Of(s State) int { return *c.of(s) }

// Table identifies a table.
type Table struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision,omitempty"`
	Since    time.Time    `json:"since,omitzero"` // when the replica began to serve it; zero if it never did
}

// Group has the counts of the clients with a common zone or version.
type Group struct {
	Name   string `json:"name"`
	Counts Counts `json:"counts"`
}

// Replica is the answer of a route server or relay that was asked for its clients.
type Replica struct {
	Name    string `json:"name"`              // host name, as in Client.Replica; the address if the replica did not answer
	Address string `json:"address,omitempty"` // host:port that was asked; empty for the answering replica
	// Instance is random and changes with each start.
	Instance string `json:"instance,omitempty"`
	Self     bool   `json:"self,omitempty"`  // the answering replica
	Relay    bool   `json:"relay,omitempty"` // it fetches its table from another route server
	Table    *Table `json:"table,omitempty"` // that it serves; nil for none, or no answer
	Clients  int    `json:"clients"`         // known to it, before clients that several replicas know are merged
	Full     bool   `json:"full,omitempty"`  // it has reached its limit of clients and adds no others
	// Error is why the answer is missing or partial. Clients are missing then.
	Error string `json:"error,omitempty"`
}

// Relay is a relay with the summary of its clients from its last report. The relay itself is also in Clients.
type Relay struct {
	ID     string    `json:"id"`     // as in Client.ID
	Counts Counts    `json:"counts"` // of the relay's clients
	Total  int       `json:"total"`
	Heard  time.Time `json:"heard"` // time of that report
	State  State     `json:"state"` // of the relay itself
	// Details means that the relay's clients are in Clients.
	Details bool `json:"details"`
}

// Client is what is known about one client.
type Client struct {
	// ID is stable for the life of a client: its own name, such as namespace/pod, or else "address user-agent".
	ID      string `json:"id"`
	Kind    Kind   `json:"kind"`
	Pod     string `json:"pod,omitempty"` // namespace/name
	Node    string `json:"node,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Version string `json:"version,omitempty"` // of the client; for a proxy without an identity, its user agent
	Mode    string `json:"mode,omitempty"`    // False, Pre or Exec, of a sidecar
	// Inferred means that the client did not identify itself. Several clients behind one address then appear as one.
	Inferred bool   `json:"inferred,omitempty"`
	Address  string `json:"address"`         // of the peer of its connection, without the port
	Replica  string `json:"replica"`         // the replica that heard it last
	Relay    string `json:"relay,omitempty"` // ID of the relay that it asks; empty if it asks a replica
	Stream   bool   `json:"stream,omitempty"`
	// Canary means that it asks for the table of the canary, with which State and Behind* compare its own.
	Canary bool `json:"canary,omitempty"`

	State State `json:"state"`
	// Holds is the client's table according to its requests or reports; nil if it has named none.
	Holds *Table `json:"holds,omitempty"`
	// Proven is the last table with which its proxy has run for 30 s; nil if unknown.
	Proven *Table `json:"proven,omitempty"`
	// BehindVersions is how many tables were published after the one that it holds. BehindSeconds is for how long a newer one has
	// existed. Both are 0 in state Current; BehindVersions is -1 if the table is unknown or too old to count.
	BehindVersions int     `json:"behind_versions,omitempty"`
	BehindSeconds  float64 `json:"behind_seconds,omitempty"`
	Reason         string  `json:"reason,omitempty"` // in state Rejected, also if it is silent now, in the client's words

	age time.Duration // since it was heard, by the clock of the replica that heard it
	// Reported is when it last reported; zero if never. Proven, Reason, Refused and MetricsError are from that report.
	Reported time.Time `json:"reported,omitzero"`

	FirstHeard      time.Time `json:"first_heard"`
	LastHeard       time.Time `json:"last_heard"`
	IntervalSeconds float64   `json:"interval_seconds"` // normal time between signs of life; Silent after three of them
	// Refused is how many routes its proxy has refused since it fetched its table.
	Refused uint64 `json:"refused_routes,omitempty"`
	// MetricsError is why the metrics of its proxy cannot be read; empty if they can, or are not read at all.
	MetricsError string `json:"metrics_error,omitempty"`
	// Pre is how its two tables compared in its last report, in mode Pre; nil if unknown.
	Pre *Pre `json:"pre,omitempty"`
	// Suspects are the tables that probably crashed its proxy, as reported within [SuspectFor].
	Suspects []Suspect `json:"suspects,omitempty"`
}

// MaxGroups is how many zones and versions an answer contains at most.
const MaxGroups = 100

// Forget is how long a silent client is remembered.
const Forget = time.Hour
