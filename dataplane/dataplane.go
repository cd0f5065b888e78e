// Package dataplane is the client of a route server: it fetches the routing table, verifies it, applies it, and keeps the
// last-known-good one in memory and on disk.
//
// A [Client] follows one or more route servers ([Client.Run]): over a stream, or by polling, with deltas where possible
// (docs/reference/protocol.md). A table that passes goes to Config.Sink, and [Client.Current] returns it. [Client.Boot] loads the
// table that an earlier process applied. A [Relay] serves the table to other clients, and [AskPeers] fetches what other replicas
// of a route server serve.
//
// Calls point down the list of files:
//
//	peers.go                   other replicas of a route server
//	relay.go  claims.go        a client that feeds a cache
//	dataplane.go               configuration; a new client
//	run.go                     the loop: a poll, or a stream until it ends
//	follow.go                  one stream and its events
//	round.go                   one poll: servers until one answers
//	stream.go  fetch.go        one connection; one exchange
//	commit.go                  what an answer means; verified tables are offered to the publisher
//	delta.go  body.go          content of an answer
//	servers.go  zone.go        health of servers, evidence about their sources; the zone
//	status.go  errors.go       state and metrics; reasons and the log
//
// # What it guarantees
//
// Atomic: every table that it has was sent by a server as a whole. Last known good: no failure of any server, and no restart,
// removes the last applied table. Guarded: the guard holds a table that looks like an accident. Monotonic: it does not move to an
// older revision, unless the same server has sent one in two consecutive polls: then the cluster was restored from a backup.
// Tables without a revision have no order and are accepted.
//
// An answer is a candidate only if the SHA-256 of its decoded text, or of the text that its delta leads to, is the digest in the
// ETag, which all route servers send, including the reference; if it parses completely, as routes with distinct ids; and if
// X-Count, if present, equals their number. A failure changes nothing, not even the ETag of the next request. Requests name a
// held table beside the applied one, so it is downloaded once.
//
// A stream is another transport for answers: its deltas go through the same verification, guard and commit, and its event
// "current" corresponds to a 304. Actions that many clients would take at the same moment are spread over time.
//
// The time of the source's read comes only from evidence: X-Source-Read, or "source_read" of a stream; for a server that sends
// neither, the Date of its answer. An answer without evidence confirms the table but does not change the time of the read, so
// that a cache cannot hide the loss of the source.
//
// # Caveats
//
// The last-known-good file is not signed: everyone who can write it can give the client a table. Receiving a table takes at most
// about one and a half times the limit on its size, in addition to the previous table. The client does not follow redirects.
//
// Other modules may import it: the exported API is stable within a major version.
package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	DefaultInterval   = api.DefaultInterval
	DefaultTimeout    = 10 * time.Second
	defaultMaxBackoff = 30 * time.Second
	// defaultMaxBytes limits a table, unless the available memory requires less.
	defaultMaxBytes = 512 << 20
)

// Config configures a Client. Only URLs is required.
type Config struct {
	// URLs are the route servers, the preferred one first: http or https, with or without /routes at the end of the path.
	URLs []string
	// Zone requests the table of a zone; empty requests the full one. ZoneFile has the zone as its only content and is read for
	// every poll; while it is not usable, the full table is requested. Set at most one of the two.
	Zone, ZoneFile string

	// UpdateMode says how to get new tables: over a stream, by polling, or whichever works. Default Auto.
	UpdateMode UpdateMode
	// Interval is the time between two polls, with jitter of a tenth. Default DefaultInterval, at least 1 ms.
	Interval time.Duration
	// Timeout is the deadline of one exchange; a round takes at most three times as long. Default DefaultTimeout.
	Timeout time.Duration
	// MaxBackoff is the longest time for which a failing server is not asked. Default 30 seconds, or Interval if that is longer.
	MaxBackoff time.Duration
	// MaxBytes limits all forms of a table and an event of a stream. The default is 512 MiB, or a quarter of Memory, the bytes
	// that this process may use, if that is known and less, but never less than one and a half times the last table.
	MaxBytes, Memory int64

	// Guard sets the limits beyond which a table is held back.
	Guard guard.Config

	// Decided is told about each hold and its release: see publish.Config.
	Decided func(api.Decision)

	// StateDir is the folder of the last-known-good file ([publish.LastKnownGoodFile]). Empty means no file.
	StateDir string
	// Unproven reports whether the last-known-good file must not have a table yet, because no proxy has run with it. The file then
	// keeps the table before, until [publish.Publisher.Prove]. It must not call the Client. It may be nil.
	Unproven func(table.Digest) bool

	// Transport sends the requests, and configures TLS. nil means [NewTransport].
	Transport http.RoundTripper
	// Sink serves the tables: first the one of the last-known-good file as stale, if Boot is called, then each applied one. It
	// must not call the Client. It may be nil.
	Sink publish.Sink
	// Ended is told how each round of polling, attempt to open a stream, and confirmation over a stream ended. It must not call the
	// Client. It may be nil.
	Ended func(err error)
	// Identity returns the value of the header Routesrv-Client for each request; empty sends none. It is called concurrently, and
	// must not call the Client. It may be nil.
	Identity func() string

	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // nil means none

	// Random is the source of jitter: [0, 1), not called concurrently. nil means math/rand.
	Random func() float64
}

// Client fetches and keeps the table. All methods are safe for concurrent use.
type Client struct {
	// set by New, read only
	cfg       Config
	log       *slog.Logger
	dedup     *dedupLogger
	publisher *publish.Publisher
	http      *http.Client
	zone      Zone
	recheck   chan struct{}

	// polling is held during a round, which owns the fields below.
	polling  sync.Mutex
	zoneText string // of the file with the zone, or why it has none, as logged last
	current  int    // index of the server in use

	transport transport // owned by Run

	mu      sync.Mutex
	servers []*server // guarded by mu; the slice is read only
	loop    loopState // guarded by mu
}

// New checks cfg and fills in its defaults. It does no I/O and starts no goroutine.
func New(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("dataplane: %w", err)
	}
	servers, err := newServers(cfg.URLs)
	if err != nil {
		return nil, fmt.Errorf("dataplane: %w", err)
	}
	cfg.fill()
	log := cfg.Logger.With("component", "dataplane")
	file := publish.LastKnownGood(cfg.StateDir)
	file.Unproven = cfg.Unproven
	g, err := publish.New(publish.Config{
		Sink: cfg.Sink, Guard: cfg.Guard, Logger: log, Metrics: cfg.Metrics.publisher, Decided: cfg.Decided,
		File: file,
	})
	if err != nil {
		return nil, fmt.Errorf("dataplane: %w", err)
	}
	c := &Client{
		cfg: cfg, log: log, publisher: g, servers: servers, zone: Zone{cfg.Zone, cfg.ZoneFile},
		recheck: make(chan struct{}, 1),
		http: &http.Client{
			Transport: cfg.Transport,
			// A redirect is an error: it could send the request, and the trust in its answer, anywhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.dedup = &dedupLogger{log: c.log, last: make(map[message]time.Time)}
	c.transport.pollFirst = true
	return c, nil
}

func (cfg *Config) check() error {
	if len(cfg.URLs) == 0 {
		return errors.New("no URL of a route server")
	}
	if _, err := NewZone(cfg.Zone, cfg.ZoneFile); err != nil {
		return err
	}
	switch {
	case cfg.Interval != 0 && cfg.Interval < time.Millisecond:
		return fmt.Errorf("interval %v: must be at least 1ms", cfg.Interval)
	case !slices.Contains([]UpdateMode{"", Auto, Stream, Poll}, cfg.UpdateMode):
		return fmt.Errorf("update mode %.50q: must be auto, stream or poll", cfg.UpdateMode)
	}
	return nil
}

func (cfg *Config) fill() {
	cfg.UpdateMode = cmp.Or(cfg.UpdateMode, Auto)
	cfg.Interval = cmp.Or(cfg.Interval, DefaultInterval)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxBackoff = max(cmp.Or(cfg.MaxBackoff, defaultMaxBackoff), cfg.Interval)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Ended == nil {
		cfg.Ended = func(error) {}
	}
	if cfg.Identity == nil {
		cfg.Identity = func() string { return "" }
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
}

// Boot loads the last-known-good file, applies its table, which is stale until a server confirms it, and returns it. It returns
// nil without a usable file, which is not an error: see [publish.Publisher.Boot]. Call it before Run.
func (c *Client) Boot() *table.Table {
	if c.publisher.Served() == nil && c.cfg.StateDir != "" {
		c.publisher.Boot(c.limit(), namesOf)
		if s := c.publisher.Served(); s != nil {
			c.cfg.Metrics.show(s)
		}
	}
	return c.Current()
}
