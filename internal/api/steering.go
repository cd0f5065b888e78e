package api

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// PathSteering is where objects are frozen, rolled back and released: on the control socket, with POST.
const PathSteering = "/steering"

// Steering is what operators have frozen and pinned.
type Steering struct {
	// Digest is the same for replicas on which the same is in force.
	Digest table.Digest `json:"digest"`
	Orders []Order      `json:"orders"` // the newest first
}

// Order is a freeze, or a pin of an object.
type Order struct {
	What   string    `json:"what"`   // freeze or pin
	Scope  string    `json:"scope"`  // in words
	Detail string    `json:"detail"` // which version, and the reason of the operator
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is released
}

const (
	// DefaultSteering is how long a freeze or pin lasts if nobody says how long, and MaxSteering how long at most, unless it lasts until
	// it is released.
	DefaultSteering = time.Hour
	MaxSteering     = 7 * 24 * time.Hour
)

// The commands of /steering.
const (
	SteerFreeze   = "freeze"
	SteerRollback = "rollback"
	SteerRelease  = "release"
)

// Steered is the answer to a command of /steering.
type Steered struct {
	Dry      bool         `json:"dry,omitempty"` // nothing was changed
	What     string       `json:"what"`          // in words
	Until    time.Time    `json:"until,omitzero"`
	Pins     []string     `json:"pins,omitempty"`     // versions of objects, by names that all replicas know
	Warnings []string     `json:"warnings,omitempty"` // what cannot be honoured, and what it re-opens
	Changes  string       `json:"changes"`            // how the table changes by it, as text
	Digest   table.Digest `json:"digest,omitzero"`    // of the table that is served now
	By       string       `json:"by,omitempty"`
	Why      string       `json:"why,omitempty"`
}
