// Package guard finds out whether a new table looks like an accident beside the served one.
// Suspicious are: a table without routes; a table with only generated routes where the served one has others; a table that no
// longer answers more than a share of the requests or hosts, or those of a whole kind of objects or namespace; a table in which too
// many requests lost all endpoints; and a table that grew past a ceiling.
//
// A [Guard] judges tables for the route server before it publishes, and for a relay and a data plane before they commit. It does no I/O and has
// no clock. The caller calls [Guard.Judge] for every completed read, with the served table and the new one. All rules use only tables, so that
// they are the same wherever a table passes.
//
// # Rules
//
// docs/operate/guard.md lists the reasons. Losses are counted by what requests notice, and not by ids: pairs of host and path that some route
// answers, hosts, the pairs with endpoints, and objects all of whose routes are gone, at least one of them with a pair that nobody answers.
// Generated routes and catch-alls answer for nobody; catch-alls of hosts that remain are counted by themselves. A route with neither host nor path
// counts by its id. A pair has lost its endpoints if all
// its routes are shunts afterwards, which is how the compiler represents a service without endpoints.
//
// A share is exceeded if too much is missing of what is served, of everything that was served within Config.Window (what came back is not
// missing), or of what existed when the window began. Up to half, at least 20 objects must have lost requests as well: teams delete a few
// objects at a time. What one object gives up, while it has other routes, is no loss: it is its team's decision, and in a cluster of a few
// objects it would be a large share. Objects are counted beside requests and hosts, so that no object with many hosts dilutes the share. A table that undoes additions within the window, so that at most 5 % of the older
// members are missing, is not suspicious: a table that grew tenfold by accident can be repaired at once. A window begins with the first table
// that a Guard sees, which after a restart is the one from the last-known-good file.
//
// With Config.Namespaces, the routes of a namespace are those that existed when the window began, so that a namespace that loses them in
// steps counts. A route does not count if a new route answers its requests: it was renamed. Larger changes of the rest are left to the shares,
// but a change elsewhere does not release a namespace that is held. Package routeid reads namespaces out of ids, which do not distinguish all:
// a name with "--" is cut there, and a RouteGroup's namespace loses the prefix "internal-".
//
// The Guard counts the served table when it first changes what it answers, and from then on only what changes. It remembers hashes of what was
// added or removed within the window, so its memory follows the changes and not the tables.
//
// # While something is held
//
// The guard holds nothing itself. Its caller (package publish) keeps objects, or holds the whole table, passes that with each judgement
// ([Held]), and decides when it ends. Additions and losses within the window before count until then. While an accident is going on, every
// further lost object is suspicious. [Loss.Of] tells which objects are concerned, and [Loss.Missing] what has not come back. Once something is
// released, later tables are compared with the released one only: [Guard.Forgive].
//
// # Caveats
//
// Shares are of the served table, however small it is: losing two of three requests is 67 %. The ceilings apply only to the step
// past them: once a table above a ceiling is served, further growth is not held, because a hold would stop every change,
// including necessary ones. Without a served table only an empty one is held. A process that starts with a table that is far too small, and then
// reads the right one, compares with the small one until the window has passed.
//
// Other modules should not import it: it may change with every release.
package guard

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	// DefaultMaxLoss applies where only tables are known, and a hold delays everybody; DefaultObjectLoss where objects are kept.
	DefaultMaxLoss        = 0.5
	DefaultObjectLoss     = 0.1
	DefaultMaxBackendLoss = 0.5
	DefaultHold           = 10 * time.Minute
	// DefaultKeep is how long callers that know objects keep these: longer than a table, because nobody else waits.
	DefaultKeep   = time.Hour
	DefaultWindow = 10 * time.Minute
)

// Code is the reason why a table is suspicious. It is the same in logs, metrics, /status and the runbook.
type Code string

// The codes, in the order of the checks: a table is held for the first one that applies.
const (
	Empty         Code = "empty"           // no routes at all
	OnlyGenerated Code = "only_generated"  // only generated routes, while the served table has others
	RoutesLost    Code = "routes_lost"     // no route answers more than MaxLoss of the served pairs of host and path any more
	HostsLost     Code = "hosts_lost"      // more than MaxLoss of the served hosts are missing
	KindLost      Code = "kind_lost"       // more than MaxLoss of the Ingresses, or of the RouteGroups, are missing
	NamespaceLost Code = "namespace_lost"  // all routes of a namespace are missing, and the others are unchanged
	BackendsLost  Code = "backends_lost"   // more than MaxBackendLoss of the pairs with endpoints lost all of them
	TooManyRoutes Code = "too_many_routes" // more than MaxRoutes, while the served table has not
	TooLarge      Code = "too_large"       // more than MaxBytes, while the served table has not
)

// Codes returns every code, for metrics with a series for each.
func Codes() []Code {
	return []Code{Empty, OnlyGenerated, RoutesLost, HostsLost, KindLost, NamespaceLost, BackendsLost, TooManyRoutes, TooLarge}
}

// Kind returns the kind of the reason, which has a time of its own in a hold. Losses of requests, of hosts and of a kind of objects
// are the same accident seen from several sides. A loss of namespaces that grows past the share is another kind.
func (c Code) Kind() Code {
	switch c {
	case HostsLost, KindLost:
		return RoutesLost
	case TooLarge:
		return TooManyRoutes
	default:
		return c
	}
}

// Endless reports whether time does not release what is held for the reason before nearly all is back: serving the last routes is better
// than serving no route that anybody asked for.
func (c Code) Endless() bool { return c == Empty || c == OnlyGenerated }

// Loses reports whether the reason is that requests are no longer answered.
func (c Code) Loses() bool {
	switch c.Kind() {
	case Empty, OnlyGenerated, RoutesLost, NamespaceLost:
		return true
	default:
		return false
	}
}

// Config sets the limits.
type Config struct {
	// MaxLoss is the share of the served requests, hosts, Ingresses or RouteGroups that may be missing: (0, 1]. A table that lacks more of
	// at least 20 objects, or more than half, is suspicious. 0 means DefaultMaxLoss; 1 turns these rules off.
	MaxLoss float64
	// MaxBackendLoss is the share of the served requests with endpoints that may lose all of them at once: (0, 1]. A table is held
	// if more do, and at least 20. 0 means DefaultMaxBackendLoss; 1 turns the rule off.
	MaxBackendLoss float64
	// Window is how long what was served counts for MaxLoss and MaxBackendLoss. 0 means DefaultWindow.
	Window time.Duration
	// Hold is for the caller: how long it holds something back. 0 means DefaultHold, or DefaultKeep for one that keeps objects.
	Hold time.Duration
	// Manual is for the caller: time releases nothing, whatever Hold is.
	Manual bool
	// Namespaces holds a table that lost a whole namespace; see the package documentation.
	Namespaces bool
	// MaxRoutes and MaxBytes (of the canonical text) are ceilings. 0 means none.
	MaxRoutes, MaxBytes int
}

// Guard judges tables. It is not safe for concurrent use.
type Guard struct {
	cfg    Config // set by New, read only
	reader reader // likewise

	held Held        // of the last call of Judge
	memo *difference // the last comparison, because most reads repeat the previous one

	base    *table.Table // served at the last judgement
	judged  time.Time    // time of that judgement
	census  *census      // of base; nil if not counted yet
	windows map[set]*window
}

// New checks cfg and fills in its defaults. The error names the invalid field.
func New(cfg Config) (*Guard, error) {
	cfg.MaxLoss = cmp.Or(cfg.MaxLoss, DefaultMaxLoss)
	cfg.MaxBackendLoss = cmp.Or(cfg.MaxBackendLoss, DefaultMaxBackendLoss)
	cfg.Window = cmp.Or(cfg.Window, DefaultWindow)
	switch {
	case !(cfg.MaxLoss > 0 && cfg.MaxLoss <= 1): // written this way to refuse NaN
		return nil, fmt.Errorf("max loss %v: must be in (0, 1]", cfg.MaxLoss)
	case !(cfg.MaxBackendLoss > 0 && cfg.MaxBackendLoss <= 1):
		return nil, fmt.Errorf("max backend loss %v: must be in (0, 1]", cfg.MaxBackendLoss)
	case cfg.Window < 0 || cfg.Hold < 0:
		return nil, fmt.Errorf("window %v, hold %v: must not be negative", cfg.Window, cfg.Hold)
	case cfg.MaxRoutes < 0:
		return nil, fmt.Errorf("max routes %d: must not be negative", cfg.MaxRoutes)
	case cfg.MaxBytes < 0:
		return nil, fmt.Errorf("max bytes %d: must not be negative", cfg.MaxBytes)
	}
	return &Guard{cfg: cfg, reader: reader{maphash.MakeSeed()}, windows: make(map[set]*window)}, nil
}
