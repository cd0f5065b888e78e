package dataplane

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/proxysafe"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/wire"
)

// candidate is a table that passed verification, with its names. It is immutable.
type candidate struct {
	table      *table.Table
	digest     table.Digest // of the text as the server sent it; that of the table unless the text was in another form
	etags      []string     // which name it, the server's first; empty if nothing does
	origin     string
	sourceRead time.Time
	state      string
}

// applied is a candidate that was committed. It is immutable; a poll that confirms it makes a new one.
type applied struct {
	candidate
	info Applied
}

// view is what the client holds when a request is made.
type view struct {
	applied *applied   // nil if there is none
	held    *candidate // nil if there is none
}

func (c *Client) view() view {
	c.committing.Lock() // not between a table and its ETag
	defer c.committing.Unlock()
	return view{c.cur.Load(), c.held.Load()}
}

// names are the ETags for If-None-Match.
func (v view) names() []string {
	var names []string
	if v.applied != nil {
		names = append(names, v.applied.etags...)
	}
	if v.held != nil {
		names = append(names, v.held.etags...)
	}
	return names
}

// find returns the table with the digest, nil if it is not held.
func (v view) find(d table.Digest) *candidate {
	switch {
	case v.applied != nil && v.applied.digest == d:
		return &v.applied.candidate
	case v.held != nil && v.held.digest == d:
		return v.held
	}
	return nil
}

// decoder makes a decoder of a full table, which will mostly be the held one, else the applied one.
func (v view) decoder(limit int64) *table.Decoder {
	switch {
	case v.held != nil:
		return table.NewDecoder(v.held.table, limit)
	case v.applied != nil:
		return table.NewDecoder(v.applied.table, limit)
	}
	return table.NewDecoder(nil, limit)
}

// named reports whether the ETag of a 304 means the candidate; sole says that nothing else was named.
func (c *candidate) named(e wire.Entity, sole bool) bool {
	switch {
	case len(c.etags) == 0:
		return false
	case e.Text == "":
		return sole // an answer without ETag, which can only mean this
	case e.Known:
		return e.Tag.Digest == c.digest
	default:
		strong := func(s string) string { return strings.TrimPrefix(s, "W/") }
		return slices.ContainsFunc(c.etags, func(s string) bool { return strong(s) == strong(e.Text) })
	}
}

// handle decides what comes of an answer, and does it. Everything before the guard is verification.
func (c *Client) handle(s *server, seen view, a *answer) (result string, f *Error) {
	var next *candidate
	if !a.notModified {
		if next, f = c.verify(seen, a); f != nil {
			return "", f
		}
	}
	c.committing.Lock()
	defer c.committing.Unlock()
	if c.cur.Load() != seen.applied || c.held.Load() != seen.held {
		c.Recheck() // an acceptance came in between: the answer is about what was before
		return resultOvertaken, nil
	}
	if a.notModified {
		if next, f = meant(seen, a); f != nil {
			return "", f
		}
	}
	switch {
	case seen.applied != nil && next.table.Digest() == seen.applied.table.Digest():
		s.older = 0
		c.confirm(seen, next)
		return resultUnchanged, nil
	case c.olderThan(s, seen, next):
		return resultOlder, nil
	default:
		return c.judge(seen, next), nil
	}
}

// verify makes a candidate of an answer with a table or a delta. A text that is known already is not parsed again.
func (c *Client) verify(seen view, a *answer) (next *candidate, f *Error) {
	next = &candidate{digest: a.digest, origin: a.origin, sourceRead: a.sourceRead, state: a.state}
	if a.etag.Text != "" {
		next.etags = []string{a.etag.Text}
	}
	now := time.Now()
	if next.sourceRead.IsZero() && seen.applied != nil {
		next.sourceRead = seen.applied.sourceRead // without evidence the age goes on
	}
	switch {
	case seen.applied != nil && seen.applied.table.Digest() == a.digest:
		next.table = seen.applied.table
	case seen.held != nil && seen.held.table.Digest() == a.digest:
		next.table = seen.held.table
	default:
		if next.table, f = c.build(seen, a, timeOf(seen, a, next.sourceRead, now)); f != nil {
			return nil, f
		}
		var checked *table.Table
		if seen.applied != nil {
			checked = seen.applied.table
		}
		if err := proxysafe.CheckTable(checked, next.table); err != nil {
			return nil, failf(ReasonUnsafe, "%w", err)
		}
	}
	if n := strconv.Itoa(next.table.Len()); a.count != "" && a.count != n {
		return nil, failf(ReasonCount, "%s routes, X-Count says %.20q", n, a.count)
	}
	next.raise(a.etag)
	return next, nil
}

// timeOf is the time of the table of an answer: when the server published it, else when the source was read. Two tables in a row
// have not the same second, because who serves them says by it that the table has changed.
func timeOf(seen view, a *answer, read, now time.Time) time.Time {
	switch {
	case !a.modified.IsZero():
		return a.modified
	case read.IsZero() || seen.applied != nil && !read.Truncate(time.Second).After(seen.applied.table.Time()):
		return now
	default:
		return read
	}
}

// build makes the table of an answer.
func (c *Client) build(seen view, a *answer, at time.Time) (*table.Table, *Error) {
	if a.delta != nil {
		return applyDelta(seen, a, at, c.limit())
	}
	t, err := a.decoder.Table(a.etag.Tag.Revision, at)
	switch {
	case errors.Is(err, table.ErrTooLarge):
		return nil, failf(ReasonTooLarge, "%w", err)
	case err != nil:
		return nil, failf(ReasonParse, "%w", err)
	}
	return t, nil
}

// raise gives the candidate the revision of a name of it, if that is higher: it is as new as that.
func (c *candidate) raise(e wire.Entity) {
	if e.Known && e.Tag.Revision > c.table.Revision() {
		c.table = c.table.WithRevision(e.Tag.Revision)
	}
}

// meant returns the candidate that a 304 names.
func meant(seen view, a *answer) (*candidate, *Error) {
	var of *candidate
	switch {
	case seen.applied != nil && seen.applied.named(a.etag, seen.held == nil || len(seen.held.etags) == 0):
		of = &seen.applied.candidate
	case seen.held != nil && seen.held.named(a.etag, seen.applied == nil || len(seen.applied.etags) == 0):
		of = seen.held
	default:
		return nil, failf(ReasonProtocol, "304 for %q, which is not the one table that was named", a.etag.Text)
	}
	next := *of
	next.state = a.state
	if !a.sourceRead.IsZero() {
		next.sourceRead = a.sourceRead // otherwise the age goes on
	}
	next.raise(a.etag)
	// Who takes over a name must not be sent back for it. A server whose names have no revision knows the old ones, too.
	if a.etag.Known && a.etag.Tag.Revision >= next.table.Revision() {
		next.etags = []string{a.etag.Text}
	}
	return &next, nil
}

// olderThan reports whether a candidate is older than what the client has, and its server has not insisted yet.
func (c *Client) olderThan(s *server, seen view, next *candidate) bool {
	if seen.applied == nil {
		return false
	}
	floor, revision := seen.applied.table.Revision(), next.table.Revision()
	if seen.held != nil && seen.held.table.Revision() > 0 {
		floor = min(floor, seen.held.table.Revision()) // a server has insisted on going back that far
	}
	if revision == 0 || revision >= floor {
		s.older = 0
		return false
	}
	if s.older++; s.older < olderPolls {
		c.said.say(slog.LevelWarn, LogTableOlder, s.name, "url", s.name, "revision", revision, "applied_revision", seen.applied.table.Revision(),
			"digest", next.table.Digest().String())
		return true
	}
	s.older = 0
	c.cfg.Metrics.older.Inc()
	c.said.say(slog.LevelWarn, LogOlderAccepted, s.name, "url", s.name, "revision", revision, "applied_revision", seen.applied.table.Revision(),
		"digest", next.table.Digest().String())
	return false
}

// confirm notes that the applied table is current; next is the same content. It ends a hold.
func (c *Client) confirm(seen view, next *candidate) {
	now := time.Now()
	was := seen.applied
	c.guard.Judge(was.table, was.table, now)
	c.endHold()

	a := &applied{candidate: *next, info: was.info}
	a.table = was.table
	if r := next.table.Revision(); r > a.table.Revision() {
		a.table = a.table.WithRevision(r)
	}
	if newest := wire.ParseEntity(firstOf(next.etags)); newest.Tag.Revision < a.table.Revision() {
		// The server does not know how new the table is, but another one may: it is told, too.
		a.etags = appendNew(next.etags, was.etags)
	}
	a.info.Revision = a.table.Revision()
	a.info.ETag = firstOf(a.etags)
	a.info.Confirmed, a.info.SourceRead = now, next.sourceRead
	a.info.ServerState, a.info.Stale = next.state, false
	c.cur.Store(a)
	c.cfg.Metrics.show(a.table, &a.info)
	if was.info.Stale {
		c.log.Info(LogTableConfirmed, describe(a.table)...)
	}
	if a.table.Revision() != was.table.Revision() {
		c.waitFor(c.lkg.save(a)) // the file is what names the table after a restart
	}
	c.cfg.Confirm(a.info)
}

// maxNames bounds how many ETags name one table.
const maxNames = 3

func appendNew(names, more []string) []string {
	names = slices.Clone(names)
	for _, name := range more {
		if len(names) < maxNames && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func firstOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// judge asks the guard about a candidate, and commits or holds it.
func (c *Client) judge(seen view, next *candidate) (result string) {
	now := time.Now()
	var served *table.Table
	if seen.applied != nil {
		served = seen.applied.table
	}
	was := c.guard.State()
	verdict := c.guard.Judge(served, next.table, now)
	if !verdict.Publish {
		c.hold(was, verdict, next)
		return resultHeld
	}
	if verdict.Reason != "" {
		c.log.Warn(LogTableReleased, "accepted", false, "reason", string(verdict.Reason), "detail", verdict.Detail,
			"since", verdict.Since)
		c.held.Store(nil)
	}
	c.endHold()
	c.commit(next, now)
	return resultChanged
}

// hold keeps a candidate beside the applied table. It is loud when the hold starts.
func (c *Client) hold(was guard.State, v guard.Verdict, next *candidate) {
	c.held.Store(next)
	c.cfg.Metrics.held.Set(1)
	if !was.Held || was.Verdict.Reason != v.Reason {
		c.cfg.Metrics.holds.WithLabelValues(string(v.Reason)).Inc()
		c.log.Error(LogTableHeld, append(describe(next.table), "reason", string(v.Reason), "detail", v.Detail,
			"release_at", v.ReleaseAt)...)
	}
	c.cfg.Hold(next.sourceRead)
}

// endHold forgets what is held, if anything is.
func (c *Client) endHold() {
	c.cfg.Metrics.held.Set(0)
	if c.held.Swap(nil) != nil {
		c.log.Info(LogHoldEnded)
	}
}

// commit applies a candidate: memory, disk, ETag. See the package documentation for why in this order. The caller holds
// committing.
func (c *Client) commit(next *candidate, now time.Time) {
	t := next.table
	a := &applied{candidate: *next}
	a.etags = nil
	a.info = Applied{
		Digest: t.Digest(), Revision: t.Revision(), Routes: t.Len(), Bytes: t.Bytes(),
		Origin: next.origin, ETag: firstOf(next.etags), Committed: now, Confirmed: now, SourceRead: next.sourceRead,
		ServerState: next.state,
	}
	c.cfg.Publish(t, a.info) // first: if it panics, nothing has changed
	first := c.cur.Swap(a) == nil
	if first {
		close(c.ready)
	}
	c.cfg.Metrics.show(t, &a.info)
	c.log.Info(LogTableApplied, append(describe(t), "origin", next.origin)...)

	c.saveFiles(a)

	named := *a
	named.etags = next.etags
	c.cur.Store(&named)
}

// Accept applies the held table at once, if it has the digest. The errors are those of the guard.
func (c *Client) Accept(digest table.Digest) (*table.Table, error) {
	c.committing.Lock()
	defer c.committing.Unlock()
	now := time.Now()
	t, err := c.guard.Accept(guard.Acceptance{Digest: digest}, now)
	if err != nil {
		return nil, err
	}
	c.log.Warn(LogTableReleased, append(describe(t), "accepted", true)...)
	next := c.held.Swap(nil)
	c.cfg.Metrics.held.Set(0)
	c.commit(next, now)
	return t, nil
}

// describe gives the attributes of a table for the log.
func describe(t *table.Table) []any {
	return []any{"routes", t.Len(), "bytes", t.Bytes(), "digest", t.Digest().String(), "revision", t.Revision()}
}
