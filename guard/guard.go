// Package guard recognises tables that look like an accident compared with the served one. A [Guard] judges tables for the
// route server before it publishes, and for a relay and a data plane before they commit: call [Guard.Judge] for every completed
// read. It does no I/O and has no clock.
//
// docs/operate/guard.md lists the reasons. A loss is what requests notice, not a missing id: a pair of host and path that no
// route answers, a host, a pair without endpoints, or an object without routes, if at least one of its pairs is unanswered.
// Generated routes and catch-alls do not answer pairs; catch-alls of remaining hosts are counted separately.
//
// A share is exceeded if too much is missing of the served table, of everything served within Config.Window, or of what existed
// when the window began. Up to half, at least 20 objects must have lost requests as well: teams delete a few at a time. What
// one object gives up while it keeps other routes is no loss. A table that undoes additions within the window is fine if at
// most 5 % of the older members are missing, so a table that grew by accident can be repaired at once.
//
// The Guard holds nothing. Its caller (package publish) keeps objects or the whole table, passes that with each judgement
// ([Held]), and decides when it ends. Until then, additions and losses within the window before it count. After a release,
// later tables are compared with the released one only: [Guard.Forgive].
//
// Other modules should not import it: it may change with every release.
package guard

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Defaults of Config.
const (
	// DefaultMaxLoss applies to whole tables, DefaultObjectLoss where objects are kept: these delay nothing else.
	DefaultMaxLoss        = 0.5
	DefaultObjectLoss     = 0.1
	DefaultMaxBackendLoss = 0.5
	DefaultHold           = 10 * time.Minute
	// DefaultKeep is DefaultHold for kept objects.
	DefaultKeep   = time.Hour
	DefaultWindow = 10 * time.Minute
)

// Code is the reason why a table is suspicious. It is the same in logs, metrics, /status and the runbook.
type Code string

// The codes, in the order of the checks: a table is held for the first one that applies.
const (
	Empty         Code = "empty"           // no routes at all
	OnlyGenerated Code = "only_generated"  // only generated routes, while the served table has others
	RoutesLost    Code = "routes_lost"     // more than MaxLoss of the served pairs of host and path are unanswered
	HostsLost     Code = "hosts_lost"      // more than MaxLoss of the served hosts are missing
	KindLost      Code = "kind_lost"       // more than MaxLoss of the Ingresses, or of the RouteGroups, are missing
	BackendsLost  Code = "backends_lost"   // more than MaxBackendLoss of the pairs with endpoints lost all of them
	TooManyRoutes Code = "too_many_routes" // more than MaxRoutes, while the served table has not
	TooLarge      Code = "too_large"       // more than MaxBytes, while the served table has not
)

// Codes returns every code, for metrics with a series for each.
func Codes() []Code {
	return []Code{Empty, OnlyGenerated, RoutesLost, HostsLost, KindLost, BackendsLost, TooManyRoutes, TooLarge}
}

// Kind groups reasons that are the same accident: losses of requests, hosts and objects. Each kind has a separate time in a hold.
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

// Endless reports whether time does not release what is held for the reason: the last routes are better than none.
func (c Code) Endless() bool { return c == Empty || c == OnlyGenerated }

// Loses reports whether the reason is that requests are no longer answered.
func (c Code) Loses() bool {
	return slices.Contains([]Code{Empty, OnlyGenerated, RoutesLost}, c.Kind())
}

// Config sets the limits.
type Config struct {
	// MaxLoss is the share of the served requests, hosts, Ingresses or RouteGroups that may be missing: (0, 1]. More is suspicious
	// if at least 20 objects are concerned, or more than half is missing. 0 means DefaultMaxLoss; 1 turns these rules off.
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
	windows map[aspect]*window
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
	return &Guard{cfg: cfg, reader: reader{maphash.MakeSeed()}, windows: make(map[aspect]*window)}, nil
}
