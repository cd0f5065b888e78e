// Package dataplane is the client of a route server: it fetches the routing table, verifies it, applies it, and keeps the
// last known good one (LKG) in memory and on disk.
//
// A [Client] follows one or more route servers ([Client.Run]): over a stream, or by polling, of which the answer is a delta
// where that is possible (docs/protocol.md). What passes goes to Config.Sink and is what [Client.Current] returns; a
// [DataClient] gives it to a proxy that loads routes in the manner of Skipper. [Client.Boot] loads the table that an earlier
// process applied.
//
// # What it guarantees
//
// Atomic: every table that it has is one that a server sent, whole. LKG: no failure of any server, and no restart,
// takes away the table that was applied last. Guarded: a table that looks like an accident is held back by the rules of
// package guard. Monotonic: it does not move to an older revision, unless the server insists (below).
//
// # Verify, then commit
//
// The body of an answer is decoded with a limit on what comes out. It is a candidate only if
//
//   - the transfer ended as announced: the length is that of Content-Length, and the encoding is whole;
//   - the SHA-256 of the decoded text is the digest in the ETag. An ETag has a digest if it is of the form
//     "<64 hex digits>[.<revision>][~<rotation>][+gzip|+zstd]", which all route servers use, the reference included. Any
//     other ETag says nothing: then a Content-Length is required, and an answer that has an X-Revision, as only ours
//     have, is refused;
//   - it parses completely, as routes with distinct ids, and X-Count, if there is one, is their number.
//
// Of a delta, the digest is that of the text which it leads to, computed over the whole of it. It is for a table that the
// client has, and the result shares memory with that. A delta that does not verify is followed by a full table in the same round,
// and the server is not asked for deltas for ten minutes.
//
// Whatever fails leaves everything as it was, the ETag of the next request included. A candidate that the guard lets pass
// is published by the gate of the client: memory, then disk, then the ETag that the next request names (package gate). The
// LKG file is the last-good file of that gate, and has no ETag: its names follow from the digest and the revision in it, so
// that file and name cannot disagree.
//
// # Held tables
//
// A held table is not applied, but it is kept beside the applied one, and a request names both: If-None-Match: applied,
// held. So it is not downloaded with every poll. The ETag of a 304 tells which of the two the server means: the applied
// one ends the hold; the held one is a poll that agrees with it, which releases it after the guard's time.
// [Client.Accept] releases it at once.
//
// # Streams
//
// A stream is a third way for answers to come, and not a second client: a delta or a table that it brings goes through the
// same verification, guard and commit as a body, and the event "current", which comes at least every 15 seconds, is what a
// 304 is to a poll: it confirms the applied table, or agrees with the one that is held. So freshness, holds and the order of
// tables work as without it. What does not verify ends the stream, and one full table is fetched.
//
// With Follow [Auto] the client polls once, and then connects. A server that knows no streams, or two attempts in a row
// that fail, mean polling for 15 to 30 seconds, and up to five minutes if that goes on, before the next attempt. A stream in
// which nothing is heard for 45 seconds is closed. Everything that many clients would do at the same moment is spread:
// coming back after a connection was lost, and fetching what a stream has announced.
//
// Once in Config.FullEvery a full table is fetched without naming any, whatever is applied: a mistake of ours does not last.
//
// # Order of tables
//
// Servers poll independently and can be behind each other. A server of ours answers a request that names a newer table
// with 304, so it has to be sure before it sends an older one (see package etagcache). Beside that, the client does not
// take a table with a lower revision than it has, until the same server has sent one in answer to two polls in a row: that
// is a cluster that was restored from a backup. Tables without a revision cannot be ordered and are taken.
//
// The ETag of a 304 is taken over if it has the digest of the table: its revision says how new the table is now.
//
// # Freshness
//
// When the source of a table was read is known by evidence only: X-Source-Read, or "source_read" of a stream, and for a server
// that sends neither the Date and Age of its answer (RFC 9111). A server that has once said so has to go on saying so. An
// answer without evidence confirms the table and leaves the time of the read as it was, so that a cache that answers from
// its store does not hide that the source is lost. Times more than a minute ahead of our clock are none.
//
// # Memory
//
// Tables and deltas become routes while they come in, in the form in which they are kept, and share what they have in common
// with the table before. Beside that table, a server costs about one and a half times the limit, whatever it sends.
//
// # Several servers
//
// The first URL is preferred. A server that fails is left alone for a growing, jittered time, and the others are tried
// within the same round. While another server is in use, the ones before it in the list are probed with HEAD, and one
// that has been fine for Config.ReturnAfter is used again. Redirects are not followed.
//
// # What it does not do
//
// It does not decide which table a proxy serves (package rollout), serve HTTP, read flags, or set up TLS: pass a Transport.
//
// # Caveats
//
// An ETag of the form above whose digits are not the SHA-256 of the text makes every answer of that server wrong. A 304 of
// a server that is behind cannot be told from one that agrees, for the seconds until it has read again. The LKG file is no
// secret and no signature: who can write it can give the client a table. The routes file has mode 0600: the proxy has to
// run as the same user. A client that switches between a route server of ours and one whose ETags have no revision
// downloads the table once per switch.
package dataplane

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/routesrv/routesrv/gate"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/pace"
	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	DefaultInterval    = pace.DefaultInterval
	DefaultTimeout     = 10 * time.Second
	DefaultMaxBackoff  = 30 * time.Second
	DefaultReturnAfter = time.Minute
	DefaultFullEvery   = time.Hour
	// DefaultMaxBytes is the limit of the first table, if nothing says that there is less memory.
	DefaultMaxBytes = 512 << 20
)

// Config is what a Client is made of. Only URLs is required.
type Config struct {
	// URLs are the route servers, the preferred one first: http or https, with or without /routes at the end of the path.
	URLs []string
	// Zone asks for the table of a zone; empty asks for the full one. ZoneFile is a file with the zone as its only
	// content, such as one of the downward API; it is read for every poll, and the full table is asked for while it is
	// missing, empty or no zone. At most one of the two.
	Zone, ZoneFile string

	// Follow is how new tables come: over a stream, by polling, or whichever works. The zero value is Auto.
	Follow Follow
	// NoDeltas asks for full tables only. Streams are made of deltas: it takes Follow Poll.
	NoDeltas bool
	// FullEvery is how often a full table is fetched although nothing has failed; up to half less is left to chance. Default
	// DefaultFullEvery.
	FullEvery time.Duration

	// Interval between two polls; a tenth more or less is left to chance. Default DefaultInterval, at least 1 ms.
	Interval time.Duration
	// Timeout is the deadline of one exchange, from dialling to the last byte. It has nothing to do with Interval. A
	// round takes at most three times as long. Default DefaultTimeout.
	Timeout time.Duration
	// MaxBackoff is the longest time that a failing server is left alone; the shortest is Interval. Default
	// DefaultMaxBackoff, or Interval if that is longer.
	MaxBackoff time.Duration
	// ReturnAfter is how long a preferred server has to be fine before it is used again; up to half more is left to
	// chance. Default DefaultReturnAfter.
	ReturnAfter time.Duration
	// MaxBytes bounds a body, both as it is sent and decoded, an event of a stream, the text that a delta leads to, and the LKG
	// file; a route counts as its text and 96 bytes, after the first ten thousand. By default it is four times the last table, at least 64 MiB; before there
	// is a table DefaultMaxBytes; and not more than a quarter of Memory.
	MaxBytes int64
	// Memory is how many bytes this process may take, 0 if that is not known.
	Memory int64

	// Guard sets the limits beyond which a table is held back.
	Guard guard.Config

	// Decided is told of each hold, and how it was released: see gate.Config.
	Decided func(gate.Decision)

	// LKGPath is the file of the last known good table: a valid eskip document with its metadata in comments, mode 0600.
	// Empty: none is kept. Its folder must exist.
	LKGPath string
	// RoutesFile is a plain eskip document of the applied table, for a proxy that reads one (-routes-file). Empty: none.
	RoutesFile string

	// Pack keeps tables packed ([table.List.Packed]), in a tenth of the memory: for a client whose table few read.
	Pack bool

	// Transport makes the requests: TLS is set up there. nil means [NewTransport].
	Transport http.RoundTripper
	// Sink serves the tables: the one of the LKG file as stale, if Boot is called, and then each that is applied. It must not
	// call the Client. nil means that nobody needs to know.
	Sink gate.Sink

	// Identity is what the client says of itself with each request: the value of the header Routesrv-Client. It is called
	// concurrently, and must not call the Client. nil, or an empty value, sends none.
	Identity func() string

	Logger  *slog.Logger // nil means no log
	Metrics *Metrics     // nil means none

	// Random is where jitter comes from: [0, 1), not called concurrently. nil means math/rand.
	Random func() float64
}

// Client fetches and keeps the table. All methods are safe for concurrent use.
type Client struct {
	// set by New, read only
	cfg     Config
	log     *slog.Logger
	said    *said
	gate    *gate.Gate
	http    *http.Client
	recheck chan struct{}

	// polling is held for a round; owned by the round:
	polling    sync.Mutex
	zoneSource zoneSource
	current    int       // index of the server in use
	failing    bool      // no server gave an answer in the last round
	fullDue    time.Time // when a full table is to be fetched; zero before there is one

	transport transport // owned by Run

	mu      sync.Mutex
	servers []*server // guarded by mu; the slice is read only
	loop    loopState // guarded by mu
}

// New checks cfg and fills in its defaults. It does no I/O and starts nothing.
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
	g, err := gate.New(gate.Config{
		Sink: cfg.Sink, Guard: cfg.Guard, Logger: log, Metrics: cfg.Metrics.gate, Decided: cfg.Decided,
		Files: []gate.FileConfig{{Name: lkgFile, Path: cfg.LKGPath, Pack: cfg.Pack}, {Name: routesFile, Path: cfg.RoutesFile, Plain: true}},
	})
	if err != nil {
		return nil, fmt.Errorf("dataplane: %w", err)
	}
	c := &Client{
		cfg: cfg, log: log, gate: g, servers: servers,
		recheck: make(chan struct{}, 1),
		http: &http.Client{
			Transport: cfg.Transport,
			// A redirect is an error: it would carry the request, and the trust in its answer, to who knows where.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.said = newSaid(c.log)
	c.transport.pollFirst = true
	c.zoneSource = zoneSource{zone: Zone{cfg.Zone, cfg.ZoneFile}, log: c.log} // which check has checked
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
	case cfg.Interval < 0 || cfg.Interval > 0 && cfg.Interval < time.Millisecond:
		return fmt.Errorf("interval %v: want at least 1ms", cfg.Interval)
	case cfg.Timeout < 0 || cfg.MaxBackoff < 0 || cfg.ReturnAfter < 0 || cfg.FullEvery < 0:
		return errors.New("timeout, max backoff, return after and full every: want no negative time")
	case cfg.Follow > Poll:
		return fmt.Errorf("follow %v: want auto, stream or poll", cfg.Follow)
	case cfg.NoDeltas && cfg.Follow != Poll:
		return fmt.Errorf("no deltas with follow %v: a stream is made of them, want poll", cfg.Follow)
	case cfg.MaxBytes < 0 || cfg.Memory < 0:
		return fmt.Errorf("max bytes %d, memory %d: want no negative number", cfg.MaxBytes, cfg.Memory)
	case cfg.LKGPath != "" && cfg.LKGPath == cfg.RoutesFile:
		return fmt.Errorf("%q is both LKG file and routes file", cfg.LKGPath)
	}
	return nil
}

func (cfg *Config) fill() {
	for value, standard := range map[*time.Duration]time.Duration{
		&cfg.Interval: DefaultInterval, &cfg.Timeout: DefaultTimeout,
		&cfg.MaxBackoff: DefaultMaxBackoff, &cfg.ReturnAfter: DefaultReturnAfter, &cfg.FullEvery: DefaultFullEvery,
	} {
		if *value == 0 {
			*value = standard
		}
	}
	cfg.MaxBackoff = max(cfg.MaxBackoff, cfg.Interval)
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Sink == nil {
		cfg.Sink = gate.Each(func(*table.Table) {})
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	if cfg.Identity == nil {
		cfg.Identity = func() string { return "" }
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
}

// The files, as label values.
const (
	lkgFile    = "lkg"
	routesFile = "routes"
)

// Boot loads the LKG file and applies its table, which is stale until a server confirms it, and returns it; nil if there is no
// usable file, which is no error: see [gate.Gate.Boot]. It is to be called before Run.
func (c *Client) Boot() *table.Table {
	if c.gate.Served() == nil && c.cfg.LKGPath != "" {
		c.gate.Boot(c.limit(), namesOf)
		if s := c.gate.Served(); s != nil {
			c.cfg.Metrics.show(s)
		}
	}
	return c.Current()
}

// namesOf returns the ETags that route servers give to a table in the encodings that the client asks for. A table from a file has
// no ETag. Any of its names will do, because a server reads nothing but the digest and the revision. A server with other ETags
// does not know these, and sends the table.
func namesOf(t *table.Table) []string {
	zstd, gzip := wire.Tag{Digest: t.Digest(), Revision: t.Revision(), Encoding: wire.Zstd}, wire.Tag{Digest: t.Digest(), Revision: t.Revision(), Encoding: wire.Gzip}
	return []string{zstd.String(), gzip.String()}
}
