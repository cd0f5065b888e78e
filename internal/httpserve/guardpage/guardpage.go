// Package guardpage answers what operators ask about a table that a guard holds back: [Held] shows how it differs from the table
// that is served, and [httpserve.Accept] serves it.
//
// # Cost
//
// The two tables are compared by their blocks, and only routes that differ are parsed: the first 5,000 of them, by id. Further
// ones are counted. A comparison is made once for each pair of tables and each form once for each state of the hold; one is made
// at a time. A request that waits for its turn, or whose comparison is under way, ends when its client goes away.
//
// # What it does not do
//
// It decides nothing, and does not check who asks: the routes of a held table are no more secret than those that are served.
package guardpage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/shadowdiff/page"
	"github.com/routesrv/routesrv/table"
)

// maxCompared is how many routes that differ are parsed and listed.
const maxCompared = 5000

// Gate is what decides about tables. Its methods are called by many goroutines at once.
type Gate interface {
	// Accept serves a held table. Its errors are those of [guard.Guard.Accept].
	Accept(guard.Acceptance) (*table.Table, error)
	// Held returns what is held, and false if nothing is.
	Held() (Held, bool)
}

// Held is a table that is held back, beside the one that is served.
type Held struct {
	// Served is nil if no table is served yet. Table is never nil.
	Served, Table *table.Table
	State         guard.State
}

// notHeld is what a client reads while nothing is held.
const notHeld = "no table is held: what was read last is served, or nothing was read yet (GET /status)\n"

// NewHeld returns the handler for GET /guard/held: the difference between the served and the held table by owner, with the
// reason, what the hold keeps, and the command that accepts the table. The form is text, a page or JSON, as [page.Handler] chooses.
// The JSON form has the hold as /status does (hold), the path that accepts the table (accept) and the comparison (difference). While
// nothing is held, the answer is 404.
func NewHeld(g Gate) *Handler {
	return &Handler{gate: g, turn: make(chan struct{}, 1)}
}

// Handler keeps the last comparison and its forms. It is safe for concurrent use.
type Handler struct {
	gate Gate
	turn chan struct{} // of capacity 1: full while somebody compares or renders

	// guarded by turn
	pair  [2]table.Digest // that view is about
	view  *shadowdiff.View
	key   string // state of the hold that bodies are about
	forms map[page.Form][]byte
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := page.Negotiate(w, r)
	if !ok {
		return
	}
	body, err := h.body(r, form)
	switch {
	case r.Context().Err() != nil: // nobody to tell
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case body == nil:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(notHeld))
	default:
		page.Send(w, form, body)
	}
}

// body waits for its turn and makes a form of what is held then; nil if nothing is.
func (h *Handler) body(r *http.Request, form page.Form) ([]byte, error) {
	ctx := r.Context()
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.turn }()
	held, ok := h.gate.Held()
	if !ok {
		h.pair, h.view, h.key, h.forms = [2]table.Digest{}, nil, "", nil // a table that was let go need not be kept
		return nil, nil
	}
	hold, err := json.Marshal(httpserve.ReportGuard(held.State))
	if err != nil {
		return nil, fmt.Errorf("print the state of the guard: %w", err)
	}
	if err := h.compare(ctx, held); err != nil {
		return nil, err
	}
	address := httpserve.AcceptAddress(r)
	if key := fmt.Sprint(address, h.view.A.Revision, string(hold)); h.forms == nil || h.key != key {
		h.key, h.forms = key, make(map[page.Form][]byte)
	}
	if body := h.forms[form]; body != nil {
		return body, nil
	}
	accept := "/guard/accept?digest=" + held.Table.Digest().String()
	view := *h.view
	view.Notes = notes(held.State, fmt.Sprintf("curl -X POST 'http://%s%s&by=NAME&why=REASON'", address, accept))
	body, err := page.Render(form, &view)
	if err == nil && form == page.JSON {
		body, err = withHold(hold, accept, body)
	}
	if err != nil {
		return nil, fmt.Errorf("print the comparison: %w", err)
	}
	h.forms[form] = body
	return body, nil
}

// Difference gives the comparison of what is held now, without notes; nil if nothing is held. It is only to be read. It waits for its
// turn as requests do; the error is that of ctx, or says why the tables could not be compared.
func (h *Handler) Difference(ctx context.Context) (*shadowdiff.View, error) {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.turn }()
	held, ok := h.gate.Held()
	if !ok {
		return nil, nil
	}
	if err := h.compare(ctx, held); err != nil {
		return nil, err
	}
	view := *h.view
	return &view, nil
}

// withHold puts the comparison beside the hold that it is about.
func withHold(hold []byte, accept string, difference []byte) ([]byte, error) {
	body, err := json.MarshalIndent(struct {
		Hold       json.RawMessage `json:"hold"`
		Accept     string          `json:"accept"`
		Difference json.RawMessage `json:"difference"`
	}{hold, accept, difference}, "", "  ")
	return append(body, '\n'), err
}

// compare makes the view of a pair of tables, unless it is the last one.
func (h *Handler) compare(ctx context.Context, held Held) error {
	pair := [2]table.Digest{{}, held.Table.Digest()}
	if held.Served != nil {
		pair[0] = held.Served.Digest()
	}
	if h.view != nil && h.pair == pair {
		h.view.A.Revision, h.view.B.Revision = revisionOf(held.Served), held.Table.Revision()
		return nil
	}
	h.view, h.forms = nil, nil
	report, err := compare(ctx, held.Served, held.Table)
	if err != nil {
		return err
	}
	served := "nothing"
	if held.Served != nil {
		served = pair[0].String()
	}
	h.pair = pair
	h.view = &shadowdiff.View{
		Title:  "Held table",
		A:      shadowdiff.Side{Label: "served", Name: served, Revision: revisionOf(held.Served)},
		B:      shadowdiff.Side{Label: "held", Name: pair[1].String(), Revision: held.Table.Revision()},
		Report: report,
	}
	return nil
}

func revisionOf(t *table.Table) uint64 {
	if t == nil {
		return 0
	}
	return t.Revision()
}

// notes say what a status says about the hold, in words.
func notes(s guard.State, command string) []shadowdiff.Note {
	all := []shadowdiff.Note{{Name: "reason", Text: string(s.Verdict.Reason)}, {Name: "detail", Text: s.Verdict.Detail}}
	if s.Half != "" {
		all = append(all, shadowdiff.Note{Name: "half", Text: string(s.Half)})
	}
	all = append(all, shadowdiff.Note{Name: "digest", Text: s.Digest.String()})
	if !s.FirstDigest.IsZero() && s.FirstDigest != s.Digest {
		all = append(all, shadowdiff.Note{Name: "first digest", Text: s.FirstDigest.String()})
	}
	release := "never by time, only if somebody accepts it"
	if at := s.Verdict.ReleaseAt; !at.IsZero() {
		release = at.UTC().Format(time.RFC3339) + " at the earliest"
	}
	return append(all,
		shadowdiff.Note{Name: "since", Text: s.Verdict.Since.UTC().Format(time.RFC3339)},
		shadowdiff.Note{Name: "release", Text: release},
		shadowdiff.Note{Name: "accept", Text: command},
	)
}
