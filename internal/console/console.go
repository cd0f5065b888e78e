// Package console has the pages that operators look at: the overview at / of the support listener, and pages for the fleet, for a
// client, for an object and for a request.
//
// Pages are made on the server and work without JavaScript. With JavaScript they stay up to date: a script fetches the page
// that it is on every few seconds and takes over what has changed. Everything that a page needs is in the binary, and the content
// security policy forbids everything else, inline scripts and styles too.
//
// # What changes something
//
// One form does: it accepts a held table. It is taken under the conditions of [httpserve.Accept], and with a token that only
// pages have that were served under the same conditions. See accept.go.
//
// # Cost
//
// A page shows the first rows of each list, and how many there are beyond. Four pages are made at a time. The fleet is asked for
// once in two seconds at most, whoever looks.
//
// # What it does not do
//
// It knows nothing by itself: a server passes functions, and a function that is nil means that the server does not know such
// things. It hides nothing from whoever can reach the listener, as /status does not either.
package console

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/audit"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// ErrBusy is what a function of [Config] returns if it answers too many questions already. The page asks to try again.
var ErrBusy = errors.New("too many questions at a time")

// ErrNoTable is what Match returns before the first table.
var ErrNoTable = errors.New("there is no table yet")

// Config is what the pages show. State and Accept are required; every other function may be nil. All of them are called by
// several goroutines at once.
type Config struct {
	Name    string // of the host; may be empty
	Version string // of the program
	Relay   bool   // the server has its table from another route server

	// State gives the table, the source and the gate.
	State func() State
	// Problems are those of the objects. nil on a relay, which sees none.
	Problems func() []poller.Problem
	// Held gives the difference between the served and the held table; nil if none is held. It may be called while nothing is held.
	Held func(context.Context) (*shadowdiff.View, error)
	// Accept publishes a held table. Its errors are those of [guard.Guard.Accept].
	Accept func(guard.Acceptance) (*table.Table, error)
	// Explain says what became of an object, a host or a route. nil on a relay. The error may be ErrBusy.
	Explain func(context.Context, explain.Query) (*explain.Explanation, error)
	// Match finds the route of a request, whose parameters are those of /match. The error may be ErrBusy or ErrNoTable, and else
	// says what is wrong with the parameters.
	Match func(context.Context, url.Values) (*report.View, error)
	// Fleet gives the clients in a state, or all of them for an empty one. nil means that no fleet is known.
	Fleet func(ctx context.Context, state string) (fleet.View, error)
	// Streams are those that are open. nil means that there are none on this server.
	Streams func() []etagcache.StreamStatus
	// Publishes are the tables that were served lately. nil shows none.
	Publishes *Publishes

	// Every is how often a page with JavaScript asks for news; 0 means DefaultEvery.
	Every time.Duration

	Logger *slog.Logger // nil means no log
}

// DefaultEvery is how often a page asks for news.
const DefaultEvery = 3 * time.Second

// State is what a server says of itself.
type State struct {
	Started time.Time
	Origin  string // of the table: "cluster", "manifests", or the URL of the server above a relay
	Table   *Table // nil before the first
	Source  gate.Progress
	Guard   httpserve.GuardReport
	// Decisions about held tables, the newest first.
	Decisions  []audit.Entry
	Checkpoint *gate.FileStatus // nil if there is none
}

// Table is the table that is served.
type Table struct {
	ETag     string // with its quotes
	Digest   table.Digest
	Revision uint64 // 0 if the source has none
	Routes   int
	Hosts    int
	Bytes    int
	Zones    []string
	Since    time.Time // when this process began to serve it
	LastRead time.Time // of the source, with success; zero if there was none
	Stale    bool      // from a checkpoint, and not confirmed by a read yet
}

// Console answers the requests for pages. Make one with [New]. It is safe for concurrent use.
type Console struct {
	cfg   Config
	log   *slog.Logger
	key   [32]byte // of the tokens of this process
	turns chan struct{}
	fleet remembered
}

// Limits of pages.
const (
	maxPages      = 4                // that are made at a time
	pageWait      = 5 * time.Second  // for a turn
	pageTimeout   = 20 * time.Second // to make a page
	maxQueryBytes = 8 << 10
)

// New makes the pages. It panics if State or Accept are nil, which is a mistake of the program.
func New(cfg Config) *Console {
	if cfg.State == nil || cfg.Accept == nil {
		panic("console: want State and Accept")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	c := &Console{cfg: cfg, log: cfg.Logger, turns: make(chan struct{}, maxPages)}
	c.fleet.ask, c.fleet.turn = cfg.Fleet, make(chan struct{}, 1)
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// Endpoints are what the pages add to a listener, without its name.
func (c *Console) Endpoints() []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	return []httpserve.Endpoint{
		{Path: "/{$}", Methods: get, Handler: c.page("overview", c.overview),
			Does: "the [console](console.md): table, source, gate, problems, fleet, publishes and streams on one page, which stays up to date; " +
				"`namespace=`, `kind=`, `severity=`, `reason=` and `q=` choose problems"},
		{Path: "/fleet", Methods: get, Handler: c.page("fleet", c.fleetPage),
			Does: "page: the clients and how they fare; `state=`, `zone=`, `version=` and `q=` choose"},
		{Path: "/client", Methods: get, Handler: c.page("client", c.client), Does: "page: one client, by `id=`"},
		{Path: "/object", Methods: get, Handler: c.page("object", c.object),
			Does: "page: what became of an object, as `/explain` says it, with the same parameters"},
		{Path: "/request", Methods: get, Handler: c.page("request", c.request),
			Does: "page: which route a request reaches, as `/match` says it, with the same parameters"},
		{Path: "/accept", Methods: []string{http.MethodPost}, Handler: c.accept(),
			Does: "the form of the console that accepts a held table: as `/guard/accept`, with `by`, `why` and the token of the page"},
		{Path: "/assets/{file}", Methods: get, Handler: http.HandlerFunc(serveAsset), Does: "style and script of the pages"},
	}
}
