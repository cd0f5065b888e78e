package rollout

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Defaults of [FallbackConfig].
const (
	DefaultFallbackAfter  = time.Minute
	DefaultFallbackMaxAge = time.Hour
	DefaultFallbackWindow = 10 * time.Minute
)

// Slowdown is how many times longer than usual the interval of a fallback's polls is.
const Slowdown = 10

// FallbackPolicy says when a data plane in Exec may read the cluster itself.
type FallbackPolicy uint8

// The policies.
const (
	FallbackBoot   FallbackPolicy = iota // when it has no table at all
	FallbackNever                        // under no circumstances
	FallbackAlways                       // also when the table that it has is too old
)

var fallbackNames = [...]string{FallbackBoot: "boot", FallbackNever: "never", FallbackAlways: "always"}

// String gives the spelling of help.
func (p FallbackPolicy) String() string { return fallbackNames[p] }

// ParseFallbackPolicy reads never, boot or always in upper or lower case.
func ParseFallbackPolicy(s string) (FallbackPolicy, error) {
	for p, n := range fallbackNames {
		if strings.EqualFold(n, s) {
			return FallbackPolicy(p), nil
		}
	}
	return FallbackBoot, fmt.Errorf("fallback %s: want never, boot or always", clip(s))
}

// FallbackConfig is when a data plane falls back. The zero value of a time means its default.
type FallbackConfig struct {
	Policy FallbackPolicy
	// Pod is the name that the slot follows from: that of the pod, also where a share goes by nodes, so that two pods of one node
	// do not start in the same moment. A slot need not outlive its pod.
	Pod string
	// After is how long no route server may have answered.
	After time.Duration
	// MaxAge is how old the table may be with FallbackAlways.
	MaxAge time.Duration
	// Window is the time in which every data plane of a fleet has its slot once.
	Window time.Duration
}

// Fallback is the state of the fallback of one data plane in Exec. Make one with [NewFallback] when Exec is entered. It is
// not safe for concurrent use.
//
// It starts to compute when no route server has answered for After and what the policy asks for is the case, and then
// not before the next slot of the pod. Slots are instants, one per window for each pod, at a place in the window that is
// a hash of the pod's name; windows follow each other without gap from the epoch on. As it depends on nothing but the
// name and the clock, no data plane has to know of another, and whenever they notice that the route server is gone, no
// more of them start in a part of a window than have their slot in it.
//
// It stops at the first answer of a route server, and then has to wait for its slot again.
type Fallback struct {
	cfg       FallbackConfig
	started   time.Time // when Exec was entered
	computing bool
	since     time.Time // when the conditions were met; zero while they are not
}

// NewFallback makes a fallback for a data plane that enters Exec now.
func NewFallback(cfg FallbackConfig, now time.Time) *Fallback {
	if cfg.After == 0 {
		cfg.After = DefaultFallbackAfter
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = DefaultFallbackMaxAge
	}
	if cfg.Window == 0 {
		cfg.Window = DefaultFallbackWindow
	}
	return &Fallback{cfg: cfg, started: now}
}

// Contact is what is known of the route servers.
type Contact struct {
	// Answered is when one of them last answered with a table or said that it is unchanged; zero if never.
	Answered time.Time
	// HasTable says that there is a table of theirs, fetched or last-known-good; TableRead is when its source was last
	// read, zero if that is not known.
	HasTable  bool
	TableRead time.Time
}

// FallbackDecision is what to do now.
type FallbackDecision struct {
	Compute bool
	// Reason is why it computes, or will in its slot; empty if everything is fine.
	Reason string
	// StartAt is the slot that it waits for; zero if it does not.
	StartAt time.Time
}

// Decide is to be called every second or so, and after every answer. Between calls nothing is decided.
func (f *Fallback) Decide(now time.Time, c Contact) FallbackDecision {
	heard := f.started
	if c.Answered.After(heard) {
		heard = c.Answered
	}
	if f.computing && !c.Answered.Before(f.since) {
		f.computing, f.since = false, time.Time{} // it is back
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

// wanted says whether the policy asks for a table of our own, given that no route server answers.
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
		return fmt.Sprintf("no route server has answered for %s, and there is no table", silent)
	}
	return fmt.Sprintf("no route server has answered for %s, and the table is older than %s", silent, f.cfg.MaxAge)
}

// slot gives the first slot of the pod that is not before t.
func (f *Fallback) slot(t time.Time) time.Time {
	window := uint64(f.cfg.Window)
	offset, _ := bits.Mul64(place(forSlot, f.cfg.Pod), window)
	into := uint64(t.UnixNano()) % window
	return t.Add(time.Duration((offset + window - into) % window))
}
