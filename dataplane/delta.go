package dataplane

import (
	"log/slog"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// LogDeltaFailed is the log message about a delta that does not verify.
const LogDeltaFailed = "delta does not verify, the full table is fetched"

// Results of deltas, as label values; full is a table instead of one.
const (
	deltaApplied  = "applied"
	deltaRejected = "failed"
	deltaFull     = "full"
)

// deltaRest is how long a server is not asked for deltas after one that did not verify.
const deltaRest = 10 * time.Minute

// want is what a request asks for.
type want struct {
	delta bool // a delta is acceptable
	named bool // the request names the client's tables
}

// want decides what to ask the server for; full requires a full table.
func (s *server) want(seen tables, full bool) want {
	named := len(seen.all()) > 0 && !s.unnamed
	return want{delta: named && !full && !s.otherKind && !time.Now().Before(s.noDeltas) && seen.canonical(), named: named}
}

// canonical reports whether deltas can apply to the client's tables: a text that was not canonical is stored in another form.
func (t tables) canonical() bool {
	return !slices.ContainsFunc(t.all(), func(c *publish.Candidate) bool { return c.Sent != c.Table.Digest() })
}

func (m *Metrics) countVerified(a *answer) {
	switch {
	case a.notModified:
	case a.ofDelta:
		m.deltas.WithLabelValues(deltaApplied).Inc()
	default:
		m.deltas.WithLabelValues(deltaFull).Inc()
	}
}

// deltaFailed records that a server has sent a delta that does not verify.
func (c *Client) deltaFailed(s *server, f *Error) {
	c.cfg.Metrics.deltas.WithLabelValues(deltaRejected).Inc()
	s.noDeltas = time.Now().Add(deltaRest)
	c.dedup.Log(slog.LevelWarn, LogDeltaFailed, string(f.Reason)+" "+s.name, f.attrs()...)
}

// readDelta reads an answer with the status 226 into a, and checks that it is a delta for one of the client's tables.
func readDelta(a *answer, b *body, seen tables) *Error {
	a.ofDelta = true
	h := b.resp.Header
	if form := h.Get(api.HeaderIM); !strings.EqualFold(form, api.DeltaForm) {
		return failf(ReasonDelta, "IM is %.50q, must be %s", form, api.DeltaForm)
	}
	if kind, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || kind != api.DeltaType {
		return failf(ReasonDelta, "content type %.50q, must be %s", h.Get("Content-Type"), api.DeltaType)
	}
	base := api.ParseEntity(h.Get(api.HeaderDeltaBase))
	if !base.Known || seen.find(base.Tag.Digest) == nil {
		return failf(ReasonDelta, "delta for %.100q, which was not named", h.Get(api.HeaderDeltaBase))
	}
	d, f := b.delta()
	if f != nil {
		return f
	}
	if f = a.setDelta(d); f == nil && a.delta.Base != base.Tag.Digest {
		f = failf(ReasonDelta, "delta for %s, Delta-Base says %s", a.delta.Base, base.Text)
	}
	return f
}

// setDelta sets the delta as the content of the answer, if it leads to the table of the tag.
func (a *answer) setDelta(d *table.Delta) *Error {
	if !a.etag.Known || d.Target != a.etag.Tag.Digest {
		return failf(ReasonDelta, "delta leads to %s, tag says %.100q", d.Target, a.etag.Text)
	}
	a.delta, a.digest = d, d.Target
	return nil
}

// applyDelta builds the table that a delta leads to. Its revision comes from the tag, as for a full table.
func applyDelta(seen tables, a *answer, at time.Time, limit int64) (*table.Table, *Error) {
	base := seen.find(a.delta.Base)
	if base == nil {
		return nil, failf(ReasonDelta, "delta is for another table: %s is not held", a.delta.Base)
	}
	t, err := base.Table.Apply(a.delta, at, limit)
	if err != nil {
		return nil, reasoned(ReasonDelta, err)
	}
	if t.Revision() != a.etag.Tag.Revision {
		t = t.WithRevision(a.etag.Tag.Revision)
	}
	return t, nil
}
