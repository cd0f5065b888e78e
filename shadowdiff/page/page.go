// Package page shows a comparison of two tables to a person with a browser.
//
// [Write] writes one self-contained file: it loads no script, style, font or picture, and its content security policy forbids
// that. [Handler] serves it, and the text and JSON forms of package shadowdiff, depending on what a client accepts. Without
// scripts everything is readable, and only filtering is missing. The content comes from anyone who may write objects: it is
// escaped as HTML, and invisible characters are made visible.
//
// A page shows the first 1,000 differences and says how many more there are; the JSON form has all of them. The text after "#q="
// in the address goes into the filter box, so that a link can show a team its routes.
package page

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/shadowdiff"
)

// Limits of a page, so that a browser can show it even if the tables have nothing in common.
const (
	maxEntries = 1000
	maxRows    = 200 // of one route
	foldFrom   = 3   // from this many identical endpoints in a row, they are only counted
)

//go:embed page.html
var htmlText string

//go:embed page.css
var cssText string

//go:embed page.js
var jsText string

var compiled = template.Must(template.New("page").Parse(htmlText))

// policy allows only the page's own content, by hash.
var policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
	hashOf(cssText), hashOf(jsText))

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Write writes the view as a self-contained page.
func Write(w io.Writer, v *shadowdiff.View) error { return write(w, v, false) }

// write adds links to the other forms if the page is served.
func write(w io.Writer, v *shadowdiff.View, served bool) error {
	b := bufio.NewWriter(w)
	if err := compiled.Execute(b, newDocument(v, served)); err != nil {
		return err
	}
	return b.Flush()
}

// document is the data of the template.
type document struct {
	Policy  string
	Title   string
	InTab   string // the title for the browser's tab
	CSS     template.CSS
	JS      template.JS
	Served  bool
	Result  string // same, different or error
	Summary string
	Error   string
	Time    string
	Notes   []shadowdiff.Note
	A, B    side
	Cards   []card
	Watch   *watch
	Groups  []group
	Shown   int
	Hidden  int // differences that are not on the page
}

type side struct {
	Label    string
	Name     string
	Routes   string
	Revision uint64
}

// card is one of the figures at the top.
type card struct {
	Name, Sign string
	Number     int
	Meaning    string
}

type watch struct {
	Confirmed, Pending int
	Clean              string // empty if it is not clean
	Comparisons        uint64
}

type group struct {
	Owner   string
	Entries []entry
}

type entry struct {
	Kind, Sign string
	ID, NewID  string
	State      string
	Since      string // machine-readable time
	For        string
	Count      int
	Chips      []string
	Rows       []row
	AllSame    bool // in a renamed route
	More       int  // rows that are not on the page
}

func newDocument(v *shadowdiff.View, served bool) *document {
	r := &v.Report
	c := r.Counts()
	a, b := v.Labels()
	title := shadowdiff.Printable(cmp.Or(v.Title, "Shadow diff"))
	d := &document{
		Title: title, InTab: strings.ToLower(title),
		Policy: policy, CSS: template.CSS(cssText), JS: template.JS(jsText), Served: served, //nolint:gosec // our own files
		Result: v.Result(), Summary: v.Summary(), Error: shadowdiff.Printable(v.Err), A: newSide(a, v.A, r.A), B: newSide(b, v.B, r.B),
		Cards: []card{
			{"missing", "−", c.Missing, "only in " + a},
			{"extra", "+", c.Extra, "only in " + b},
			{"changed", "~", c.Changed, "not the same in both"},
			{"renamed", ">", c.Renamed, "the same under another id"},
			{"equal", "=", c.Equal, "the same in both"},
		},
	}
	if c.Ignored > 0 {
		d.Cards = append(d.Cards, card{"ignored", "·", c.Ignored, "left out on request"})
	}
	if !v.At.IsZero() {
		d.Time = v.At.UTC().Format(time.RFC3339)
	}
	for _, n := range v.Notes {
		d.Notes = append(d.Notes, shadowdiff.Note{Name: shadowdiff.Printable(n.Name), Text: shadowdiff.Printable(n.Text)})
	}
	d.Hidden = v.Beyond()
	if o := v.Watch; o != nil {
		d.Watch = &watch{Confirmed: o.Confirmed.Differences(), Pending: o.Pending.Differences(), Comparisons: o.Comparisons}
		if o.Clean > 0 {
			d.Watch.Clean = o.Clean.Round(time.Second).String()
		}
	}
	d.addGroups(v)
	return d
}

func newSide(label string, s shadowdiff.Side, routes int) side {
	return side{Label: shadowdiff.Printable(label), Name: shadowdiff.Printable(s.Name), Routes: grouped(routes), Revision: s.Revision}
}

func (d *document) addGroups(v *shadowdiff.View) {
	for _, g := range v.Groups() {
		n := min(len(g.Entries), maxEntries-d.Shown)
		d.Hidden += len(g.Entries) - n
		if n == 0 {
			continue
		}
		d.Shown += n
		out := group{Owner: shadowdiff.Printable(g.Owner.String())}
		for _, e := range g.Entries[:n] {
			out.Entries = append(out.Entries, newEntry(e, v.At))
		}
		d.Groups = append(d.Groups, out)
	}
}

var signs = map[shadowdiff.Kind]string{
	shadowdiff.Missing: "−", shadowdiff.Extra: "+", shadowdiff.Changed: "~", shadowdiff.Renamed: ">",
}

func newEntry(e shadowdiff.Entry, now time.Time) entry {
	out := entry{
		Kind: e.Kind.String(), Sign: signs[e.Kind], ID: shadowdiff.Printable(e.ID), NewID: shadowdiff.Printable(e.NewID),
		State: e.State(), AllSame: e.Kind == shadowdiff.Renamed, Count: e.Count, Chips: chips(e.Parts),
	}
	if e.Count > 0 {
		out.Since = e.FirstSeen.UTC().Format(time.RFC3339)
		out.For = max(now.Sub(e.FirstSeen), 0).Round(time.Second).String()
	}
	rows := newRows(e)
	if len(rows) > maxRows {
		out.More = len(rows) - maxRows
		rows = rows[:maxRows]
	}
	out.Rows = rows
	return out
}

// chips returns the differing elements with their number.
func chips(parts []shadowdiff.Part) []string {
	var order []shadowdiff.Element
	count := make(map[shadowdiff.Element]int)
	for _, p := range parts {
		if count[p.Element]++; count[p.Element] == 1 {
			order = append(order, p.Element)
		}
	}
	out := make([]string, 0, len(order))
	for _, e := range order {
		switch n := count[e]; {
		case n == 1:
			out = append(out, e.String())
		default:
			out = append(out, strconv.Itoa(n)+" "+e.String()+"s")
		}
	}
	return out
}

// grouped formats a number with a space between thousands.
func grouped(n int) string {
	s := strconv.Itoa(n)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteString("\u202f") // a narrow no-break space
		}
		b.WriteRune(c)
	}
	return b.String()
}
