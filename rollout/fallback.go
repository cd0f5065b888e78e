package rollout

import (
	"cmp"
	"fmt"
	"math/bits"
	"time"
)

// Defaults of [FallbackConfig].
const (
	DefaultFallbackAfter  = time.Minute
	DefaultFallbackMaxAge = time.Hour
	DefaultFallbackWindow = 10 * time.Minute
)

// Slowdown is the factor by which a fallback's polls are slower than usual.
const Slowdown = 10

// FallbackPolicy decides when a data plane in Exec may read the cluster itself. It is a value of --fallback.
type FallbackPolicy string

// The policies.
const (
	FallbackBoot   FallbackPolicy = "boot"   // when it has no table at all; the default
	FallbackNever  FallbackPolicy = "never"  // under no circumstances
	FallbackAlways FallbackPolicy = "always" // also when its table is too old
)

// FallbackConfig sets when a data plane falls back. Zero fields have defaults.
type FallbackConfig struct {
	Policy FallbackPolicy
	// Pod is the name that determines the slot: pods even where shares go by nodes, so that two pods of a node differ.
	Pod string
	// After is how long no route server must have answered.
	After time.Duration
	// MaxAge is the maximum age of the table with FallbackAlways.
	MaxAge time.Duration
	// Window is the time in which every data plane of a fleet has its slot once.
	Window time.Duration
}

// Fallback is the state of the fallback of one data plane in Exec. Create it with [NewFallback] when Exec is entered. It is not
// safe for concurrent use.
//
// It starts to compute when no route server has answered for After and the condition of the policy is met, but not before the
// next slot of the pod: an instant in each window, at a position that is a hash of the pod's name. So whenever a fleet notices
// that no route server answers, only the data planes with a slot in a part of a window start in it, without knowing each other.
// It stops at the first answer of a route server.
type Fallback struct {
	cfg       FallbackConfig
	started   time.Time // when Exec was entered
	computing bool
	since     time.Time // when the conditions were met; zero while they are not
}

// NewFallback returns the fallback for a data plane that enters Exec now.
func NewFallback(cfg FallbackConfig, now time.Time) *Fallback {
	cfg.Policy = cmp.Or(cfg.Policy, FallbackBoot)
	cfg.After = cmp.Or(cfg.After, DefaultFallbackAfter)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, DefaultFallbackMaxAge)
	cfg.Window = cmp.Or(cfg.Window, DefaultFallbackWindow)
	return &Fallback{cfg: cfg, started: now}
}

// Contact is the state of the contact with the route servers.
type Contact struct {
	// Answered is when one of them last sent a table or reported it unchanged; zero if never.
	Answered time.Time
	// HasTable reports whether there is a table of a route server, and TableRead when its source was read, zero if unknown.
	HasTable  bool
	TableRead time.Time
}

// FallbackDecision is what to do now.
type FallbackDecision struct {
	Compute bool `json:"computing"`
	// Reason is why it computes, or will in its slot; empty if it does not need to.
	Reason string `json:"reason,omitempty"`
	// StartAt is the slot that it waits for; zero if it does not wait.
	StartAt time.Time `json:"start_at,omitzero"`
}

// Decide must be called about every second, and after every answer. Nothing is decided between calls.
func (f *Fallback) Decide(now time.Time, c Contact) FallbackDecision {
	heard := f.started
	if c.Answered.After(heard) {
		heard = c.Answered
	}
	if f.computing && !c.Answered.Before(f.since) {
		f.computing, f.since = false, time.Time{} // a route server answered
	}
	if f.computing {
		return FallbackDecision{Compute: true, Reason: f.reason(now, heard, c)}
	}
	if now.Sub(heard) < f.cfg.After || !f.wanted(now, c) {
		f.since = time.Time{}
		return FallbackDecision{}
	}
	if f.since.IsZero() {
		f.since = now
	}
	start := f.slot(f.since)
	if now.Before(start) {
		return FallbackDecision{Reason: f.reason(now, heard, c), StartAt: start}
	}
	f.computing = true
	return FallbackDecision{Compute: true, Reason: f.reason(now, heard, c)}
}

// wanted returns why the policy requires a computed table while no route server answers, or "".
func (f *Fallback) wanted(now time.Time, c Contact) bool {
	switch f.cfg.Policy {
	case FallbackBoot:
		return !c.HasTable
	case FallbackAlways:
		return !c.HasTable || now.Sub(c.TableRead) > f.cfg.MaxAge
	default:
		return false
	}
}

func (f *Fallback) reason(now, heard time.Time, c Contact) string {
	silent := now.Sub(heard).Truncate(time.Second)
	if !c.HasTable {
		return fmt.Sprintf("no route server has answered for %s, and no table is available", silent)
	}
	return fmt.Sprintf("no route server has answered for %s, and the table is older than %s", silent, f.cfg.MaxAge)
}

// slot returns the pod's first slot that is not before t.
func (f *Fallback) slot(t time.Time) time.Time {
	window := uint64(f.cfg.Window)
	offset, _ := bits.Mul64(place(forSlot, f.cfg.Pod), window)
	into := uint64(t.UnixNano()) % window
	return t.Add(time.Duration((offset + window - into) % window))
}
