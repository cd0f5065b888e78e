package shadowdiff

import (
	"io"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// Schema names the JSON form. Within one version, fields are only added.
const Schema = "routesrv.shadowdiff/v1"

// The JSON form. Names of kinds, elements, ops and states come from their String methods; texts of routes are expressions of the
// route language without the id; times are RFC 3339 in UTC.
type (
	jsonView struct {
		Schema      string           `json:"schema"`
		Title       string           `json:"title,omitempty"`
		Notes       []Note           `json:"notes,omitempty"`
		Result      string           `json:"result"` // same, different or error
		Error       string           `json:"error,omitempty"`
		Time        time.Time        `json:"time,omitzero"`
		A           jsonSide         `json:"a"`
		B           jsonSide         `json:"b"`
		Counts      Counts           `json:"counts"`
		Unlisted    int              `json:"unlisted,omitempty"` // differences that are counted but not listed
		Watch       *jsonWatch       `json:"watch,omitempty"`
		Differences []jsonDifference `json:"differences"` // by id
	}
	jsonSide struct {
		Label    string `json:"label,omitempty"`
		Name     string `json:"name"`
		Routes   int    `json:"routes"`
		Revision uint64 `json:"revision,omitempty"`
	}
	jsonWatch struct {
		Comparisons  uint64  `json:"comparisons"`
		Confirmed    Kinds   `json:"confirmed"`
		Pending      Kinds   `json:"pending"`
		Untracked    int     `json:"untracked,omitempty"` // differences that are counted but not listed
		CleanSeconds float64 `json:"clean_seconds"`
	}
	jsonDifference struct {
		Kind      Kind      `json:"kind"`
		ID        string    `json:"id"` // in A; in B for extra routes
		NewID     string    `json:"new_id,omitempty"`
		Owner     Owner     `json:"owner"`
		State     string    `json:"state,omitempty"`
		FirstSeen time.Time `json:"first_seen,omitzero"`
		Count     int       `json:"count,omitempty"`
		Parts     []Part    `json:"parts,omitempty"`
		A         string    `json:"a,omitempty"`
		B         string    `json:"b,omitempty"`
	}
)

// WriteJSON writes a view as one JSON object, indented, with a line end:
//
//	schema       Schema
//	title, notes of the view, if it has them
//	result       same, different or error
//	error        why there is no newer comparison, if there is none
//	time         of the comparison
//	a, b         label, name, number of routes and revision of the tables
//	counts       missing, extra, changed, renamed, equal and ignored routes
//	unlisted     how many of the differences are counted and not listed, if any
//	watch        comparisons, confirmed and pending differences by kind, and clean_seconds; in continuous mode only
//	differences  a list sorted by id: kind, id, new_id, owner, parts, the expressions a and b, and in continuous mode
//	             state (confirmed or pending), first_seen and count
//
// A part has element, op, old, new, and for filters old_position and new_position, which count from 1. What is empty or
// unknown is left out, the list of differences is always there.
func WriteJSON(w io.Writer, v *View) error {
	out := jsonView{
		Schema: Schema, Title: v.Title, Notes: v.Notes, Result: v.Result(), Error: v.Err, Time: v.At.UTC(), Counts: v.Report.Counts(),
		Unlisted:    v.Report.Beyond.Differences(),
		A:           jsonSide{v.A.Label, v.A.Name, v.Report.A, v.A.Revision},
		B:           jsonSide{v.B.Label, v.B.Name, v.Report.B, v.B.Revision},
		Differences: []jsonDifference{},
	}
	if o := v.Watch; o != nil {
		out.Watch = &jsonWatch{o.Comparisons, o.Confirmed, o.Pending, o.Beyond, o.Clean.Seconds()}
	}
	for _, e := range v.entries() {
		out.Differences = append(out.Differences, newJSONDifference(e, v.Owner))
	}
	return WriteJSONValue(w, out, "  ")
}

// WriteEntryJSON writes one difference on one line, in the form of the list in [WriteJSON], preceded by the event and its time.
func WriteEntryJSON(w io.Writer, e Tracked, owner OwnerFunc, event string, at time.Time) error {
	return WriteJSONValue(w, struct {
		Event string    `json:"event"`
		Time  time.Time `json:"time"`
		jsonDifference
	}{event, at.UTC(), newJSONDifference(e, owner)}, "")
}

func newJSONDifference(e Tracked, owner OwnerFunc) jsonDifference {
	return jsonDifference{
		Kind: e.Kind, ID: e.ID, NewID: e.NewID, Owner: owner.Of(e.ID), State: e.State(), FirstSeen: e.FirstSeen.UTC(),
		Count: e.Count, Parts: e.Parts, A: expression(e.A), B: expression(e.B),
	}
}

func expression(r *eskip.Route) string {
	if r == nil {
		return ""
	}
	return r.String()
}

// Result returns the meaning of a comparison's exit status: same, different or error.
func (v *View) Result() string {
	switch {
	case v.Err != "":
		return "error"
	case v.Report.Empty():
		return "same"
	default:
		return "different"
	}
}
