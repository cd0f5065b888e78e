// Package shadowdiff compares two routing tables by what they mean: the table that data planes use now with the one that
// they would be given instead.
//
// [Diff] pairs the routes of two lists by id and gives a [Report]: routes that only one list has, routes of the same id
// that differ, with the parts in which they do, and routes that only changed their id. A [Tracker] watches two tables
// that change all the time: it tells the differences that stay from those that are only skew, because one side has read
// the cluster a moment later. A [View] is what a reader is shown, as text ([WriteText]), as JSON ([WriteJSON]) or as a
// page (package page).
//
// # What is equal
//
// Two routes are equal if [eskip.Equivalent] says so, or if they print the same when endpoints and predicates are sorted. So
// the order of endpoints and predicates is no difference, also among predicates with one name; the order of filters is. An
// argument of a compiled route that is an int equals the float64 that a parser reads: what data planes get is the text.
//
// # Guarantees
//
// Diff(x, x) is empty, Diff(a, b) is empty if and only if the lists have equal routes, and Diff(b, a) is Diff(a, b) with
// the sides exchanged. Lists are only read, and need not be sorted; a report is sorted by id. The k-th route of an id is
// compared with the k-th of that id on the other side, so that lists with repeated ids, too, are compared to their end.
// The time of a comparison grows with the number of routes, not with its square, and little is allocated for routes that
// are equal.
//
// # Not done here
//
// Nothing is read or sent, and no clock is asked: times are arguments. Routes are not judged by what they match, so two
// spellings of one regular expression are a difference.
//
// A report refers to the routes that it was made of: keeping it keeps them.
package shadowdiff

import (
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Report is what is different in two lists of routes, A and B. Its slices are sorted by id. It must not be changed.
type Report struct {
	Missing []*eskip.Route // A has them and B has not
	Extra   []*eskip.Route // B has them and A has not
	Changed []Change       // both have the id
	Renamed []Rename       // both have the route, under different ids

	A, B    int // routes in the lists
	Equal   int // routes that both have
	Ignored int // differences that Without has left out

	// Beyond counts differences that whoever made the report did not look at in detail; they are in none of the slices. It has
	// neither equal nor ignored routes, and [Diff] leaves it empty.
	Beyond Counts
}

// Rename is a route that has another id in B than in A, and is the same otherwise.
type Rename struct{ A, B *eskip.Route }

// Counts are the numbers of a report.
type Counts struct {
	Missing int `json:"missing"`
	Extra   int `json:"extra"`
	Changed int `json:"changed"`
	Renamed int `json:"renamed"`
	Equal   int `json:"equal"`
	Ignored int `json:"ignored"`
}

// Empty reports whether there is no difference.
func (r *Report) Empty() bool {
	return len(r.Missing)+len(r.Extra)+len(r.Changed)+len(r.Renamed)+r.Beyond.Differences() == 0
}

// Counts returns the numbers of the report, with those of Beyond.
func (r *Report) Counts() Counts {
	return Counts{
		Missing: len(r.Missing) + r.Beyond.Missing, Extra: len(r.Extra) + r.Beyond.Extra,
		Changed: len(r.Changed) + r.Beyond.Changed, Renamed: len(r.Renamed) + r.Beyond.Renamed,
		Equal: r.Equal, Ignored: r.Ignored,
	}
}

// Differences returns the number of differences.
func (c Counts) Differences() int { return c.Missing + c.Extra + c.Changed + c.Renamed }

// Diff reports what a data plane would see change if it moved from table a to table b. Routes that are nil are skipped.
func Diff(a, b []*eskip.Route) Report {
	d := differ{Report: Report{A: len(a), B: len(b)}}
	if slices.IsSortedFunc(a, byID) && slices.IsSortedFunc(b, byID) {
		d.merge(a, b)
	} else {
		d.join(a, b)
		slices.SortStableFunc(d.Missing, byID)
		slices.SortStableFunc(d.Extra, byID)
		slices.SortStableFunc(d.Changed, func(x, y Change) int { return byID(x.A, y.A) })
	}
	d.rename()
	return d.Report
}

// byID orders routes; those that are nil are as if they had no id.
func byID(x, y *eskip.Route) int { return strings.Compare(idOf(x), idOf(y)) }

func idOf(r *eskip.Route) string {
	if r == nil {
		return ""
	}
	return r.Id
}

// differ is a report that is being made.
type differ struct{ Report }

// merge compares two sorted lists, as all tables are.
func (d *differ) merge(a, b []*eskip.Route) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == nil:
			a = a[1:]
			d.A--
		case b[0] == nil:
			b = b[1:]
			d.B--
		case a[0].Id == b[0].Id:
			d.compare(a[0], b[0])
			a, b = a[1:], b[1:]
		case a[0].Id < b[0].Id:
			d.Missing = append(d.Missing, a[0])
			a = a[1:]
		default:
			d.Extra = append(d.Extra, b[0])
			b = b[1:]
		}
	}
	for _, r := range a {
		d.onlyA(r)
	}
	for _, r := range b {
		d.onlyB(r)
	}
}

func (d *differ) onlyA(r *eskip.Route) {
	if r == nil {
		d.A--
		return
	}
	d.Missing = append(d.Missing, r)
}

func (d *differ) onlyB(r *eskip.Route) {
	if r == nil {
		d.B--
		return
	}
	d.Extra = append(d.Extra, r)
}

// join compares lists in any order. The places of equal ids in b are linked, in the order of b.
func (d *differ) join(a, b []*eskip.Route) {
	first := make(map[string]int, len(b)) // the next place of an id that has no partner yet
	next := make([]int, len(b))           // the place of the same id behind this one, or len(b)
	for i := len(b) - 1; i >= 0; i-- {
		next[i] = len(b)
		if b[i] == nil {
			continue
		}
		if after, ok := first[b[i].Id]; ok {
			next[i] = after
		}
		first[b[i].Id] = i
	}
	paired := make([]bool, len(b))
	for _, r := range a {
		if i, ok := first[idOf(r)]; ok && r != nil && i < len(b) {
			first[r.Id] = next[i]
			paired[i] = true
			d.compare(r, b[i])
			continue
		}
		d.onlyA(r)
	}
	for i, r := range b {
		if !paired[i] {
			d.onlyB(r)
		}
	}
}

// compare compares two routes of one id. Nearly all are equal and written the same way, which Equivalent finds out without making
// a canonical form.
func (d *differ) compare(a, b *eskip.Route) {
	if !eskip.Equivalent(a, b) {
		if parts := parts(a, b); len(parts) > 0 {
			d.Changed = append(d.Changed, Change{A: a, B: b, Parts: parts})
			return
		}
	}
	d.Equal++
}

// rename takes the routes out of Missing and Extra that are on both sides but for their id. Of several that are the same
// the first in the order of ids goes with the first, and so on.
func (d *differ) rename() {
	if len(d.Missing) == 0 || len(d.Extra) == 0 {
		return
	}
	free := make(map[string][]int, len(d.Missing)) // places in Missing by canonical text
	var buf []byte
	for i, r := range d.Missing {
		buf = appendSorted(buf[:0], r)
		free[string(buf)] = append(free[string(buf)], i)
	}
	renamed := make([]bool, len(d.Missing))
	extra := d.Extra[:0]
	for _, r := range d.Extra {
		buf = appendSorted(buf[:0], r)
		places := free[string(buf)]
		if len(places) == 0 {
			extra = append(extra, r)
			continue
		}
		free[string(buf)] = places[1:]
		d.Renamed = append(d.Renamed, Rename{A: d.Missing[places[0]], B: r})
		renamed[places[0]] = true
	}
	d.Extra = extra
	missing := d.Missing[:0]
	for i, r := range d.Missing {
		if !renamed[i] {
			missing = append(missing, r)
		}
	}
	d.Missing = missing
	slices.SortStableFunc(d.Renamed, func(x, y Rename) int { return byID(x.A, y.A) })
}

// appendSorted appends the text of a route in which predicates are sorted, and endpoints: a key for what a route means.
func appendSorted(dst []byte, r *eskip.Route) []byte {
	c := eskip.Canonical(r) // with a list of predicates of its own
	for from := 0; from < len(c.Predicates); {
		to := from + 1
		for to < len(c.Predicates) && c.Predicates[to].Name == c.Predicates[from].Name {
			to++
		}
		if to-from > 1 {
			slices.SortStableFunc(c.Predicates[from:to], func(p, q *eskip.Predicate) int {
				return strings.Compare(p.String(), q.String())
			})
		}
		from = to
	}
	return eskip.AppendRoute(dst, c)
}
