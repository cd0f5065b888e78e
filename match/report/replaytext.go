package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/routesrv/routesrv/shadowdiff"
)

// maxShown limits the differences that are printed for people.
const maxShown = 100

// WriteText prints the report for people, without control characters. It returns the writer's error.
func (r *Replayed) WriteText(w io.Writer) error {
	var b bytes.Buffer
	if n := r.Different(); n == 0 {
		fmt.Fprintf(&b, "same: %s\n", count(r.Requests, "request"))
	} else {
		fmt.Fprintf(&b, "different: %d of %s (%.4g %%), in %s\n", n, count(r.Requests, "request"), 100*float64(n)/float64(r.Requests),
			count(uint64(len(r.Differences)), "way"))
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "skipped: %s, which say no request: %s\n", count(r.Skipped, "line"), r.FirstSkipped)
	}
	for _, d := range r.Differences[:min(len(r.Differences), maxShown)] {
		fmt.Fprintf(&b, "\n%s: %s\n", count(d.Requests, "request"), d.what())
		for _, p := range d.Parts {
			fmt.Fprintf(&b, "    %s\n", p)
		}
		for _, e := range d.Examples {
			fmt.Fprintf(&b, "    such as %s\n", e)
		}
	}
	if n := len(r.Differences) - maxShown; n > 0 {
		fmt.Fprintf(&b, "\nand %d more; -o json lists them\n", n)
	}
	if r.Beyond > 0 {
		fmt.Fprintf(&b, "\n%d requests differ in ways that are not listed\n", r.Beyond)
	}
	_, err := io.WriteString(w, shadowdiff.PrintableLines(b.String()))
	return err
}

// count returns a number with its noun.
func count(n uint64, noun string) string { return shadowdiff.Plural(int(n), noun) }

// what says in words what changes.
func (d *Difference) what() string {
	old, now := strings.Join(d.Old, " or "), strings.Join(d.New, " or ")
	switch d.Kind {
	case Lost:
		return "no route any more, before " + old
	case Gained:
		return "no route before, now " + now
	case Route:
		return "another route: " + old + " -> " + now
	case Undecided:
		return "chance decides otherwise: " + old + " -> " + now
	case Renamed:
		return "another id, the same filters and backend: " + old + " -> " + now
	}
	return fmt.Sprintf("other %s: %s", d.Kind, old)
}

// WriteJSON prints the report for programs. It returns the writer's error.
func (r *Replayed) WriteJSON(w io.Writer) error { return shadowdiff.WriteJSONValue(w, r, "  ") }
