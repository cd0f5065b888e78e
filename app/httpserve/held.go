package httpserve

import (
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

// HeldPage returns the handler for GET /guard/held: the difference between the served and the held table, with the reason and the
// command that accepts the table in the pod, as text or as JSON ([api.HeldTable]); 404 while no table is held. It needs no
// authentication: the routes of a held table are as public as the served ones. held is called concurrently. accept is the command
// without its arguments. One request at a time compares; it ends when its client goes away.
func HeldPage(held func() (Held, bool), accept string) http.Handler {
	turn := make(Turns, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, ok := turn.Wait(r.Context(), 0)
		if !ok {
			return // the client has left
		}
		defer done()
		h, ok := held()
		if !ok {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "no table is held: see GET /status", http.StatusNotFound)
			return
		}
		report, err := shadowdiff.Tables(r.Context(), h.Served, h.Table, maxCompared)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		served := shadowdiff.Side{Label: "served", Name: "nothing"}
		if h.Served != nil {
			served.Name, served.Revision = h.Served.Digest().String(), h.Served.Revision()
		}
		command := accept + " " + h.State.Digest.String() + " --why REASON"
		WriteComparison(w, r, &shadowdiff.Comparison{
			A: served, B: shadowdiff.Side{Label: "held", Name: h.Table.Digest().String(), Revision: h.Table.Revision()},
			Report: report, Owner: h.Owner, Notes: notes(h, "in the pod, with kubectl exec: "+command),
		}, func(difference json.RawMessage) any {
			return api.HeldTable{Hold: &h.State, Accept: command, Difference: difference}
		})
	})
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
