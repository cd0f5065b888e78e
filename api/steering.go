package api

import (
	"encoding/json"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// PathSteering is where objects are frozen, rolled back and released: on the control socket, with POST.
const PathSteering = "/steering"

// Steering lists what operators have frozen and pinned.
type Steering struct {
	Digest table.Digest `json:"digest"` // equal on replicas with the same orders
	Orders []Order      `json:"orders"` // the newest first
}

// Order is a freeze, or a pin of an object.
type Order struct {
	What   string    `json:"what"`   // freeze or pin
	Scope  string    `json:"scope"`  // description
	Detail string    `json:"detail"` // which version, and the reason of the operator
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is released
}

const (
	// DefaultSteering is how long a freeze or pin lasts by default, and MaxSteering how long at most, unless it lasts until it is
	// released.
	DefaultSteering = time.Hour
	MaxSteering     = 7 * 24 * time.Hour
)

// The commands of /steering.
const (
	SteerFreeze   = "freeze"
	SteerRollback = "rollback"
	SteerRelease  = "release"
	SteerPromote  = "promote" // what soaks on the canary, or was halted there
	SteerHalt     = "halt"    // what soaks on the canary
)

// Steered is the answer to a command of /steering.
type Steered struct {
	Dry      bool         `json:"dry,omitempty"` // nothing was changed
	What     string       `json:"what"`          // description
	Until    time.Time    `json:"until,omitzero"`
	Pins     []string     `json:"pins,omitempty"`     // versions of objects, by names that all replicas know
	Warnings []string     `json:"warnings,omitempty"` // what cannot be honoured, and what it re-opens
	Changes  string       `json:"changes"`            // of the table, as text
	Digest   table.Digest `json:"digest,omitzero"`    // of the table that is served now
	By       string       `json:"by,omitempty"`
	Why      string       `json:"why,omitempty"`
}

const (
	PathHistory     = "/history"      // what the server has served
	PathKeptHistory = "/kept/history" // the same for a starting replica, in the form of the files
)

// HistoryEntry is a change of the served Ingresses, RouteGroups and default filters, or a decision about them. Changes of
// endpoints alone have no entry.
type HistoryEntry struct {
	N        uint64       `json:"n"` // counts the entries of a server, from 1
	At       time.Time    `json:"at"`
	Revision uint64       `json:"revision,omitempty"`
	Digest   table.Digest `json:"digest"` // of the table that was served from then on
	// Changes are at most MaxChanges of the objects; Count counts all.
	Changes []HistoryChange `json:"changes,omitempty"`
	Count   int             `json:"count"`
	// Added, Changed and Removed count routes.
	Added     int        `json:"routes_added"`
	Changed   int        `json:"routes_changed"`
	Removed   int        `json:"routes_removed"`
	Takeovers []Takeover `json:"takeovers,omitempty"` // requests that other owners lost, as known at that time
	Decisions []Decision `json:"decisions,omitempty"` // since the entry before
}

// HistoryDifference is what an entry changed, or how it differs from another one.
type HistoryDifference struct {
	Entry      HistoryEntry    `json:"entry"`
	Difference json.RawMessage `json:"difference"` // as `routesrv diff -o json` prints it
}

// MaxChanges is how many objects an entry of the history names.
const MaxChanges = 200

// HistoryChange is what became of an object.
type HistoryChange struct {
	kube.Ref
	What string `json:"what"`         // created, changed or deleted
	By   string `json:"by,omitempty"` // when its newest version was written and by which field manager
}

// What became of an object.
const (
	ObjectCreated = "created"
	ObjectChanged = "changed"
	ObjectDeleted = "deleted"
)

// Paths that programs of this repository use.
const (
	PathStatus   = "/status"
	PathClients  = "/clients" // GET on the support listener; clients report with POST on the main one
	PathProblems = "/problems"
	PathExplain  = "/explain"
	PathMatch    = "/match"

	PathTakeovers = "/takeovers" // POST of manifests; answers their takeovers
	PathHeld      = "/guard/held"
	PathAccept    = "/guard/accept" // POST on the control socket
	PathKept      = "/kept"         // kept objects, for replicas
	PathKeptNames = "/kept/names"   // of Ingresses and RouteGroups kept by the guard, without versions
)

// Guard is what a guard holds: a table, or kept objects.
type Guard struct {
	Held   bool       `json:"held"`
	Reason guard.Code `json:"reason,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Digest identifies what an acceptance releases: the held table, or the list of kept objects.
	Digest table.Digest `json:"digest,omitzero"`
	// Revision and Routes describe the held table, or the newest one while objects are kept.
	Revision  uint64    `json:"revision,omitempty"`
	Routes    int       `json:"routes,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	ReleaseAt time.Time `json:"release_at,omitzero"` // zero: not released by time
	KeptCount int       `json:"kept_count,omitempty"`
	Kept      []Kept    `json:"kept,omitempty"` // the newest first, at most 1,000
	Last      *Release  `json:"last_release,omitempty"`
}

// Kept is an object that is served at an earlier version than the newest.
type Kept struct {
	kube.Ref
	Reason guard.Code `json:"reason"`
	Detail string     `json:"detail"`
	By     string     `json:"by"`
	Since  time.Time  `json:"since"`
	Until  time.Time  `json:"until,omitzero"` // zero: not released by time
	Served string     `json:"served"`         // description of the version
	Waits  string     `json:"waits"`          // description of the change
}

// Release is how the last held table, or the last kept objects, were released.
type Release struct {
	Digest   string     `json:"digest"`
	Reason   guard.Code `json:"reason"`
	At       time.Time  `json:"at"`
	Accepted bool       `json:"accepted"`
	By       string     `json:"by,omitempty"`  // who accepted it, according to the operator
	Why      string     `json:"why,omitempty"` // the reason, according to the operator
}

// Decision is a step concerning a suspicious table, or kept objects: in the status, and in the history.
type Decision struct {
	Time    time.Time    `json:"time"`
	What    string       `json:"what"`              // one of the constants below
	Digest  table.Digest `json:"digest"`            // of the table: the held one, or the one that was published
	Objects string       `json:"objects,omitempty"` // the kept objects; empty for a table
	Reason  guard.Code   `json:"reason,omitempty"`  // why the table or the objects were held
	Detail  string       `json:"detail,omitempty"`  // how long changes soaked, and what the canary query returned
	By      string       `json:"by,omitempty"`      // these and Why come from the operator who accepted it
	Why     string       `json:"why,omitempty"`
}

// The decisions. A hold that ends because the loss came back is not a decision.
const (
	DecidedHeld     = "held"     // a table was held back, or objects were kept
	DecidedReleased = "released" // that ended by time: every read agreed
	DecidedAccepted = "accepted" // that ended because an operator accepted it
	DecidedSteered  = "steered"  // an operator froze, pinned or released objects
	DecidedPromoted = "promoted" // changes were published that had soaked on the canary
	DecidedHalted   = "halted"   // changes on the canary were taken back from it
)

// Accepted is the answer to an acceptance.
type Accepted struct {
	Digest table.Digest `json:"digest"` // of the table that is now served
	Routes int          `json:"routes"`
	By     string       `json:"by,omitempty"`
	Why    string       `json:"why,omitempty"`
	At     time.Time    `json:"at"`
}
