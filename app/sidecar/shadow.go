package sidecar

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// staleComparisons is after how many polls without a comparison the result of the last one no longer counts.
const staleComparisons = 10

// selfName names the computed table in reports.
const selfName = "self-computed"

// shadow compares the computed table with the fetched one, which takes too long for the goroutine of the controller.
type shadow struct {
	c       *controller
	metrics *shadowdiff.Metrics
	pairs   chan pair // of capacity 1: the newest pair that has not been compared yet
	view    atomic.Pointer[shadowdiff.Comparison]

	// owned by the goroutine of the controller
	generation int       // numbers the series of comparisons that belong together
	first      time.Time // of the first comparison of the series; zero if there was none
	last       time.Time // of the last comparison; zero if there was none
	clean      int       // consecutive comparisons without a difference that counts
	observed   shadowdiff.Observation

	// owned by run
	tracker  *shadowdiff.Tracker
	tracking int          // generation of tracker
	a, b     table.Digest // of the tables that report is about
	report   shadowdiff.Report
}

// pair holds two tables to compare.
type pair struct {
	generation int
	a, b       *table.Table
	url        string
	read       [2]time.Time // when the sources of a and b were last read
	at         time.Time
}

func newShadow(c *controller) *shadow {
	return &shadow{c: c, metrics: shadowdiff.NewMetrics(c.cfg.Registry), pairs: make(chan pair, 1)}
}

// reset forgets the comparisons: they count only within one period of mode Pre.
func (s *shadow) reset() {
	s.generation++
	s.first, s.last, s.clean, s.observed = time.Time{}, time.Time{}, 0, shadowdiff.Observation{}
	s.view.Store(nil)
	select {
	case <-s.pairs: // drop it, or it would keep its tables alive
	default:
	}
}

// compare requests a comparison of both producers' tables in mode Pre. It is called for each answer of a route server.
func (c *controller) compare() {
	if c.decision.Mode != rollout.Pre || c.self == nil || c.remote == nil {
		return
	}
	a, b := c.self.offer, c.remote.offer
	if a.Table == nil || b.Table == nil || c.unread(time.Now()) != "" {
		c.shadow.metrics.Failed()
		return
	}
	p := pair{
		c.shadow.generation, a.Table, b.Table.WithRevision(b.Read.Newest), c.remote.url, [2]time.Time{a.Read.At, b.Read.At}, time.Now(),
	}
	select {
	case <-c.shadow.pairs: // an older pair that has not been started
	default:
	}
	c.shadow.pairs <- p // only the controller sends, so there is room
}

// unread returns a sentence about a side whose source has not been read for too long, or "" if both have been read. Such a table
// proves nothing about the other one: the two may agree only because neither source was read.
func (c *controller) unread(now time.Time) string {
	for _, side := range []struct {
		name string
		read time.Time
	}{{"computed", c.self.offer.Read.At}, {"fetched", c.remote.offer.Read.At}} {
		switch age := now.Sub(side.read); {
		case side.read.IsZero():
			return fmt.Sprintf("it is not known when the source of the %s table was read", side.name)
		case age >= c.cfg.FreshLimit:
			return fmt.Sprintf("the source of the %s table was read %s ago, limit %s", side.name, age.Truncate(time.Second),
				c.cfg.FreshLimit)
		}
	}
	return ""
}

func (s *shadow) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.pairs:
			s.observe(ctx, p)
		}
	}
}

// observe compares a pair and passes the result to the controller.
func (s *shadow) observe(ctx context.Context, p pair) {
	if s.tracker == nil || s.tracking != p.generation {
		s.tracker, s.tracking = shadowdiff.NewTracker(max(s.c.cfg.Interval, s.c.cfg.Fetch.Interval)), p.generation
	}
	switch err := s.diff(ctx, p); {
	case ctx.Err() != nil:
		return
	case err != nil:
		s.c.log.Error("tables cannot be compared", "error", err) // unexpected: both tables have been parsed before
		s.metrics.Failed()
		return
	}
	o := s.tracker.Observe(s.report, shadowdiff.Meta{
		RevisionA: p.a.Revision(), RevisionB: p.b.Revision(), ReadA: p.read[0], ReadB: p.read[1], Now: p.at,
	})
	v := &shadowdiff.Comparison{
		A:      shadowdiff.Side{Name: selfName, Revision: p.a.Revision()},
		B:      shadowdiff.Side{Name: p.url, Revision: p.b.Revision()},
		Report: s.report, At: p.at, Watch: &o,
	}
	clean := s.report.Empty() || o.Clean > 0
	s.c.call(func() {
		if p.generation != s.generation {
			return
		}
		s.metrics.Observe(&o)
		s.view.Store(v)
		if s.observed, s.last = o, p.at; s.first.IsZero() {
			s.first = p.at
		}
		if o.Clean == 0 {
			s.clean = 0 // the clean period begins now, or has not begun
		}
		if clean {
			s.clean++
		}
	})
}

// diff compares the tables, unless it compared the same ones last time.
func (s *shadow) diff(ctx context.Context, p pair) error {
	a, b := p.a.Digest(), p.b.Digest()
	if a == s.a && b == s.b {
		return nil
	}
	report, err := shadowdiff.Tables(ctx, p.a, p.b, 0)
	if err != nil {
		return err
	}
	s.a, s.b, s.report = a, b, report
	return nil
}

func (s *shadow) evidence(now time.Time, mode rollout.Mode) rollout.Evidence {
	e := rollout.Evidence{
		Comparisons: s.clean, CleanFor: s.observed.Clean, Differences: s.observed.Confirmed.Differences(),
	}
	limit := staleComparisons * max(s.c.cfg.Interval, s.c.cfg.Fetch.Interval)
	c := s.c
	switch {
	case mode != rollout.Pre || s.last.IsZero() || now.Sub(s.last) <= limit:
	case c.self != nil && c.self.offer.Table != nil && c.remote != nil && c.remote.offer.Table != nil && c.unread(now) != "":
		e.Trouble = "no comparison: " + c.unread(now)
	default:
		e.Trouble = fmt.Sprintf("the last comparison was %s ago: one of the tables is not available", now.Sub(s.last).Truncate(time.Second))
	}
	return e
}

func (c *controller) shadowView() *shadowdiff.Comparison {
	now := c.shown.Load()
	v := c.shadow.view.Load()
	if v == nil {
		err := "no comparison yet"
		if now.Mode != rollout.Pre {
			err = fmt.Sprintf("the mode is %s: tables are compared in mode Pre", now.Mode)
		}
		return &shadowdiff.Comparison{A: shadowdiff.Side{Name: selfName}, B: shadowdiff.Side{Name: "route server"}, Err: err}
	}
	shown := *v
	shown.Owner = c.owners()
	if now.Cutover != nil {
		shown.Err = now.Cutover.trouble
	}
	return &shown
}

// owners finds the objects of routes in the modes False and Pre; otherwise it is nil, and only ids are known.
func (c *controller) owners() shadowdiff.OwnerFunc {
	p := c.selfNow.Load()
	if p == nil {
		return nil
	}
	var snapshots []*kube.Snapshot
	view := p.publisher.Tables()
	if view.Served != nil {
		snapshots = append(snapshots, view.Served.Snapshot)
	}
	if view.Held != nil {
		snapshots = append(snapshots, view.Held.Snapshot)
	}
	return explain.OwnerFunc(nil, snapshots...)
}
