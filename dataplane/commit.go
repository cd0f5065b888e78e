package dataplane

import (
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// decoder returns a decoder for a full table, which will probably equal the held one, else the served one.
func (c *Client) decoder(seen tables, limit int64) *table.Decoder {
	var base *table.Table
	for _, c := range seen.all() {
		base = c.Table
	}
	d := table.NewDecoder(base, limit)
	d.LeaveOut()
	return d
}

// named reports whether a 304 names the candidate; without an ETag it means the sole one that the request named.
func named(c *publish.Candidate, e api.Entity, sole bool) bool {
	return len(c.Names) > 0 && (e.Known && e.Tag.Digest == c.Sent || e.Text == "" && sole)
}

// handle decides about an answer and applies the decision. Everything before the offer is verification.
func (c *Client) handle(s *server, seen tables, a *answer) (result string, f *Error) {
	var next *publish.Candidate
	if a.notModified {
		next, f = meant(seen, a)
	} else {
		next, f = c.verify(seen, a)
	}
	switch {
	case f != nil:
		return "", f
	case seen.Served != nil && next.Table.Digest() == seen.Served.Table.Digest():
		s.older = 0
		confirming(seen.Served, next)
	case c.olderThan(s, seen, next):
		return resultOlder, nil
	}
	return c.offer(seen, next), nil
}

// offer offers a candidate to the publisher, unless an acceptance came after the request: then the answer refers to an old state.
func (c *Client) offer(seen tables, next *publish.Candidate) (result string) {
	backends := next.State == api.StateBackendsHeld
	next.Read = table.Read{ // it is unknown up to which revision the table is complete
		Newest: next.Table.Revision(), Held: backends || next.State == api.StateHeld, Backends: backends,
		Stale: next.State == api.StateStale, At: next.Read.At,
	}
	switch o := c.publisher.Begin().OfferSeen(seen.Tables, *next); o.Result {
	case publish.Overtaken:
		c.Recheck()
		return resultOvertaken
	case publish.Held:
		return resultHeld
	case publish.Unchanged:
		c.cfg.Metrics.show(c.publisher.Served())
		if seen.Served.Stale {
			c.log.Info("table of the last-known-good file confirmed by a route server", describe(o.Now)...)
		}
		return resultUnchanged
	default:
		c.applied()
		return resultChanged
	}
}

func (c *Client) applied() {
	s := c.publisher.Served()
	c.cfg.Metrics.show(s)
	c.log.Info("table applied", append(describe(s.Table), "origin", s.Origin)...)
}

// verify creates a candidate from an answer with a table or a delta. It does not parse a known text again.
func (c *Client) verify(seen tables, a *answer) (next *publish.Candidate, f *Error) {
	next = &publish.Candidate{
		Sent: a.digest, Names: []string{a.etag.Text}, Origin: a.origin, Read: table.Read{At: a.sourceRead}, State: a.state,
	}
	now, left := time.Now(), 0
	if next.Read.At.IsZero() && seen.Served != nil {
		next.Read.At = seen.Served.Read.At // without evidence the table keeps ageing
	}
	for _, known := range seen.all() {
		if known.Table.Digest() == a.digest {
			next.Table = known.Table
		}
	}
	if next.Table == nil {
		if next.Table, f = c.build(seen, a, timeOf(seen, a, next.Read.At, now)); f != nil {
			return nil, f
		}
		var checked *table.Table
		if seen.Served != nil {
			checked = seen.Served.Table
		}
		var killers []catalogue.Killer
		next.Table, killers = catalogue.WithoutKillers(checked, next.Table)
		left = c.noteLeftOut(a, next.Table, killers)
	}
	if n := strconv.Itoa(next.Table.Len() + left); a.count != "" && a.count != n {
		return nil, failf(ReasonCount, "%s routes, X-Count says %.20q", n, a.count)
	}
	raise(next, a.etag)
	return next, nil
}

// timeOf returns the time of the answer's table: when the server published it, else when the source was read. Two consecutive
// tables never have the same second, because their servers use the time to show that the table has changed.
func timeOf(seen tables, a *answer, read, now time.Time) time.Time {
	switch {
	case !a.modified.IsZero():
		return a.modified
	case read.IsZero() || seen.Served != nil && !read.Truncate(time.Second).After(seen.Served.Table.Time()):
		return now
	default:
		return read
	}
}

func (c *Client) build(seen tables, a *answer, at time.Time) (*table.Table, *Error) {
	if a.delta != nil {
		return applyDelta(seen, a, at, c.limit())
	}
	t, err := a.decoder.Table(a.etag.Tag.Revision, at)
	return t, reasoned(ReasonParse, err)
}

// raise sets the candidate's revision to the one in a name of it, if that is higher: the table is that new.
func raise(c *publish.Candidate, e api.Entity) {
	if e.Tag.Revision > c.Table.Revision() {
		c.Table = c.Table.WithRevision(e.Tag.Revision)
	}
}

// meant returns the candidate that a 304 names.
func meant(seen tables, a *answer) (*publish.Candidate, *Error) {
	all := seen.all()
	i := slices.IndexFunc(all, func(c *publish.Candidate) bool { return named(c, a.etag, len(c.Names) == len(seen.names())) })
	if i < 0 {
		return nil, failf(ReasonProtocol, "304 for %q, which is not the one table that was named", a.etag.Text)
	}
	next := *all[i]
	if a.state != api.StateUnknown { // a server that does not know keeps what others said
		next.State = a.state
	}
	if !a.sourceRead.IsZero() {
		next.Read.At = a.sourceRead // otherwise the table keeps ageing
	}
	raise(&next, a.etag)
	// A client that adopts a name must not go back in time because of it. A server whose names have no revision knows the old
	// ones, too.
	if a.etag.Known && a.etag.Tag.Revision >= next.Table.Revision() {
		next.Names = []string{a.etag.Text}
	}
	return &next, nil
}

// maxNames is how many ETags may name one table.
const maxNames = 3

// confirming completes a candidate from an answer that shows the served table: the table's origin stays. Its names stay, too, and
// are sent to servers, if this server does not know how new the table is, because another one may.
func confirming(served *publish.Served, next *publish.Candidate) {
	next.Origin = served.Origin
	revision := max(served.Table.Revision(), next.Table.Revision())
	if newest := api.ParseEntity(firstOf(next.Names)); newest.Tag.Revision < revision {
		for _, name := range served.Names {
			if len(next.Names) < maxNames && !slices.Contains(next.Names, name) {
				next.Names = append(slices.Clip(next.Names), name)
			}
		}
	}
}

// olderThan reports whether a candidate is older than the client's table, and its server has not insisted yet.
func (c *Client) olderThan(s *server, seen tables, next *publish.Candidate) bool {
	if seen.Served == nil {
		return false
	}
	floor, revision := seen.Served.Table.Revision(), next.Table.Revision()
	if seen.Held != nil && seen.Held.Table.Revision() > 0 {
		floor = min(floor, seen.Held.Table.Revision()) // a server has already insisted on going back that far
	}
	if revision == 0 || revision >= floor {
		s.older = 0
		return false
	}
	if s.older++; s.older < olderPolls {
		c.dedup.Log(slog.LevelWarn, "route server has a table that is older than the applied one, not accepted yet", s.name, "url", s.name, "revision", revision, "applied_revision", seen.Served.Table.Revision(),
			"digest", next.Table.Digest().String())
		return true
	}
	s.older = 0
	c.cfg.Metrics.older.Inc()
	c.dedup.Log(slog.LevelWarn, "route server insists on an older table", s.name, "url", s.name, "revision", revision, "applied_revision", seen.Served.Table.Revision(),
		"digest", next.Table.Digest().String())
	return false
}

// Accept applies the held table at once; see [publish.Publisher.Accept].
func (c *Client) Accept(a publish.Acceptance) (*table.Table, error) {
	t, err := c.publisher.Accept(a)
	if err == nil {
		c.applied()
	}
	return t, err
}

func describe(t *table.Table) []any {
	return []any{"routes", t.Len(), "bytes", t.Bytes(), "digest", t.Digest().String(), "revision", t.Revision()}
}

// LogPartsLeftOut is the log message about parts that are no routes: Skipper's route server prints texts that no reader parses.
const LogPartsLeftOut = "parts of the table are no routes and were left out"

// LogKillersLeftOut is the log message about routes that no proxy would survive.
const LogKillersLeftOut = "routes were left out that no proxy would survive"

// leftOut is what was left out of the latest table.
type leftOut struct {
	of    table.Digest // the table without them
	count int
}

// noteLeftOut reports what was left out of the table of an answer, killers included, and returns how many routes that were.
func (c *Client) noteLeftOut(a *answer, t *table.Table, killers []catalogue.Killer) int {
	parts, first := 0, []table.LeftOut(nil)
	if a.decoder != nil {
		parts, first = a.decoder.LeftOut()
	}
	left := leftOut{count: parts + len(killers)}
	if left.count > 0 {
		left.of = t.Digest()
	}
	if parts > 0 {
		c.dedup.Log(slog.LevelError, LogPartsLeftOut, a.origin+" "+first[0].ID, "url", a.origin, "count", parts,
			"first", first[0].ID, "error", first[0].Err)
	}
	if len(killers) > 0 {
		c.dedup.Log(slog.LevelError, LogKillersLeftOut, a.origin, "url", a.origin, "count", len(killers), "first", killers[0].ID, "error", killers[0].Err)
	}
	c.cfg.Metrics.leftOut.Set(float64(left.count))
	c.update(func(l *loopState) { l.leftOut = left })
	return left.count
}
