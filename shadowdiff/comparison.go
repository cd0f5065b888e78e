package shadowdiff

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
)

// Comparison is a comparison for presentation: the report and its context.
type Comparison struct {
	// Notes are additional facts, in display order.
	Notes  []Note
	A, B   Side
	Report Report
	// Unread is how many parts of the tables were not compared, because they are not routes. Notes name them.
	Unread int
	// At is the time of the comparison; zero is not shown.
	At time.Time
	// Owner returns the owners of routes; nil means [OwnerOf].
	Owner OwnerFunc
	// Watch is the state of a continuous comparison; nil for a single one. If set, only what it tracks is shown in detail.
	Watch *Observation
	// Err is why the latest comparison failed, whether or not an earlier one succeeded; empty without an error.
	Err string
}

// Note is a fact about a comparison. Both texts are made printable when shown.
type Note struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Side is one of the two tables.
type Side struct {
	// Label is the short name of the side; empty means "A" or "B".
	Label    string
	Name     string // a URL, a path, or a description
	Revision uint64 // 0 if it has none
}

// State returns "confirmed", "pending", or "" without a continuous comparison.
func (e Tracked) State() string {
	switch {
	case e.Count == 0:
		return ""
	case e.Confirmed:
		return "confirmed"
	default:
		return "pending"
	}
}

// Group are the differences of one owner, sorted by id.
type Group struct {
	Owner   Owner
	Entries []Tracked
}

// Labels returns the short names of the two sides.
func (v *Comparison) Labels() (a, b string) {
	return cmp.Or(v.A.Label, "A"), cmp.Or(v.B.Label, "B")
}

// Beyond returns the number of differences that are counted but not listed.
func (v *Comparison) Beyond() int {
	n := v.Report.Beyond.Differences()
	if v.Watch != nil {
		n += v.Watch.Beyond
	}
	return n
}

func (v *Comparison) entries() []Tracked {
	if v.Watch != nil {
		return v.Watch.Differences
	}
	var all []Tracked
	for _, d := range v.Report.Differences {
		all = append(all, Tracked{Difference: d})
	}
	return all
}

// Groups returns the differences by owner: objects by namespace and name, then routes without an owner.
func (v *Comparison) Groups() []Group {
	byOwner := make(map[Owner][]Tracked)
	for _, e := range v.entries() {
		owner := v.Owner.Of(e.ID)
		byOwner[owner] = append(byOwner[owner], e)
	}
	var groups []Group
	for owner, entries := range byOwner {
		groups = append(groups, Group{owner, entries})
	}
	slices.SortFunc(groups, func(x, y Group) int { return x.Owner.compare(y.Owner) })
	return groups
}

// Summary returns the comparison in one line that begins with the result.
func (v *Comparison) Summary() string {
	r := &v.Report
	c := r.Counts()
	n, s := c.Differences(), ""
	switch {
	case v.Err != "" && r.A+r.B == 0:
		s = "nothing was compared"
	case n == 0 && v.Unread == 0:
		s = fmt.Sprintf("same: %s", Plural(c.Equal, "route"))
	case n == 0:
		s = fmt.Sprintf("different: %s not compared, %s the same", Plural(v.Unread, "unreadable route"), Plural(c.Equal, "route"))
	default:
		s = fmt.Sprintf("different: %d of %s: %d missing, %d extra, %d changed",
			n, Plural(c.Equal+n, "route"), c.Missing, c.Extra, c.Changed)
		if v.Unread > 0 {
			s += fmt.Sprintf("; %s not compared", Plural(v.Unread, "unreadable route"))
		}
	}
	if c.Ignored > 0 {
		s += fmt.Sprintf(" (%s ignored)", Plural(c.Ignored, "difference"))
	}
	if v.Watch != nil {
		s += fmt.Sprintf("; %d confirmed, %d pending", v.Watch.Confirmed.Differences(), v.Watch.Pending.Differences())
	}
	return s
}

func (s Side) describe(routes int) string {
	text := s.Name + ", " + Plural(routes, "route")
	if s.Revision > 0 {
		text += ", revision " + strconv.FormatUint(s.Revision, 10)
	}
	return text
}

// Plural returns a number with its noun: "1 route", "2 routes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Grouped formats a number in groups of three digits, separated by narrow no-break spaces.
func Grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// Label names the part for a reader: "filter 2", or "filter 2 → 5" if its position differs in B.
func (p Part) Label() string {
	s := string(p.Element)
	if p.Element != Filter {
		return s
	}
	old, new := strconv.Itoa(p.OldPosition), strconv.Itoa(p.NewPosition)
	switch {
	case p.NewPosition == 0 || p.OldPosition == p.NewPosition:
		return s + " " + old
	case p.OldPosition == 0:
		return s + " " + new
	default:
		return s + " " + old + " → " + new
	}
}

// Ignore selects differences that do not count. The zero value ignores nothing.
type Ignore struct {
	// Endpoints ignores endpoints that were added, removed or moved to another zone.
	Endpoints bool
	// IDs ignores routes whose id matches one of the expressions, anywhere in the id.
	IDs []*regexp.Regexp
}

// ParseIgnore parses "endpoints" and "id=REGEX", separated by commas. A comma ends an expression only if one of them follows.
func ParseIgnore(s string) (Ignore, error) {
	var out Ignore
	var exprs []string
	inExpr := false
	for item := range strings.SplitSeq(s, ",") {
		expr, isID := strings.CutPrefix(item, "id=")
		switch {
		case s == "":
		case item == "endpoints":
			out.Endpoints, inExpr = true, false
		case isID:
			exprs, inExpr = append(exprs, expr), true
		case inExpr:
			exprs[len(exprs)-1] += "," + item
		default:
			return Ignore{}, fmt.Errorf("%q: must be endpoints or id=REGEX", item)
		}
	}
	for _, expr := range exprs {
		if expr == "" {
			return Ignore{}, errors.New("id=: the expression is empty and would match every route")
		}
		rx, err := regexp.Compile(expr)
		if err != nil {
			return Ignore{}, fmt.Errorf("%q: %w", "id="+expr, err)
		}
		out.IDs = append(out.IDs, rx)
	}
	return out, nil
}

func (i Ignore) id(id string) bool {
	return slices.ContainsFunc(i.IDs, func(rx *regexp.Regexp) bool { return rx.MatchString(id) })
}

func (i Ignore) part(p Part) bool {
	return i.Endpoints && (p.Element == Endpoint || p.Element == Zone)
}

// Without returns the report without ignored differences, which it counts. A change keeps the parts that are not ignored.
func (r Report) Without(i Ignore) Report {
	var kept []Difference
	for _, d := range r.Differences {
		if i.id(d.ID) {
			continue
		}
		if d.Kind == Changed {
			d.Parts = slices.DeleteFunc(slices.Clone(d.Parts), i.part)
		}
		if d.Kind != Changed || len(d.Parts) > 0 {
			kept = append(kept, d)
		}
	}
	r.Ignored += len(r.Differences) - len(kept)
	r.Differences = kept
	return r
}

// Schema names the JSON form. Within one version, fields are only added.
const Schema = "routesrv.shadowdiff/v1"

// The JSON form. Texts of routes are expressions of the route language without the id; times are RFC 3339 in UTC.
type (
	jsonComparison struct {
		Schema      string           `json:"schema"`
		Notes       []Note           `json:"notes,omitempty"`
		Result      string           `json:"result"` // same, different or error
		Error       string           `json:"error,omitempty"`
		Time        time.Time        `json:"time,omitzero"`
		A           jsonSide         `json:"a"`
		B           jsonSide         `json:"b"`
		Counts      Counts           `json:"counts"`
		Unlisted    int              `json:"unlisted,omitempty"` // differences that are counted but not listed
		Watch       *jsonWatch       `json:"watch,omitempty"`    // in continuous mode
		Differences []jsonDifference `json:"differences"`        // by id
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
		Kind      Change    `json:"kind"`
		ID        string    `json:"id"` // in A; in B for extra routes
		Owner     Owner     `json:"owner"`
		State     string    `json:"state,omitempty"` // this and the next two in continuous mode
		FirstSeen time.Time `json:"first_seen,omitzero"`
		Count     int       `json:"count,omitempty"`
		Parts     []Part    `json:"parts,omitempty"`
		A         string    `json:"a,omitempty"`
		B         string    `json:"b,omitempty"`
	}
)

// WriteJSON writes a view as one JSON object, indented, with a line end.
func WriteJSON(w io.Writer, v *Comparison) error {
	out := jsonComparison{
		Schema: Schema, Notes: v.Notes, Result: v.Result(), Error: v.Err, Time: v.At.UTC(), Counts: v.Report.Counts(),
		Unlisted:    v.Report.Beyond.Differences(),
		A:           jsonSide{v.A.Label, v.A.Name, v.Report.A, v.A.Revision},
		B:           jsonSide{v.B.Label, v.B.Name, v.Report.B, v.B.Revision},
		Differences: []jsonDifference{},
	}
	if o := v.Watch; o != nil {
		out.Watch = &jsonWatch{o.Comparisons, o.Confirmed, o.Pending, o.Beyond, o.Clean.Seconds()}
	}
	for _, e := range v.entries() {
		out.Differences = append(out.Differences, jsonDifference{
			Kind: e.Kind, ID: e.ID, Owner: v.Owner.Of(e.ID), State: e.State(), FirstSeen: e.FirstSeen.UTC(),
			Count: e.Count, Parts: e.Parts, A: expression(e.A), B: expression(e.B),
		})
	}
	return WriteJSONValue(w, out)
}

func expression(r *eskip.Route) string {
	if r == nil {
		return ""
	}
	return r.String()
}

const same = "same"

// Result returns the meaning of a comparison's exit status: same, different or error.
func (v *Comparison) Result() string {
	switch {
	case v.Err != "":
		return "error"
	case v.Report.Empty() && v.Unread == 0:
		return same
	default:
		return "different"
	}
}
