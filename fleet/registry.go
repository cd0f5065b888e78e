// Package fleet tracks which client holds which table: every client of a route server, from its requests and its reports.
//
// A [Registry] is told about each request and stream ([Registry.Saw]), each report ([Registry.Reported]) and each published table
// ([Registry.Published]). It returns the [Clients] of this replica, and [Merge] joins those of several replicas. A
// [Reporter] is the other side: it sends the reports of a sidecar or a relay.
//
// A client is compared with the tables that its replica has published, which are numbered. It is current if it holds the last
// one, or an unknown one that may be newer; behind if it holds any other one; rejected if its last report gives a reason for
// rejecting the table; and silent if nothing was heard for three of its intervals. Silent takes precedence over rejected, and
// rejected over the others.
//
// All data here comes from clients. An id is a claim: every client that may fetch tables may claim any id. Therefore no table
// that a server serves depends on this package; only a data plane whose mode is a number of nodes learns its rank. No request
// goes to an address that a client names, and texts are checked and truncated before they are stored. Shares are shares of the
// addresses that clients connect from, and an address counts with its worst client: invented ids hide nothing. Nor does a forged
// report under a real id: reported crashes of a proxy are shown for [SuspectFor].
//
// A Registry has at most Config.Max clients, and from one address at most [MaxPerAddress] with an id and [MaxInferredPerAddress]
// without one. The last quarter is for addresses with few clients. A full Registry adds new clients only in place of silent ones.
//
// Other modules should not import it: it may change with every release.
package fleet

import (
	"cmp"
	"crypto/rand"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// Limits of a Registry.
const (
	DefaultMax = 20_000
	// MaxPerAddress is how many clients with an id may share an address: many, because of address translation, but few compared
	// with DefaultMax. MaxInferredPerAddress limits clients that are distinguished only by their user agent.
	MaxPerAddress         = 1000
	MaxInferredPerAddress = 4
	// fewPerAddress is how many clients of one address may use the last quarter of a Registry, so that a few cannot fill it.
	fewPerAddress = 8
	maxAgent      = 64 // bytes of a user agent
)

// Intervals.
const (
	// ReportEvery is how often a client reports, at least.
	ReportEvery = 10 * time.Second
	// defaultInterval is the assumed interval of a client that does not name one, until it is learned.
	defaultInterval = 3 * time.Second
	// streamInterval is the time between two heartbeats of a stream. Clients that do not report give no other sign of life.
	streamInterval = 15 * time.Second
	// unknownFor is the time within which a requester without an id must ask again to count as a client.
	unknownFor = 5 * time.Minute
	// makeRoomEvery is how often a full Registry looks for silent clients.
	makeRoomEvery = time.Second
)

// Config configures a Registry.
type Config struct {
	Name  string // of this replica
	Relay bool   // it fetches its table from another route server
	// Order returns the number, as passed to Published, of the last version with a table; 0 if it is unknown.
	Order func(table.Digest) uint64
	// CanaryOrder is Order for the tables of the canary; nil if there is none.
	CanaryOrder func(table.Digest) uint64
	Max         int              // clients; 0 means DefaultMax
	Now         func() time.Time // nil means time.Now
	// Metrics counts; nil counts nothing.
	Metrics *Metrics
}

// Registry tracks the clients of one replica. Create it with [New]; its methods are safe for concurrent use.
type Registry struct {
	cfg      Config
	instance string

	mu       sync.Mutex // guards the fields below
	clients  map[string]*client
	sources  map[netip.Addr]source // of the clients, by address
	versions versions
	canaries versions  // the tables of the canary
	madeRoom time.Time // when silent clients were last removed
	full     bool      // a client was refused since then
}

// source counts the clients last heard from an address.
type source struct{ named, inferred int }

// New returns a Registry with a random instance.
func New(cfg Config) *Registry {
	cfg.Max = cmp.Or(cfg.Max, DefaultMax)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Order == nil {
		cfg.Order = func(table.Digest) uint64 { return 0 }
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	return &Registry{
		cfg: cfg, instance: rand.Text(), // so that it recognises itself among its peers
		clients: make(map[string]*client), sources: make(map[netip.Addr]source),
		versions: versions{order: cfg.Order}, canaries: versions{order: cfg.CanaryOrder},
	}
}

// Sighting is a request of a client, or an event of one of its streams.
type Sighting struct {
	Identity  string // value of the header; empty if missing
	UserAgent string
	Address   netip.Addr
	Zone      string // the requested zone, for a client without an identity
	// Holds is the table that the client names, else the last one that it was sent completely. Zero if both are unknown.
	Holds Name
	// Ahead means that the replica cannot be sure that its table is as new as Holds.
	Ahead  bool
	Canary bool // it asked for the table of the canary
	Stream etagcache.StreamPhase
}

// Saw records a request or a stream event.
func (r *Registry) Saw(s Sighting) {
	now := r.now()
	identity, named := ParseIdentity(s.Identity)
	if !named {
		identity.ID = ""
	}
	k := keyOf(identity.ID, s.Address, s.UserAgent)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.clients[k]
	if c == nil {
		if s.Stream == etagcache.StreamClosed || s.Stream == etagcache.StreamWritten {
			return // the client was forgotten, or not added
		}
		if c = r.add(k, named, s.Address, now); c == nil {
			return
		}
		c.once = !named
	} else if !named && (s.Stream == etagcache.NoStream || s.Stream == etagcache.StreamOpened) {
		c.once = c.once && now.Sub(c.LastHeard) > unknownFor
		if s.Stream == etagcache.NoStream {
			c.learn(now)
		}
	}
	if named {
		c.is(identity)
	} else {
		c.infer(s)
	}
	r.move(c, s.Address)
	r.heard(c, s, now)
}

func (r *Registry) heard(c *client, s Sighting, now time.Time) {
	reporting := c.reporting(now)
	switch s.Stream {
	case etagcache.StreamOpened:
		c.streams++
	case etagcache.StreamClosed:
		c.streams--
		c.LastHeard = now
		if !c.counts() {
			c.Holds = nil
		}
		return
	case etagcache.StreamWritten:
		if reporting {
			return // the client may not have applied what was written; its reports are authoritative
		}
	}
	c.LastHeard, c.Canary = now, s.Canary
	if s.Holds.IsZero() || s.Stream != etagcache.NoStream && reporting || !c.counts() {
		return
	}
	r.hold(c, s.Holds, now)
	c.aheadOf = 0
	if s.Ahead {
		c.aheadOf = r.versionsOf(c).last().order
	}
}

func (r *Registry) hold(c *client, n Name, at time.Time) {
	if c.Holds != nil && c.Holds.Digest == n.Digest {
		at = c.Holds.Since
	} else {
		c.aheadOf, c.order = 0, r.versionsOf(c).order(n.Digest)
	}
	c.Holds = &Table{Digest: n.Digest, Revision: n.Revision, Since: at}
}

// Reported records a report of a client that has identified itself. It returns false if the identity is invalid or the limit of
// clients is reached. The Registry keeps the report.
func (r *Registry) Reported(identity string, address netip.Addr, report *Report) bool {
	now := r.now()
	i, ok := ParseIdentity(identity)
	r.mu.Lock()
	defer r.mu.Unlock()
	var c *client
	if ok {
		if c = r.clients[i.ID]; c == nil {
			c = r.add(i.ID, true, address, now)
		}
	}
	if c == nil {
		r.cfg.Metrics.reports.WithLabelValues("refused").Inc()
		return false
	}
	r.cfg.Metrics.reports.WithLabelValues("taken").Inc()
	c.is(i)
	c.Canary = report.Canary
	r.move(c, address)
	c.report(report, now)
	if !report.Holds.IsZero() {
		r.hold(c, report.Holds, now.Add(-seconds(report.HoldsAgo)))
	}
	return true
}

func (r *Registry) now() time.Time { return r.cfg.Now().UTC() }

func (r *Registry) add(k string, named bool, address netip.Addr, now time.Time) *client {
	if !r.hasRoom(named, address) && !r.makeRoom(now, named, address) {
		r.full = r.full || len(r.clients) >= r.cfg.Max
		r.cfg.Metrics.refused.Inc()
		return nil
	}
	k = strings.Clone(k) // does not pin the whole header
	c := &client{
		Client: Client{ID: strings.TrimSpace(k), Inferred: !named, FirstHeard: now, LastHeard: now},
		key:    k, address: address, interval: defaultInterval,
	}
	r.count(c, 1)
	r.clients[k] = c
	return c
}

func (r *Registry) hasRoom(named bool, address netip.Addr) bool {
	from := r.sources[address]
	if !named && from.inferred >= MaxInferredPerAddress || named && from.named >= MaxPerAddress {
		return false
	}
	return len(r.clients) < r.cfg.Max*3/4 || len(r.clients) < r.cfg.Max && from.named+from.inferred < fewPerAddress
}

// makeRoom removes all silent clients, unless it did so just before, and reports whether there is room now.
func (r *Registry) makeRoom(now time.Time, named bool, address netip.Addr) bool {
	if now.Sub(r.madeRoom) < makeRoomEvery {
		return false
	}
	r.madeRoom, r.full = now, false
	for _, c := range r.clients {
		if c.silent(now) {
			r.remove(c)
		}
	}
	return r.hasRoom(named, address)
}

func (r *Registry) remove(c *client) {
	delete(r.clients, c.key)
	r.count(c, -1)
}

func (r *Registry) move(c *client, address netip.Addr) {
	if c.address == address {
		return
	}
	r.count(c, -1)
	c.address = address
	r.count(c, 1)
}

func (r *Registry) count(c *client, n int) {
	from := r.sources[c.address]
	if c.Inferred {
		from.inferred += n
	} else {
		from.named += n
	}
	if r.sources[c.address] = from; from == (source{}) {
		delete(r.sources, c.address)
	}
}
