package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/publish/history"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

const (
	historyFolder = "history" // in the state folder
	// maxUnrecorded is how many publications may wait to be recorded. On a slower disk, those between the first and the last are
	// merged.
	maxUnrecorded = 64
	defaultShown  = 100 // entries of an answer
	maxShown      = 5000
	maxNamed      = 20 // takeovers of an entry
)

// recorder writes the history: each publication with another intent, and each decision.
type recorder struct {
	s    *Server
	wake chan struct{}
	*history.History
	before *table.Table // of the last entry; owned by run

	mu        sync.Mutex // guards the fields below
	served    []*publish.Served
	decisions []api.Decision
	takeovers []api.Takeover
}

func newRecorder(s *Server) *recorder {
	cfg := history.Config{Limit: s.cfg.History, Bare: s.bareMeta, Log: s.log}
	if s.cfg.StateDir != "" {
		cfg.Folder = filepath.Join(s.cfg.StateDir, historyFolder)
	}
	return &recorder{s: s, wake: make(chan struct{}, 1), History: history.Open(cfg)}
}

// published records that a different table is served. It does not block.
func (r *recorder) published() {
	served := r.s.publisher.Served()
	if served == nil || served.Snapshot == nil {
		return
	}
	r.mu.Lock()
	if len(r.served) == maxUnrecorded {
		r.served = r.served[:maxUnrecorded-1]
	}
	r.served = append(r.served, served)
	r.mu.Unlock()
	r.notify()
}

// decided records a decision. It does not block.
func (r *recorder) decided(d api.Decision) {
	r.mu.Lock()
	if r.decisions = append(r.decisions, d); len(r.decisions) > publish.ShownDecisions {
		r.decisions = r.decisions[1:]
	}
	r.mu.Unlock()
	r.notify()
}

// took records takeovers of a publication. It does not block.
func (r *recorder) took(all []api.Takeover) {
	r.mu.Lock()
	r.takeovers = append(r.takeovers, all[:min(len(all), maxNamed-len(r.takeovers))]...)
	r.mu.Unlock()
	r.notify()
}

func (r *recorder) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run records until the context ends.
func (r *recorder) run(ctx context.Context) {
	defer r.Close()
	for {
		select {
		case <-ctx.Done():
			r.record()
			return
		case <-r.wake:
			r.record()
		}
	}
}

// record records all waiting publications.
func (r *recorder) record() {
	r.mu.Lock()
	all, decisions, takeovers := r.served, r.decisions, r.takeovers
	r.served, r.decisions, r.takeovers = nil, nil, nil
	r.mu.Unlock()
	if len(all) == 0 {
		if now := r.s.publisher.Served(); now != nil && now.Snapshot != nil {
			all = []*publish.Served{now}
		}
	}
	for i, one := range all {
		e := api.HistoryEntry{At: one.Committed.UTC(), Revision: one.Table.Revision(), Digest: one.Table.Digest()}
		var before table.List
		if r.before != nil {
			before = r.before.Routes()
		}
		for was, is := range table.Changes(before, one.Table.Routes()) {
			switch {
			case was == nil:
				e.Added++
			case is == nil:
				e.Removed++
			default:
				e.Changed++
			}
		}
		if i == len(all)-1 {
			e.Decisions, e.Takeovers = decisions, takeovers
		}
		r.Record(e, &one.Snapshot.Intent)
		r.before = one.Table
	}
}

// historyEndpoints returns the endpoints of /history, and of one entry.
func (s *Server) historyEndpoints() []httpserve.Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	return []httpserve.Endpoint{
		{Path: api.PathHistory, Methods: get, Handler: http.HandlerFunc(s.serveHistory),
			Does: "JSON: the [history](../operate/steering.md), newest first; `?since=` and `at=` (a time, or how long ago), `object=KIND/NAMESPACE/NAME`, `namespace=` and `limit=` (100) choose"},
		{Path: api.PathHistory + "/{entry}", Methods: get, Handler: s.questions.limited(api.PathHistory, s.serveEntry),
			Does: "an entry and the routes that it changed, with the endpoints of today. Text or JSON"},
	}
}

// serveKeptHistory sends the history to a starting replica.
func (s *Server) serveKeptHistory(w http.ResponseWriter, _ *http.Request) {
	if s.history == nil || s.history.Empty() {
		http.Error(w, "no history", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := s.history.Export(w); err != nil {
		s.log.Warn(history.LogFailed, "error", err) // the replica may have closed the connection
	}
}

// moment parses a time: RFC 3339, the most recent occurrence of a time of day such as 12:03, or an age such as 90m.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.Parse("15:04", text); err == nil {
		now = now.UTC()
		at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("time %q: must be a time such as 2026-11-25T12:03:00Z, one of today in UTC such as 12:03, or how long ago, such as 90m", text)
}

// serveHistory answers /history.
func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request) {
	q, now := r.URL.Query(), time.Now()
	since, err := moment(q.Get("since"), now)
	at, atErr := moment(q.Get("at"), now)
	limit := defaultShown
	if text := q.Get("limit"); text != "" {
		n, numberErr := strconv.Atoi(text)
		if numberErr != nil || n < 1 || n > maxShown {
			err = errors.Join(err, fmt.Errorf("limit %q: must be a number from 1 to %d", text, maxShown))
		}
		limit = n
	}
	var object *kube.Ref
	if text := q.Get("object"); text != "" {
		ref, refErr := httpserve.ParseRef(text)
		err, object = errors.Join(err, refErr), &ref
	}
	if err := errors.Join(err, atErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !at.IsZero() {
		e, ok := s.history.At(at)
		if !ok {
			http.Error(w, fmt.Sprintf("the history is younger than %s", at.UTC().Format(time.RFC3339)), http.StatusNotFound)
			return
		}
		httpserve.WriteJSON(w, http.StatusOK, []api.HistoryEntry{e})
		return
	}
	namespace := q.Get("namespace")
	httpserve.WriteJSON(w, http.StatusOK, s.history.Entries(since, limit, func(e *api.HistoryEntry) bool {
		return namespace == "" && object == nil || e.Count > len(e.Changes) || slices.ContainsFunc(e.Changes, func(c api.HistoryChange) bool {
			return (namespace == "" || c.Namespace == namespace) && (object == nil || c.Ref == *object)
		})
	}))
}

// serveEntry returns an entry, with the changes of the table since the entry before it.
func (s *Server) serveEntry(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseUint(r.PathValue("entry"), 10, 64)
	if err != nil {
		http.Error(w, fmt.Sprintf("entry %q: must be the number of an entry", r.PathValue("entry")), http.StatusBadRequest)
		return
	}
	entry, err := s.history.Entry(n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	view := &shadowdiff.Comparison{}
	if before := s.history.Entries(time.Time{}, 1, func(e *api.HistoryEntry) bool { return e.N < n }); len(before) > 0 {
		view, err = s.between(r.Context(), before[0].N, n)
	}
	switch {
	case errors.Is(err, history.ErrNoEntry):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	view.Notes = entryNotes(&entry)
	httpserve.WriteComparison(w, r, view, func(difference json.RawMessage) any {
		return api.HistoryDifference{Entry: entry, Difference: difference}
	})
}

// between compares the tables of two entries.
func (s *Server) between(ctx context.Context, from, to uint64) (*shadowdiff.Comparison, error) {
	var sides [2]*table.Table
	var snapshots [2]*kube.Snapshot
	for i, n := range [2]uint64{from, to} {
		intent, err := s.history.Intent(n)
		if err == nil {
			sides[i], err = s.publisher.TableOf(intent)
		}
		if err != nil {
			return nil, err
		}
		snapshots[i] = &kube.Snapshot{Intent: *intent}
	}
	return s.compared(ctx, sides[0], sides[1], fmt.Sprintf("entry %d", from), fmt.Sprintf("entry %d", to), snapshots[:]...)
}

// compared compares two tables by meaning and owner. Snapshots help to find owners of routes that the newest read lacks.
func (s *Server) compared(ctx context.Context, a, b *table.Table, from, to string, snapshots ...*kube.Snapshot) (*shadowdiff.Comparison, error) {
	const maxCompared = 5000
	report, err := shadowdiff.Tables(ctx, a, b, maxCompared)
	if err != nil {
		return nil, err
	}
	return &shadowdiff.Comparison{
		A: shadowdiff.Side{Label: "before", Name: from}, B: shadowdiff.Side{Label: "after", Name: to},
		Report: report, Owner: s.owners(snapshots...),
	}, nil
}

// entryNotes describes an entry in words.
func entryNotes(e *api.HistoryEntry) []shadowdiff.Note {
	notes := []shadowdiff.Note{
		{Name: "entry", Text: strconv.FormatUint(e.N, 10)}, {Name: "time", Text: e.At.Format(time.RFC3339)}, {Name: "table", Text: e.Digest.String()},
		{Name: "routes", Text: fmt.Sprintf("%d added, %d changed, %d removed", e.Added, e.Changed, e.Removed)},
	}
	for _, c := range e.Changes {
		notes = append(notes, shadowdiff.Note{Name: c.What, Text: strings.TrimSpace(c.Ref.String() + " " + c.By)})
	}
	for _, d := range e.Decisions {
		notes = append(notes, shadowdiff.Note{Name: "decision", Text: strings.Join(slices.DeleteFunc([]string{d.What, string(d.Reason), d.Objects, d.Detail, d.By, d.Why}, func(s string) bool { return s == "" }), ", ")})
	}
	for _, t := range e.Takeovers {
		notes = append(notes, shadowdiff.Note{Name: "takeover", Text: t.Example})
	}
	return notes
}
