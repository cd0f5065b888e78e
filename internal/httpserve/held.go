package httpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/shadowdiff/page"
	"github.com/routesrv/routesrv/table"
)

// maxCompared is how many differing routes are parsed and listed.
const maxCompared = 5000

// Holder decides about tables. It must be safe for concurrent use.
type Holder interface {
	// Held returns the held table, or false if no table is held.
	Held() (Held, bool)
}

// Held is a table that is held back, together with the served one.
type Held struct {
	// Served is nil if no table is served yet. Table is never nil.
	Served, Table *table.Table
	State         publish.State
	Kept          []*publish.Kept      // objects; then Table is the newest one
	Owner         shadowdiff.OwnerFunc // finds the objects of routes; nil where only tables are known
}

// notHeld is the answer while no table is held.
const notHeld = "no table is held: what was read last is served, or nothing was read yet (GET /status)\n"

// NewHeldPage returns the handler for GET /guard/held: the difference between the served and the held table by owner, with the
// reason, what the hold keeps, and the command that accepts the table in the pod. The form is text, a page or JSON, as [page.Handler]
// chooses. The JSON form has the hold as in /status (hold), that command (accept) and the comparison (difference). While no table is
// held, the answer is 404. The parameter accept is the command without its arguments, such as "routesrv accept".
func NewHeldPage(g Holder, accept string) *HeldPage {
	return &HeldPage{holder: g, command: accept, turn: make(chan struct{}, 1)}
}

// HeldPage shows operators the table that a guard holds back, with its differences from the served one. It decides nothing, and does not check who asks: the
// routes of a held table are no more secret than the served ones.
//
// The two tables are compared by their blocks, and only routes that differ are parsed: the first 5,000 of them, by id. The others
// are counted. Each pair of tables is compared once, and each form is rendered once for each state of the hold, one at a time. A
// request that waits for its turn or runs a comparison ends when its client goes away. It is safe for concurrent use.
type HeldPage struct {
	holder  Holder
	command string
	turn    chan struct{} // of capacity 1: full while a request compares or renders

	// guarded by turn
	pair  [2]table.Digest // the tables that view compares
	view  *shadowdiff.View
	key   string // the state of the hold that the forms were rendered for
	forms map[page.Form][]byte
}

// ServeHTTP implements [http.Handler].
func (h *HeldPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	form, ok := page.Negotiate(w, r)
	if !ok {
		return
	}
	body, err := h.body(r, form)
	switch {
	case r.Context().Err() != nil: // the client is gone
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

// wait waits for the turn of a request. The returned function ends it.
func (h *HeldPage) wait(ctx context.Context) (end func(), err error) {
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// body waits for its turn and renders the held table in a form. It returns nil if no table is held.
func (h *HeldPage) body(r *http.Request, form page.Form) ([]byte, error) {
	ctx := r.Context()
	end, err := h.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	held, ok := h.holder.Held()
	if !ok {
		h.pair, h.view, h.key, h.forms = [2]table.Digest{}, nil, "", nil // free the memory of a released table
		return nil, nil
	}
	hold := held.State.Report(held.Kept)
	if err := h.compare(ctx, held); err != nil {
		return nil, err
	}
	if key := fmt.Sprintf("%d %+v", h.view.A.Revision, hold); h.forms == nil || h.key != key {
		h.key, h.forms = key, make(map[page.Form][]byte)
	}
	if body := h.forms[form]; body != nil {
		return body, nil
	}
	accept := h.command + " " + held.State.Digest.String() + " --why REASON"
	view := *h.view
	view.Notes = notes(held, "in the pod, with kubectl exec: "+accept)
	body, err := page.Render(form, &view)
	if err == nil && form == page.JSON {
		body, err = json.MarshalIndent(api.HeldTable{Hold: &hold, Accept: accept, Difference: body}, "", "  ")
		body = append(body, '\n')
	}
	if err != nil {
		return nil, fmt.Errorf("print the comparison: %w", err)
	}
	h.forms[form] = body
	return body, nil
}

// Difference returns the comparison for the table held now, without notes, or nil if no table is held. The caller must not change
// it. It waits for its turn as requests do. The error comes from ctx, or says why the tables could not be compared.
func (h *HeldPage) Difference(ctx context.Context) (*shadowdiff.View, error) {
	end, err := h.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	held, ok := h.holder.Held()
	if !ok {
		return nil, nil
	}
	if err := h.compare(ctx, held); err != nil {
		return nil, err
	}
	view := *h.view
	return &view, nil
}

// compare compares a pair of tables, unless it is the pair compared last.
func (h *HeldPage) compare(ctx context.Context, held Held) error {
	pair := [2]table.Digest{{}, held.Table.Digest()}
	if held.Served != nil {
		pair[0] = held.Served.Digest()
	}
	if h.view != nil && h.pair == pair {
		h.view.A.Revision, h.view.B.Revision = revisionOf(held.Served), held.Table.Revision()
		return nil
	}
	h.view, h.forms = nil, nil
	report, err := shadowdiff.Tables(ctx, held.Served, held.Table, maxCompared)
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
		Report: report, Owner: held.Owner,
	}
	return nil
}

func revisionOf(t *table.Table) uint64 {
	if t == nil {
		return 0
	}
	return t.Revision()
}

// maxNoted is how many kept objects the notes name.
const maxNoted = 20

// notes describes the hold in words.
func notes(held Held, command string) []shadowdiff.Note {
	s := held.State
	all := []shadowdiff.Note{{Name: "reason", Text: string(s.Reason)}, {Name: "detail", Text: s.Detail}}
	for _, k := range held.Kept[:min(len(held.Kept), maxNoted)] {
		all = append(all, shadowdiff.Note{Name: "kept", Text: fmt.Sprintf("%s: served %s, %s waits", k.Ref, k.Served(), k.Waits())})
	}
	if more := len(held.Kept) - maxNoted; more > 0 {
		all = append(all, shadowdiff.Note{Name: "kept", Text: fmt.Sprintf("%d more: GET /status", more)})
	}
	all = append(all, shadowdiff.Note{Name: "digest", Text: s.Digest.String()})
	release := "never by time, only by acceptance"
	if at := s.ReleaseAt; !at.IsZero() {
		release = at.UTC().Format(time.RFC3339) + " at the earliest"
	}
	return append(all,
		shadowdiff.Note{Name: "since", Text: s.Since.UTC().Format(time.RFC3339)},
		shadowdiff.Note{Name: "release", Text: release},
		shadowdiff.Note{Name: "accept", Text: command},
	)
}
