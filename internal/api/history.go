package api

import (
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

const (
	// PathHistory is where a server tells what it has served.
	PathHistory = "/history"
	// PathKeptHistory is where it passes its history on to a replica that starts, in the form of the files.
	PathKeptHistory = "/kept/history"
)

// HistoryEntry is a change of what is served: of Ingresses, RouteGroups and default filters, or a decision about them. Changes of endpoints
// alone make none.
type HistoryEntry struct {
	N        uint64       `json:"n"` // counts the entries of a server, from 1
	At       time.Time    `json:"at"`
	Revision uint64       `json:"revision,omitempty"`
	Digest   table.Digest `json:"digest"` // of the table that was served from then on
	// Changes are at most MaxChanges of the objects; Count counts all.
	Changes []HistoryChange `json:"changes,omitempty"`
	Count   int             `json:"count"`
	// Added, Changed and Removed count routes.
	Added   int `json:"routes_added"`
	Changed int `json:"routes_changed"`
	Removed int `json:"routes_removed"`
	// Takeovers are requests that other owners lost, as far as they were known by then.
	Takeovers []Takeover `json:"takeovers,omitempty"`
	// Decisions are what was decided since the entry before: what is kept and why, and who accepted or steered what.
	Decisions []Decision `json:"decisions,omitempty"`
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
