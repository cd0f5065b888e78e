// Package page shows a comparison of two tables to a person with a browser.
//
// [Write] writes one self-contained file: it loads no script, style, font or picture, and its content security policy forbids
// that. [Handler] serves it, and the text and JSON forms of package shadowdiff, depending on the Accept header. Without scripts,
// only filtering is missing. The content is untrusted: it is escaped as HTML, and invisible characters are made visible.
//
// A page shows the first 1,000 differences and the number of the others; the JSON form has all of them. The text after "#q=" in
// the address fills the filter box, so a link can show a team its routes.
//
// Other modules should not import it: it may change with every release.
package page

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
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

// compiled is the template of a view. Every text that may come from an object is passed through safe.
var compiled = template.Must(template.New("page").Funcs(template.FuncMap{
	"safe":    shadowdiff.Printable,
	"lower":   strings.ToLower,
	"grouped": shadowdiff.Grouped,
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"rounded": func(d time.Duration) string { return d.Round(time.Second).String() },
	"lasting": func(now, first time.Time) string { return max(now.Sub(first), 0).Round(time.Second).String() },
	"sign":    func(k shadowdiff.Change) string { return signs[k] },
	"chips":   chips,
	"rows":    newRows,
	"shown":   func(rows []row) []row { return rows[:min(len(rows), maxRows)] },
	"hidden":  func(rows []row) int { return max(len(rows)-maxRows, 0) },
}).Parse(htmlText))

// policy allows only the page's own content, by hash.
var policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'",
	hashOf(cssText), hashOf(jsText))

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Write writes the view as a self-contained page.
func Write(w io.Writer, v *shadowdiff.Comparison) error { return write(w, v, false) }

// write adds links to the other forms if the page is served.
func write(w io.Writer, v *shadowdiff.Comparison, served bool) error {
	b := bufio.NewWriter(w)
	if err := compiled.Execute(b, newDocument(v, served)); err != nil {
		return err
	}
	return b.Flush()
}

// document is the data of the template: the view, and the part of it that the page shows.
type document struct {
	*shadowdiff.Comparison
	Policy         string
	CSS            template.CSS
	JS             template.JS
	Served         bool
	Heading        string
	LabelA, LabelB string
	Cards          []card
	Owners         []shadowdiff.Group
	Shown          int
	Hidden         int // differences that are not on the page
}

type card struct {
	Name, Sign string
	Number     int
	Meaning    string
}

var signs = map[shadowdiff.Change]string{
	shadowdiff.Missing: "−", shadowdiff.Extra: "+", shadowdiff.Changed: "~", shadowdiff.Renamed: ">",
}

func newDocument(v *shadowdiff.Comparison, served bool) *document {
	c := v.Report.Counts()
	a, b := v.Labels()
	d := &document{
		Comparison: v, Heading: shadowdiff.Printable(cmp.Or(v.Title, "Shadow diff")), LabelA: shadowdiff.Printable(a), LabelB: shadowdiff.Printable(b),
		Policy: policy, CSS: template.CSS(cssText), JS: template.JS(jsText), Served: served, //nolint:gosec // our own files
		Cards: []card{
			{"missing", "−", c.Missing, "only in " + a},
			{"extra", "+", c.Extra, "only in " + b},
			{"changed", "~", c.Changed, "not the same in both"},
			{"renamed", ">", c.Renamed, "the same under another id"},
			{"equal", "=", c.Equal, "the same in both"},
		},
		Hidden: v.Beyond(),
	}
	if c.Ignored > 0 {
		d.Cards = append(d.Cards, card{"ignored", "·", c.Ignored, "left out on request"})
	}
	for _, g := range v.Groups() {
		n := min(len(g.Entries), maxEntries-d.Shown)
		d.Shown += n
		d.Hidden += len(g.Entries) - n
		if g.Entries = g.Entries[:n]; n > 0 {
			d.Owners = append(d.Owners, g)
		}
	}
	return d
}

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
		text := string(e)
		if n := count[e]; n > 1 {
			text = shadowdiff.Plural(n, text)
		}
		out = append(out, text)
	}
	return out
}

// row is a part of a route on both sides.
type row struct {
	Label string
	Op    string // class of the row
	A, B  cell
	Fold  string // text instead of the cells, for parts that are not shown
}

// cell is the text of one side. Mark is the part that differs.
type cell struct {
	Before, Mark, After string
	Absent              bool
}

// newRows returns the parts of a difference side by side. Identical endpoints are only counted, because a route may have
// hundreds.
func newRows(e shadowdiff.Tracked) []row {
	if e.A == nil && e.B == nil {
		return nil
	}
	counts := e.Parts // remaining parts; a difference that is not among them is ignored
	var rows []row
	var same []shadowdiff.Part
	flush := func() {
		if len(same) >= foldFrom {
			rows = append(rows, row{Label: "endpoint", Op: "same", Fold: fmt.Sprintf("%d endpoints are the same", len(same))})
		} else {
			for _, p := range same {
				rows = append(rows, newRow(p))
			}
		}
		same = nil
	}
	for _, p := range e.Aligned() {
		if p.Op == shadowdiff.Same && p.Element == shadowdiff.Endpoint {
			same = append(same, p)
			continue
		}
		flush()
		r := newRow(p)
		if e.Kind == shadowdiff.Changed && p.Op != shadowdiff.Same {
			if len(counts) > 0 && counts[0] == p {
				counts = counts[1:]
			} else {
				r.Op = "ignored"
			}
		}
		rows = append(rows, r)
	}
	flush()
	return rows
}

func newRow(p shadowdiff.Part) row {
	r := row{Label: p.Label(), Op: string(p.Op)}
	old, new := shadowdiff.Printable(p.Old), shadowdiff.Printable(p.New)
	switch {
	case p.Op == shadowdiff.Removed:
		r.A, r.B = cell{Mark: old}, cell{Absent: true}
	case p.Op == shadowdiff.Added:
		r.A, r.B = cell{Absent: true}, cell{Mark: new}
	case p.Old == p.New:
		r.A, r.B = cell{Before: old}, cell{Before: new}
	default:
		before, oldMark, newMark, after := shadowdiff.Mark(old, new)
		r.A, r.B = cell{before, oldMark, after, false}, cell{before, newMark, after, false}
	}
	return r
}

// Form is a form in which a comparison is served.
type Form int

// The forms. The first one is for clients that accept anything, such as curl in the shell of a pod.
const (
	Text Form = iota
	HTML
	JSON
)

// forms has the value of ?format= and the media type of each form.
var forms = [...]struct{ name, mediaType string }{
	Text: {"text", "text/plain"}, HTML: {"html", "text/html"}, JSON: {"json", "application/json"},
}

// Handler serves the result of view as text, page or JSON: in the form of the query parameter "format" (text, html, json), or the
// first of these forms in the Accept header, or as text. view is called once for each request, concurrently; its routes must not
// change afterwards.
func Handler(view func() shadowdiff.Comparison) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, ok := Negotiate(w, r)
		if !ok {
			return
		}
		v := view()
		body, err := Render(form, &v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		Send(w, form, body)
	})
}

// Negotiate returns the requested form, by the rules of [Handler]. If it returns false, it has refused the request because of an
// unknown form.
func Negotiate(w http.ResponseWriter, r *http.Request) (f Form, ok bool) {
	h := w.Header()
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	if f, ok = choose(r); !ok {
		http.Error(w, "format must be text, html or json", http.StatusBadRequest)
	}
	return f, ok
}

// Render renders a view in a form. A page has links to the other forms.
func Render(f Form, v *shadowdiff.Comparison) ([]byte, error) {
	var body bytes.Buffer
	var err error
	switch f {
	case HTML:
		err = write(&body, v, true)
	case JSON:
		err = shadowdiff.WriteJSON(&body, v)
	default:
		err = shadowdiff.WriteText(&body, v, false)
	}
	return body.Bytes(), err
}

// Send answers with a form rendered by [Render].
func Send(w http.ResponseWriter, f Form, body []byte) {
	h := w.Header()
	h.Set("Content-Type", forms[f].mediaType+"; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body) // ignore clients that have disconnected
}

// choose returns the requested form: by name, or the first accepted one.
func choose(r *http.Request) (f Form, ok bool) {
	name := r.URL.Query().Get("format")
	for f, form := range forms {
		if form.name == name {
			return Form(f), true
		}
	}
	for accepted := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, _, _ := strings.Cut(accepted, ";")
		for f, form := range forms {
			if strings.EqualFold(strings.TrimSpace(mediaType), form.mediaType) && name == "" {
				return Form(f), true
			}
		}
	}
	return Text, name == ""
}
