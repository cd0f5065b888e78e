package httpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// maxCompared is how many differing routes are parsed and listed.
const maxCompared = 5000

// Held is a table that is held back, together with the served one.
type Held struct {
	// Served is nil if no table is served yet. Table is never nil.
	Served, Table *table.Table
	State         api.Guard            // if objects are kept, Table is the newest one
	Owner         shadowdiff.OwnerFunc // finds the objects of routes; nil where only tables are known
}

// notHeld is the answer while no table is held.
const notHeld = "no table is held: see GET /status\n"

// HeldPage shows operators the table that a guard holds back, with its differences from the served one. It changes nothing and
// needs no authentication: the routes of a held table are as public as the served ones.
//
// The two tables are compared by their blocks, and only routes that differ are parsed: the first 5,000 of them, by id. The others
// are counted. One request at a time compares. A request that waits for its turn or runs a comparison ends when its client goes
// away. It is safe for concurrent use.
type HeldPage struct {
	held    func() (Held, bool)
	command string
	turn    Turns // of one
}

// NewHeldPage returns the handler for GET /guard/held: the difference between the served and the held table by owner, with the
// reason, what the hold keeps, and the command that accepts the table in the pod, as text or JSON. The JSON form has the hold as in /status (hold), that command (accept) and the comparison (difference).
// While no table is held, the answer is 404. held returns the held table, or false if there is none; it must be safe for
// concurrent use. The parameter accept is the command without its arguments, such as "routesrv accept".
func NewHeldPage(held func() (Held, bool), accept string) *HeldPage {
	return &HeldPage{held: held, command: accept, turn: NewTurns(1)}
}

// ServeHTTP implements [http.Handler].
func (h *HeldPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	held, view, err := h.compare(r.Context())
	switch {
	case r.Context().Err() != nil: // the client has left
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case view == nil:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(notHeld))
	default:
		accept := h.command + " " + held.State.Digest.String() + " --why REASON"
		view.Notes = notes(held, "in the pod, with kubectl exec: "+accept)
		WriteComparison(w, r, view, func(difference json.RawMessage) any {
			return api.HeldTable{Hold: &held.State, Accept: accept, Difference: difference}
		})
	}
}

// compare waits for its turn and compares the held table with the served one. The view is nil if no table is held.
func (h *HeldPage) compare(ctx context.Context) (Held, *shadowdiff.Comparison, error) {
	done, ok := h.turn.Wait(ctx, 0)
	if !ok {
		return Held{}, nil, ctx.Err()
	}
	defer done()
	held, ok := h.held()
	if !ok {
		return Held{}, nil, nil
	}
	report, err := shadowdiff.Tables(ctx, held.Served, held.Table, maxCompared)
	if err != nil {
		return Held{}, nil, err
	}
	served := shadowdiff.Side{Label: "served", Name: "nothing"}
	if held.Served != nil {
		served.Name, served.Revision = held.Served.Digest().String(), held.Served.Revision()
	}
	return held, &shadowdiff.Comparison{
		A: served, B: shadowdiff.Side{Label: "held", Name: held.Table.Digest().String(), Revision: held.Table.Revision()},
		Report: report, Owner: held.Owner,
	}, nil
}

// maxNoted is how many kept objects the notes name.
const maxNoted = 20

func notes(held Held, command string) []shadowdiff.Note {
	s := held.State
	all := []shadowdiff.Note{{Name: "reason", Text: string(s.Reason)}, {Name: "detail", Text: s.Detail}}
	for _, k := range s.Kept[:min(len(s.Kept), maxNoted)] {
		all = append(all, shadowdiff.Note{Name: "kept", Text: fmt.Sprintf("%s: served %s, %s waits", k.Ref, k.Served, k.Waits)})
	}
	if more := s.KeptCount - maxNoted; more > 0 {
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
