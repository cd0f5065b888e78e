// Package guard decides whether a new table may replace the one that is served, or is held back because it looks like
// an accident: a table without routes, one with only generated routes where there were others, one that lost more
// than a share of its routes or hosts, one that lost a whole namespace, one in which too many routes lost all endpoints,
// one that grew past a ceiling.
//
// A [Guard] is a state machine used by the route server before it publishes, and by a relay and a data plane before they
// commit. It does no I/O and has no clock: the caller calls [Guard.Judge] once for every read that completed, with the
// table that is served and the table that was read, and serves the latter if and only if the verdict says so. Every rule
// reads tables only, so that it is the same wherever a table passes.
//
// # Losses
//
// Routes count by their ids and hosts by their names. A route has endpoints if its backend is an address or a list of
// addresses; it has lost them if it is a shunt afterwards, which is what a compiler makes of a service without endpoints.
// A route that is gone is a lost route and not a lost backend.
//
// A table is suspicious if more than the share is missing of
//
//   - what is served now, or
//   - everything that was served at some time within Config.Window, so that many small losses count as one large one.
//     What came back in between is not missing.
//
// Only a table that lacks something that is served now is suspicious at all. It is not suspicious if it undoes what came
// within the window: if of all that was already there when the window began at most 5 % is missing. So a table that grew
// tenfold by accident can be repaired at once. A window begins with the first table that a Guard sees, which after a
// restart is the one from the checkpoint.
//
// The Guard remembers the names that came and went within the window. That costs memory for changes and not for tables:
// as losses above the share are held, what is missing is never more than a fixed multiple of what is served. What came
// or went within the window before a hold counts until the hold ends, so that a loss in steps stays one loss.
//
// # Lost namespaces
//
// A share of the whole table says nothing about one team of many. With Config.Namespaces a table is also suspicious if a
// namespace with at least 20 routes is gone while the rest is as before. Precisely:
//
//   - A route belongs to the namespace that package routeid reads out of its id. Clones, redirects and east-west companions
//     belong to the namespace of their object; catch-alls and generated routes belong to none.
//   - The routes of a namespace are those that were there when the window began, of the served ones and of those lost
//     since. A namespace that is younger than the window may go, as an accidental growth may be repaired.
//   - A namespace is lost if it had at least 20 such routes, the served table has some of its routes, and the new table none.
//     So a namespace may go in steps.
//   - The rest is as before if all other namespaces together lost at most 5 % of their served routes. A larger change is a
//     reorganisation, which the shares judge. While a hold lasts, whatever its reason, the rest does not matter: a change
//     elsewhere does not release the namespace.
//
// Ids do not tell all namespaces apart: one with "--" in its name is read up to there, and "internal-" is cut off the namespace of
// a RouteGroup (package routeid). Two such namespaces may count as one.
//
// # The hold
//
// A suspicious table starts a hold of a kind: empty, only generated routes, loss (of routes or hosts), loss of namespaces
// (whichever they are), loss of backends, growth (of routes or bytes). Each further judgement compares the newest table with
// the served one, from the beginning. The hold
//
//   - ends without release if a judgement finds the table fine, which includes a table equal to the served one;
//   - starts anew if the table is suspicious of another kind;
//   - is released if a judgement finds the table suspicious of the same kind, and Hold or more has passed since the
//     judgement that started the hold. So at least two reads, Hold apart, and every read between them agreed. What is
//     released is the newest table, which need not be the one that started the hold. With Config.Manual time releases
//     nothing;
//   - is released by [Guard.Accept].
//
// A release begins a new window: later tables are compared with the released one only.
//
// A read that failed is no evidence for either side: the caller does not call Judge, and the hold neither ends nor
// starts anew while time passes.
//
// Time never releases an empty table or one with only generated routes: there is no state of a cluster in which serving
// nothing that anybody asked for is better than serving the last routes. It takes an acceptance.
//
// # Caveats
//
// Shares are of the served table, however small it is: losing two of three routes is 67 %. The ceilings are about the
// step past them: once a table above a ceiling is served, further growth is not held, because a hold stops every change,
// also those that are needed. Without a served table only an empty one is held.
//
// Whether a hold keeps the whole served table, or goes on with its endpoints, is up to the caller: see package poller. A
// process that starts with a table that is far too small, and
// then reads the right one, takes the small one for what was served before until the window has passed.
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

// Code says why a table is suspicious. It is the same in logs, metrics, /status and the runbook.
type Code string

// The codes, in the order in which they are looked for: a table is held for the first that applies.
const (
	Empty         Code = "empty"           // no route at all
	OnlyGenerated Code = "only_generated"  // only generated routes, where the served table has others
	RoutesLost    Code = "routes_lost"     // more than MaxLoss of the served ids are gone
	HostsLost     Code = "hosts_lost"      // more than MaxLoss of the served hosts are gone
	NamespaceLost Code = "namespace_lost"  // all routes of a namespace are gone, and the others are as before
	BackendsLost  Code = "backends_lost"   // more than MaxBackendLoss of the routes with endpoints lost all of them
	TooManyRoutes Code = "too_many_routes" // more than MaxRoutes, where the served table has not
	TooLarge      Code = "too_large"       // more than MaxBytes, where the served table has not
)

// Codes lists every code, for metrics that have a series for each.
func Codes() []Code {
	return []Code{Empty, OnlyGenerated, RoutesLost, HostsLost, NamespaceLost, BackendsLost, TooManyRoutes, TooLarge}
}

// kind returns what the reads of one hold have to agree on. A loss of routes and one of hosts are the same accident
// seen from two sides; a table with only generated routes is a worse one, and starts the clock again. So does a loss of
// namespaces that grows past the share, hence that is a kind of its own.
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
	// MaxLoss is the share of the served ids, or hosts, that may be gone: (0, 1]. More is held. 0 means
	// DefaultMaxLoss; 1 switches the two rules off.
	MaxLoss float64
	// MaxBackendLoss is the share of the served routes with endpoints that may lose all of them at once: (0, 1]. More is
	// held, if at least 20 routes are affected. 0 means DefaultMaxBackendLoss; 1 switches the rule off.
	MaxBackendLoss float64
	// Window is how long what was served counts for MaxLoss and MaxBackendLoss. 0 means DefaultWindow.
	Window time.Duration
	// Hold is how long every read has to agree. 0 means DefaultHold.
	Hold time.Duration
	// Manual says that time releases no hold, whatever Hold is: it ends when a judgement finds the table fine, or by Accept.
	Manual bool
	// Namespaces holds a table that lost a whole namespace; see the package documentation.
	Namespaces bool
	// MaxRoutes and MaxBytes (of the canonical text) are ceilings. 0 means none.
	MaxRoutes, MaxBytes int
}

// Verdict is what Judge says about a table.
type Verdict struct {
	// Publish says that the table is to be served. If Reason is set, too, a hold has just been released.
	Publish bool
	// Reason is why the table is suspicious; empty if it is fine.
	Reason Code
	// Detail is a sentence with the numbers behind Reason.
	Detail string
	// Since is when the hold started. Zero if the table is fine.
	Since time.Time
	// ReleaseAt is when the hold can be released at the earliest. Zero if the table is fine, or if time does not release
	// it: Empty, OnlyGenerated, and everything with Config.Manual.
	ReleaseAt time.Time
}

// Release records how a held table came to be published.
type Release struct {
	Digest   table.Digest
	Reason   Code
	Since    time.Time // when its hold started
	At       time.Time
	Accepted bool // by an operator; otherwise every read for the time of the hold agreed
	// By and Why are those of the acceptance, empty if the operator did not say.
	By, Why string
}

// Half is what a hold keeps as it is. A table that is held back is not served; what is served meanwhile is up to who
// knows of what the table is made.
type Half string

// The halves, in the words of /status and of the logs.
const (
	WholeTable   Half = "table"    // nothing is known but tables: the one that is served stays
	HeldIntent   Half = "intent"   // Ingresses, RouteGroups and default filters; endpoints are the newest
	HeldBackends Half = "backends" // of the services that lost all endpoints; all others are the newest
	HeldBoth     Half = "both"
)

// State is what is held now. The zero value says that nothing is and never was.
type State struct {
	Held     bool
	Verdict  Verdict      // of the last judgement; only if Held
	Digest   table.Digest // of the newest held table; only if Held
	Revision uint64       // likewise
	Routes   int          // likewise
	Bytes    int          // likewise
	Polls    int          // judgements that agreed so far; only if Held
	Last     *Release     // the last release; nil if there was none

	// Half is what the hold keeps, and FirstDigest the digest of the first table of the held intent, which is accepted as
	// Digest is. A Guard sets neither: it knows tables only.
	Half        Half
	FirstDigest table.Digest
}

// Guard judges tables. All methods are safe for concurrent use; Judge calls are meant to come from one loop.
type Guard struct {
	cfg Config // set by New, read only

	mu       sync.Mutex
	held     *table.Table // nil if nothing is held
	verdict  Verdict      // of held
	polls    int
	since    time.Time    // when something of any kind was first held without a break; zero if held is nil
	accepted table.Digest // accepted, and not judged since
	last     *Release
	memo     measurement // the last comparison, because most reads repeat the one before

	base         *table.Table // served at the last judgement
	judged       time.Time    // when that was
	namespaces   *namespaces  // of base; nil: not counted yet
	backendCount int          // routes of base with endpoints; negative: not counted yet

	routes, hosts, backends window // what came and went lately
}

// New checks cfg and fills in its defaults. The error names the field.
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
	case !(cfg.MaxLoss > 0 && cfg.MaxLoss <= 1): // written so that NaN is refused
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

// Judge compares candidate, the table of a read that completed at now, with served, the table that is served; nil if
// none is. It is to be called for every such read, also if nothing changed: a read that shows the served table again
// ends a hold. Both tables are only read; the newest held one is kept until its hold ends.
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

// Inspect gives the reason for which the candidate is suspicious beside the table that the last judgement had as the
// served one; empty if it is fine. It is no judgement: no hold begins or ends.
func (g *Guard) Inspect(served, candidate *table.Table) Code {
	g.mu.Lock()
	defer g.mu.Unlock()
	reason, _ := g.inspect(served, candidate)
	return reason
}

// State returns what is held now, for /status and metrics.
func (g *Guard) State() State {
	g.mu.Lock()
	s, held := State{Last: g.last, Verdict: g.verdict, Polls: g.polls}, g.held
	g.mu.Unlock()
	if held != nil {
		s.Held = true
		s.Digest = held.Digest() // which nobody may have asked for yet
		s.Revision = held.Revision()
		s.Routes = held.Len()
		s.Bytes = held.Bytes()
	}
	return s
}

// Held gives the verdict on what is held now; held is false if nothing is. It does not take a digest, as State does.
func (g *Guard) Held() (v Verdict, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.verdict, g.held != nil
}

// release records that the held table is let go, by an operator unless a is nil. What was served before does not count any
// more: otherwise the next read would be held for the same loss. The caller holds mu.
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
