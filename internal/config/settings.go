package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/poller"
)

// Setting is one of the settings of a flag that has several, such as --guard=hold=2h,release=manual.
type Setting struct {
	Name  string
	Value *Value
	Usage string // a sentence for help
}

// Settings returns the value of a flag that takes settings, SETTING=VALUE with commas between them, and may be repeated. If word is
// not nil, a text without a name sets it, as in --fallback=always,after=1m. set records the names that were given, unless it is nil.
func Settings(word *Value, set map[string]bool, all ...Setting) *Value {
	kind := "SETTING=VALUE,…"
	names := make([]string, len(all))
	byName := make(map[string]*Value)
	for i, s := range all {
		names[i], byName[s.Name] = s.Name, s.Value
	}
	v := &Value{kind: kind, repeat: true}
	if word != nil {
		v.kind, v.def = word.kind+","+kind, word.def
	}
	v.set = func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			name, val, given := strings.Cut(one, "=")
			s := byName[name]
			switch {
			case s == nil && !given && word != nil:
				if err := word.set(one); err != nil {
					return err
				}
				continue
			case s == nil:
				return fmt.Errorf("%s: want settings with commas between them, NAME=VALUE: %s", clip(one), strings.Join(names, ", "))
			case !given && s.boolean:
				val = "true"
			case !given:
				return fmt.Errorf("%s: want %s=%s", clip(one), name, strings.ToUpper(s.kind))
			}
			if err := s.set(val); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if set != nil {
				set[name] = true
			}
		}
		return nil
	}
	return v
}

// Describe returns the usage of a flag with settings: a sentence, and then each setting with its default.
func Describe(sentence string, all ...Setting) string {
	for _, s := range all {
		sentence += " " + s.Name
		if s.Value.def != "" && !s.Value.boolean {
			sentence += "=" + s.Value.def
		}
		sentence += ": " + s.Usage
	}
	return sentence
}

const (
	day  = 24 * time.Hour
	tick = time.Millisecond // the shortest time that a setting accepts
)

// Guard adds --guard, which defines which tables are suspicious. hold is the default of its setting hold: objects are kept longer than
// tables, because nobody else waits.
func (p *Parser) Guard(c *guard.Config, hold time.Duration) {
	c.MaxLoss, c.MaxBackendLoss = guard.DefaultMaxLoss, guard.DefaultMaxBackendLoss
	p.guardSet = make(map[string]bool)
	settings := []Setting{
		{"max-loss", Parsed("share", &c.MaxLoss, "0.5", share), "share of the served pairs of host and path, or hosts, that a new table may lose, also as 50%. " +
			"If it loses more, or nine tenths of 20 or more Ingresses or RouteGroups, the lost objects are kept as they are served; 1 turns these rules off."},
		{"max-backend-loss", Parsed("share", &c.MaxBackendLoss, "0.5", share), "share of the pairs with endpoints that may lose all of them. If more do, and at " +
			"least 20, their services keep their last endpoints; 1 turns the rule off."},
		{"window", Duration(&c.Window, guard.DefaultWindow, tick, day), "how long what was lost counts for these shares, so that many small losses count as one."},
		{"hold", Duration(&c.Hold, hold, tick, day), "how long lost objects are kept, or a whole table where only tables are known, and how long after something " +
			"last came back. After a table that was empty, or had only generated routes where there were others, time releases nothing before nearly all is back."},
		{"release", Parsed("auto|manual", &c.Manual, "auto", parseRelease), "what releases them, auto (time, or somebody accepts the loss) or manual (only an " +
			"acceptance); what comes back is released in both cases."},
		{"namespaces", Bool(&c.Namespaces, false), "keep the objects of a namespace that lost all its routes, at least 20, while all others together lost at most 5 %."},
		{"max-routes", Number(&c.MaxRoutes, 0, 0, math.MaxInt32), "do not serve objects that make the table grow past this; 0 means no limit."},
		{"max-bytes", Size(&c.MaxBytes, "0"), "the same in bytes, such as 512MiB."},
	}
	p.Group(GroupGuard).Own("guard", Settings(nil, p.guardSet, settings...), Describe("What counts as an accident, and what then happens.", settings...))
}

// parseRelease parses the setting release of --guard.
func parseRelease(s string) (manual bool, err error) {
	switch s {
	case "auto":
		return false, nil
	case "manual":
		return true, nil
	}
	return false, fmt.Errorf("%s: want auto or manual", clip(s))
}

// DefaultRequestTimeout is the default time limit of a request to the API.
const DefaultRequestTimeout = 30 * time.Second

// Timing adds --timing, for time limits and intervals that hardly anybody changes. more are those of the program.
func (p *Parser) Timing(s *Source, c *Poll, fullEvery, timeout *time.Duration, more ...Setting) {
	settings := append([]Setting{
		{"request-timeout", Duration(&s.RequestTimeout, DefaultRequestTimeout, tick, time.Hour), "time limit of each request to the API, to the last byte of the answer. A " +
			"watch only has to be accepted in this time."},
		{"max-backoff", Duration(&c.MaxBackoff, poller.DefaultMaxBackoff, tick, day), "longest delay after consecutive failed reads, never shorter than the interval."},
		{"full-fetch", Duration(fullEvery, dataplane.DefaultFullEvery, time.Minute, 30*day), "how often to fetch a full table from --upstream in spite of deltas; a random " +
			"part of up to half is subtracted."},
		{"fetch-timeout", Duration(timeout, dataplane.DefaultTimeout, tick, time.Hour), "time limit of a request to --upstream, to the last byte of the answer; for a " +
			"stream, to its beginning."},
	}, more...)
	p.Group(GroupPolling).Own("timing", Settings(nil, nil, settings...), Describe("Time limits and intervals for unusual networks, and for tests.", settings...))
	p.check(func() { c.MaxBackoff = max(c.MaxBackoff, c.Interval) })
}

// ShutdownTime returns the setting of --timing for open requests at the end.
func ShutdownTime(dst *time.Duration, def time.Duration) Setting {
	return Setting{"shutdown", Duration(dst, def, tick, day), "time for open requests at the end, after the server has drained."}
}
