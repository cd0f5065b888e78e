package config

import (
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/poller"
)

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
