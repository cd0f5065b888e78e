package api

import (
	"time"

	"github.com/routesrv/routesrv/table"
)

// BoardSchema names the form of [Board]. Within one version, fields are only added.
const BoardSchema = "routesrv.board/v1"

// Board is what `board -o json` prints: one element for each cluster, in the order of their names.
type Board struct {
	Schema          string         `json:"schema"`
	Time            time.Time      `json:"time"`
	CleanForSeconds float64        `json:"clean_for_seconds"` // required of the data planes in mode Pre
	Clusters        []BoardCluster `json:"clusters"`
}

// BoardCluster is the state of a cluster in brief. Lists have the first few elements.
type BoardCluster struct {
	Name  string   `json:"name"`
	State string   `json:"state"` // one of the states below
	Why   []string `json:"why,omitempty"`
	// AwaySince is when queries began to fail, and Error is why; zero while the cluster answers.
	AwaySince time.Time   `json:"away_since,omitzero"`
	Error     string      `json:"error,omitempty"`
	Asked     time.Time   `json:"asked,omitzero"` // last answer to /status
	Replica   string      `json:"replica,omitempty"`
	Version   string      `json:"version,omitempty"` // of the route server
	Relay     bool        `json:"relay,omitempty"`
	Table     *BoardTable `json:"table,omitempty"`    // the served table; nil before the first one
	Kept      int         `json:"kept,omitempty"`     // objects served at an earlier version
	Orders    int         `json:"orders,omitempty"`   // freezes and pins
	Warnings  []string    `json:"warnings,omitempty"` // conditions that need an operator
	// Problems are counted by severity, and Reasons are the most frequent ones.
	Problems map[string]int `json:"problems,omitempty"`
	Reasons  []BoardCount   `json:"reasons,omitempty"`
	// Clients are counted by state, Modes by mode, and Versions are the most frequent ones. Laggards are the worst clients.
	Clients  map[string]int `json:"clients,omitempty"`
	Modes    map[string]int `json:"modes,omitempty"`
	Versions []BoardCount   `json:"versions,omitempty"`
	Laggards []BoardLaggard `json:"laggards,omitempty"`
	// Pre is how the data planes in mode Pre compare; nil while the clients are unknown.
	Pre *BoardPre `json:"pre,omitempty"`
	// Changes counts the entries of the history in the last hour, and History are the last ones, the newest first.
	Changes int          `json:"changes,omitempty"`
	History []BoardEntry `json:"history,omitempty"`
}

// The states of a cluster on the board.
const (
	BoardAsking = "asking" // it has not answered yet
	BoardGood   = "good"
	BoardNotice = "notice" // an operator should look at it
	BoardBad    = "bad"    // the served table is missing, stale or held
	BoardAway   = "away"   // it does not answer
)

// BoardTable is the served table of a cluster.
type BoardTable struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision,omitempty"`
	Routes   int          `json:"routes"`
	LastRead time.Time    `json:"last_read,omitzero"` // of its source
	Stale    bool         `json:"stale,omitempty"`
	Held     bool         `json:"held,omitempty"`
}

// BoardCount is a name with how often it occurs.
type BoardCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// BoardLaggard is a client that does not hold the newest table.
type BoardLaggard struct {
	ID            string  `json:"id"`
	State         string  `json:"state"`
	BehindSeconds float64 `json:"behind_seconds,omitempty"`
	Reason        string  `json:"reason,omitempty"`
}

// BoardPre is how far the data planes of a cluster are with a cutover.
type BoardPre struct {
	Planes   int `json:"planes"`   // in mode Pre
	Reported int `json:"reported"` // of these, with a comparison
	Ready    int `json:"ready"`    // of these, with a passed cutover check
	Differ   int `json:"differ"`   // of these, with a difference
	// CleanSeconds is for how long all of them have been clean, as far as the oldest one knows.
	CleanSeconds float64 `json:"clean_seconds"`
	// Clean means that they have been clean for the time of the board, or that all data planes are in Exec. Reason is why not.
	Clean  bool   `json:"clean"`
	Reason string `json:"reason,omitempty"`
}

// BoardEntry is an entry of the history in brief.
type BoardEntry struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}
