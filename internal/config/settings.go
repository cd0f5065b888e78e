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
	v := &Value{kind: kind, repeat: true, settings: all}
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
		{"max-loss", Parsed("share", &c.MaxLoss, "0.5", share)},
		{"max-backend-loss", Parsed("share", &c.MaxBackendLoss, "0.5", share)},
		{"window", Duration(&c.Window, guard.DefaultWindow, tick, day)},
		{"hold", Duration(&c.Hold, hold, tick, day)},
		{"release", either(&c.Manual, "auto", "manual")},
		{"namespaces", Bool(&c.Namespaces, false)},
		{"max-routes", Number(&c.MaxRoutes, 0, 0, math.MaxInt32)},
		{"max-bytes", Size(&c.MaxBytes, "0")},
	}
	p.Flag("guard", Settings(nil, p.guardSet, settings...))
}

// DefaultRequestTimeout is the default time limit of a request to the API.
const DefaultRequestTimeout = 30 * time.Second

// Timing adds --timing, for time limits and intervals that hardly anybody changes. more are those of the program.
func (p *Parser) Timing(s *Source, c *Poll, fullEvery, timeout *time.Duration, more ...Setting) {
	settings := append([]Setting{
		{"request-timeout", Duration(&s.RequestTimeout, DefaultRequestTimeout, tick, time.Hour)},
		{"max-backoff", Duration(&c.MaxBackoff, poller.DefaultMaxBackoff, tick, day)},
		{"full-fetch", Duration(fullEvery, dataplane.DefaultFullEvery, time.Minute, 30*day)},
		{"fetch-timeout", Duration(timeout, dataplane.DefaultTimeout, tick, time.Hour)},
	}, more...)
	p.Flag("timing", Settings(nil, nil, settings...))
	p.check(func() { c.MaxBackoff = max(c.MaxBackoff, c.Interval) })
}

// ShutdownTime returns the setting of --timing for open requests at the end.
func ShutdownTime(dst *time.Duration, def time.Duration) Setting {
	return Setting{"shutdown", Duration(dst, def, tick, day)}
}
