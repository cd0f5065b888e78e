// Package guard decides whether a new table may replace the served one, or is held back because it looks like an accident.
// Suspicious are: a table without routes; a table with only generated routes where the served one has others; a table that lost
// more than a share of its routes or hosts, or a whole namespace; a table in which too many routes lost all endpoints; and a
// table that grew past a ceiling.
//
// A [Guard] is a state machine used by the route server before it publishes, and by a relay and a data plane before they commit.
// It does no I/O and has no clock. The caller calls [Guard.Judge] once for every completed read, with the served table and the
// new table, and serves the new one if and only if the verdict says so. All rules use only tables, so that they are the same
// wherever a table passes.
//
// # Losses
//
// Routes are identified by id, and hosts by name. A route has endpoints if its backend is an address or a list of addresses. It
// has lost them if it is a shunt afterwards, which is how the compiler represents a service without endpoints. A removed route is
// a lost route, not a lost backend.
//
// A table is suspicious if more than the share is missing of
//
//   - what is served now, or
//   - everything that was served at some time within Config.Window, so that many small losses count as one large one. Anything
//     that came back meanwhile is not missing.
//
// Only a table that lacks something that is served now can be suspicious. A table is not suspicious if it undoes additions within
// the window, that is, if at most 5 % of what already existed when the window began is missing. So a table that grew tenfold by
// accident can be repaired at once. A window begins with the first table that a Guard sees, which after a restart is the one from
// the checkpoint.
//
// The Guard remembers the names that were added or removed within the window. This takes memory in proportion to changes, not
// tables: as losses above the share are held, the missing names are never more than a fixed multiple of the served ones.
// Additions and losses within the window before a hold count until the hold ends, so that a loss in steps stays one loss.
//
// # Lost namespaces
//
// A share of the whole table says nothing about one team of many. With Config.Namespaces a table is also suspicious if it lost
// all routes of a namespace with at least 20 routes, while the rest is unchanged. Precisely:
//
//   - A route belongs to the namespace that package routeid reads out of its id. Clones, redirects and east-west companions
//     belong to the namespace of their object; catch-alls and generated routes belong to none.
//   - The routes of a namespace are those that existed when the window began, whether they are still served or lost since. A
//     namespace younger than the window may disappear, so that accidental growth can be repaired.
//   - A namespace is lost if it had at least 20 such routes, the served table has some of its routes, and the new table none. So a
//     namespace that loses its routes in steps also counts.
//   - The rest is unchanged if all other namespaces together lost at most 5 % of their served routes. A larger change is a
//     reorganisation, which the shares judge. While a hold lasts, whatever its reason, the rest does not matter: a change
//     elsewhere does not release the namespace.
//
// Ids do not distinguish all namespaces: a name with "--" is cut there, and a RouteGroup's namespace loses the prefix "internal-"
// (package routeid). Two such namespaces may count as one.
//
// # The hold
//
// A suspicious table starts a hold of a kind: empty, only generated routes, loss (of routes or hosts), loss of namespaces
// (whichever they are), loss of backends, growth (of routes or bytes). Each further judgement compares the newest table with the
// served one. The hold
//
//   - ends without release if a judgement finds the table fine, which includes a table equal to the served one;
//   - restarts if the table is suspicious for another kind of reason;
//   - is released if a judgement finds the table suspicious of the same kind, and at least Hold has passed since the judgement
//     that started the hold. So at least two reads, Hold apart, and every read between them agreed. The newest table is released,
//     which need not be the one that started the hold. With Config.Manual, time releases nothing;
//   - is released by [Guard.Accept].
//
// A release begins a new window: later tables are compared with the released one only.
//
// A failed read is no evidence for either side: the caller does not call Judge, and the hold neither ends nor restarts while time
// passes.
//
// Time never releases an empty table or one with only generated routes, because serving the last routes is always better than
// serving no route that anybody asked for. Only an acceptance releases it.
//
// # Caveats
//
// Shares are of the served table, however small it is: losing two of three routes is 67 %. The ceilings apply only to the step
// past them: once a table above a ceiling is served, further growth is not held, because a hold would stop every change,
// including necessary ones. Without a served table only an empty one is held.
//
// Whether a hold keeps the whole served table or updates its endpoints is up to the caller: see package gate. A process that
// starts with a table that is far too small, and then reads the right one, compares with the small one until the window has
// passed.
package guard

import (
	"fmt"
	"sync"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	DefaultMaxLoss        = 0.5
	DefaultMaxBackendLoss = 0.5
	DefaultHold           = 10 * time.Minute
	DefaultWindow         = 10 * time.Minute
)

// Code is the reason why a table is suspicious. It is the same in logs, metrics, /status and the runbook.
type Code string

// The codes, in the order of the checks: a table is held for the first one that applies.
const (
	Empty         Code = "empty"           // no routes at all
	OnlyGenerated Code = "only_generated"  // only generated routes, while the served table has others
	RoutesLost    Code = "routes_lost"     // more than MaxLoss of the served ids are missing
	HostsLost     Code = "hosts_lost"      // more than MaxLoss of the served hosts are missing
	NamespaceLost Code = "namespace_lost"  // all routes of a namespace are missing, and the others are unchanged
	BackendsLost  Code = "backends_lost"   // more than MaxBackendLoss of the routes with endpoints lost all of them
	TooManyRoutes Code = "too_many_routes" // more than MaxRoutes, while the served table has not
	TooLarge      Code = "too_large"       // more than MaxBytes, while the served table has not
)

// Codes returns every code, for metrics with a series for each.
func Codes() []Code {
	return []Code{Empty, OnlyGenerated, RoutesLost, HostsLost, NamespaceLost, BackendsLost, TooManyRoutes, TooLarge}
}

// kind returns the kind that all reads of one hold must agree on. Losses of routes and of hosts are the same accident seen from
// two sides. A table with only generated routes is worse and restarts the hold. A loss of namespaces is a separate kind, so that
// growth past the share restarts the hold.
func (c Code) kind() Code {
	switch c {
	case HostsLost:
		return RoutesLost
	case TooLarge:
		return TooManyRoutes
	default:
		return c
	}
}

// Config sets the limits.
type Config struct {
	// MaxLoss is the share of the served ids, or hosts, that may be missing: (0, 1]. A table that lacks more is held. 0 means
	// DefaultMaxLoss; 1 turns both rules off.
	MaxLoss float64
	// MaxBackendLoss is the share of the served routes with endpoints that may lose all of them at once: (0, 1]. A table is held
	// if more routes do, and at least 20. 0 means DefaultMaxBackendLoss; 1 turns the rule off.
	MaxBackendLoss float64
	// Window is how long past served routes count for MaxLoss and MaxBackendLoss. 0 means DefaultWindow.
	Window time.Duration
	// Hold is how long every read must agree. 0 means DefaultHold.
	Hold time.Duration
	// Manual means that time releases no hold, whatever Hold is: a hold ends when a judgement finds the table fine, or by Accept.
	Manual bool
	// Namespaces holds a table that lost a whole namespace; see the package documentation.
	Namespaces bool
	// MaxRoutes and MaxBytes (of the canonical text) are ceilings. 0 means none.
	MaxRoutes, MaxBytes int
}

// Verdict is the result of Judge for a table.
type Verdict struct {
	// Publish means that the table must be served. If Reason is also set, a hold has just been released.
	Publish bool
	// Reason is why the table is suspicious; empty if it is fine.
	Reason Code
	// Detail is a sentence with the figures behind Reason.
	Detail string
	// Since is when the hold started. Zero if the table is fine.
	Since time.Time
	// ReleaseAt is the earliest time at which the hold can be released. It is zero if the table is fine, or if time does not
	// release it: Empty, OnlyGenerated, and everything with Config.Manual.
	ReleaseAt time.Time
}

// Release records how a held table was released.
type Release struct {
	Digest   table.Digest
	Reason   Code
	Since    time.Time // when its hold started
	At       time.Time
	Accepted bool // by an operator; otherwise every read agreed for the time of the hold
	// By and Why are copied from the acceptance; empty if the operator gave none.
	By, Why string
}

// Half is what a hold keeps. A held table is not served; a caller that knows the parts of the table decides what is served
// meanwhile.
type Half string

// The halves, as spelled in /status and logs.
const (
	WholeTable   Half = "table"    // only tables are known: the served one stays
	HeldIntent   Half = "intent"   // Ingresses, RouteGroups and default filters; endpoints are the newest
	HeldBackends Half = "backends" // for services that lost all endpoints; all others have the newest
	HeldBoth     Half = "both"
)

// State is the current hold. The zero value means that no table is or ever was held.
type State struct {
	Held     bool
	Verdict  Verdict      // of the last judgement; only if Held
	Digest   table.Digest // of the newest held table; only if Held
	Revision uint64       // of the newest held table; only if Held
	Routes   int          // of the newest held table; only if Held
	Bytes    int          // of the newest held table; only if Held
	Polls    int          // judgements that agreed so far; only if Held
	Last     *Release     // the last release; nil if there was none

	// Half is what the hold keeps. FirstDigest is the digest of the first table of the held intent, which is accepted like
	// Digest. A Guard sets neither: it knows only tables.
	Half        Half
	FirstDigest table.Digest
}

// Guard judges tables. All methods are safe for concurrent use; call Judge from one loop.
type Guard struct {
	cfg Config // set by New, read only

	mu       sync.Mutex
	held     *table.Table // nil if no table is held
	verdict  Verdict      // of held
	polls    int
	since    time.Time    // start of an uninterrupted series of holds of any kind; zero if held is nil
	accepted table.Digest // accepted and not judged since
	last     *Release
	memo     measurement // the last comparison, because most reads repeat the previous one

	base         *table.Table // served at the last judgement
	judged       time.Time    // time of that judgement
	namespaces   *namespaces  // of base; nil if not counted yet
	backendCount int          // routes of base with endpoints; negative if not counted yet

	routes, hosts, backends window // recent additions and losses
}

// New checks cfg and fills in its defaults. The error names the invalid field.
func New(cfg Config) (*Guard, error) {
	if cfg.MaxLoss == 0 {
		cfg.MaxLoss = DefaultMaxLoss
	}
	if cfg.Hold == 0 {
		cfg.Hold = DefaultHold
	}
	if cfg.MaxBackendLoss == 0 {
		cfg.MaxBackendLoss = DefaultMaxBackendLoss
	}
	if cfg.Window == 0 {
		cfg.Window = DefaultWindow
	}
	switch {
	case !(cfg.MaxLoss > 0 && cfg.MaxLoss <= 1): // written this way to refuse NaN
		return nil, fmt.Errorf("max loss %v: want a share above 0 and up to 1", cfg.MaxLoss)
	case !(cfg.MaxBackendLoss > 0 && cfg.MaxBackendLoss <= 1):
		return nil, fmt.Errorf("max backend loss %v: want a share above 0 and up to 1", cfg.MaxBackendLoss)
	case cfg.Window < 0:
		return nil, fmt.Errorf("window %v: want no negative time", cfg.Window)
	case cfg.Hold < 0:
		return nil, fmt.Errorf("hold %v: want no negative time", cfg.Hold)
	case cfg.MaxRoutes < 0:
		return nil, fmt.Errorf("max routes %d: want no negative number", cfg.MaxRoutes)
	case cfg.MaxBytes < 0:
		return nil, fmt.Errorf("max bytes %d: want no negative number", cfg.MaxBytes)
	}
	w := window{span: cfg.Window}
	return &Guard{cfg: cfg, routes: w, hosts: w, backends: w}, nil
}

// Judge compares candidate, the table of a read completed at now, with served, the served table or nil. Call it for every
// completed read, even without a change: a read that shows the served table again ends a hold. Judge does not change the tables;
// it keeps the newest held one until its hold ends.
func (g *Guard) Judge(served, candidate *table.Table, now time.Time) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()

	accepted := g.accepted
	g.accepted = table.Digest{}
	g.follow(served)
	g.judged = now
	for _, w := range []*window{&g.routes, &g.hosts, &g.backends} {
		w.expire(now, g.since)
	}
	reason, detail := g.inspect(served, candidate)
	if !accepted.IsZero() && candidate.Digest() == accepted {
		reason = ""
		g.restart(nil)
	}
	if reason == "" {
		g.end()
		return Verdict{Publish: true}
	}

	if g.held == nil {
		g.since = now
	}
	if g.held == nil || g.verdict.Reason.kind() != reason.kind() {
		g.verdict.Since, g.polls = now, 0
	}
	g.held = candidate
	g.polls++
	g.verdict = Verdict{Reason: reason, Detail: detail, Since: g.verdict.Since}
	if reason == Empty || reason == OnlyGenerated || g.cfg.Manual {
		return g.verdict
	}
	g.verdict.ReleaseAt = g.verdict.Since.Add(g.cfg.Hold)
	if g.polls < 2 || now.Before(g.verdict.ReleaseAt) {
		return g.verdict
	}
	verdict := g.verdict
	verdict.Publish = true
	g.release(now, nil)
	return verdict
}

// Inspect returns the reason why the candidate is suspicious compared with the table that was the served one in the last
// judgement; empty if it is fine. It is not a judgement: no hold begins or ends.
func (g *Guard) Inspect(served, candidate *table.Table) Code {
	g.mu.Lock()
	defer g.mu.Unlock()
	reason, _ := g.inspect(served, candidate)
	return reason
}

// State returns the current hold, for /status and metrics.
func (g *Guard) State() State {
	g.mu.Lock()
	s, held := State{Last: g.last, Verdict: g.verdict, Polls: g.polls}, g.held
	g.mu.Unlock()
	if held != nil {
		s.Held = true
		s.Digest = held.Digest() // possibly computed here for the first time
		s.Revision = held.Revision()
		s.Routes = held.Len()
		s.Bytes = held.Bytes()
	}
	return s
}

// Held returns the verdict on the held table, or false if none is held. Unlike State it does not compute a digest.
func (g *Guard) Held() (v Verdict, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.verdict, g.held != nil
}

// release records that the held table is released, by an operator if a is not nil. Tables served before no longer count:
// otherwise the next read would be held for the same loss. The caller holds mu.
func (g *Guard) release(now time.Time, a *Acceptance) {
	g.restart(nil)
	g.last = &Release{Digest: g.held.Digest(), Reason: g.verdict.Reason, Since: g.verdict.Since, At: now}
	if a != nil {
		g.last.Accepted, g.last.By, g.last.Why = true, a.By, a.Why
	}
	g.end()
}

// end forgets the hold. The caller holds mu.
func (g *Guard) end() {
	g.held, g.verdict, g.polls, g.since = nil, Verdict{}, 0, time.Time{}
}
