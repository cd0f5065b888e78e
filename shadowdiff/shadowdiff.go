// Package shadowdiff compares two routing tables by meaning: the table that data planes use now with the one they would get
// instead. [Diff] compares two lists once; a [Tracker] watches two tables that change all the time, and distinguishes lasting
// differences from skew; a [Comparison] is the presentation, as text or JSON.
//
// Two routes are equal if [eskip.Equivalent] reports true, or if they print the same with sorted endpoints and predicates. So
// the order of endpoints and predicates makes no difference; the order of filters does. Which requests match is not compared:
// two spellings of one regular expression are a difference.
//
// Diff(x, x) is empty, Diff(a, b) is empty if and only if the lists have equal routes, and Diff(b, a) is Diff(a, b) with the
// sides exchanged. A report is sorted by id. Its cost grows with the number of routes, not with its square.
//
// The package does no I/O and uses no clock. Other modules should not import it: it may change with every release.
package shadowdiff

import (
	"context"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

// Report lists the differences between two lists of routes, A and B. It must not be changed.
type Report struct {
	Differences []Difference // sorted by id

	A, B    int // routes in the lists
	Equal   int // routes that both have
	Ignored int // differences that Without has removed

	// Beyond counts differences that were not examined in detail; they are not among Differences. [Diff] leaves it empty.
	Beyond Kinds
}

// Kinds counts differences by kind.
type Kinds struct {
	Missing int `json:"missing"`
	Extra   int `json:"extra"`
	Changed int `json:"changed"`
}

// Counts holds the numbers of a report.
type Counts struct {
	Kinds
	Equal   int `json:"equal"`
	Ignored int `json:"ignored"`
}

// Empty reports whether there is no difference.
func (r *Report) Empty() bool { return len(r.Differences)+r.Beyond.Differences() == 0 }

// Counts returns the numbers of the report, including Beyond.
func (r *Report) Counts() Counts {
	c := Counts{r.Beyond, r.Equal, r.Ignored}
	for i := range r.Differences {
		*c.of(r.Differences[i].Kind)++
	}
	return c
}

func (c *Kinds) of(k Change) *int {
	return [kindCount]*int{&c.Missing, &c.Extra, &c.Changed}[k]
}

// Differences returns the number of differences.
func (c Kinds) Differences() int { return c.Missing + c.Extra + c.Changed }

// Diff reports what would change for a data plane that moved from table a to table b. It skips nil routes.
func Diff(a, b []*eskip.Route) Report {
	a, b = sorted(a), sorted(b)
	d := Report{A: len(a), B: len(b)}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Id < b[0].Id:
			d.Differences = append(d.Differences, Difference{Key: Key{Kind: Missing, ID: a[0].Id}, A: a[0]})
			a = a[1:]
		case len(a) == 0 || b[0].Id < a[0].Id:
			d.Differences = append(d.Differences, Difference{Key: Key{Kind: Extra, ID: b[0].Id}, B: b[0]})
			b = b[1:]
		default:
			d.compare(a[0], b[0])
			a, b = a[1:], b[1:]
		}
	}
	return d
}

func byID(x, y *eskip.Route) int { return strings.Compare(x.Id, y.Id) }

func sorted(routes []*eskip.Route) []*eskip.Route {
	all := slices.DeleteFunc(slices.Clone(routes), func(r *eskip.Route) bool { return r == nil })
	slices.SortStableFunc(all, byID)
	return all
}

// compare compares two routes with the same id. Equivalent finds nearly all equal ones without building a canonical form.
func (d *Report) compare(a, b *eskip.Route) {
	if !eskip.Equivalent(a, b) {
		if parts := parts(a, b); len(parts) > 0 {
			d.Differences = append(d.Differences, Difference{Key: Key{Kind: Changed, ID: a.Id}, A: a, B: b, Parts: parts})
			return
		}
	}
	d.Equal++
}

const checkEvery = 100

// Tables is [Diff] for two tables; a may be nil. It parses only routes whose texts differ, the first ones up to a limit (0
// means none), and keeps only those that differ in meaning: two parsed tables would take hundreds of megabytes. The error comes
// from ctx or names a route.
func Tables(ctx context.Context, a, b *table.Table, limit int) (Report, error) {
	var before table.List
	if a != nil {
		before = a.Routes()
	}
	var onlyA, onlyB []*eskip.Route
	var beyond Kinds
	n, same := 0, before.Len()
	for was, is := range table.Changes(before, b.Routes()) {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return Report{}, ctx.Err()
		}
		if was != nil {
			same--
		}
		if n++; limit > 0 && n > limit {
			*beyond.of(kindOf(was, is))++
			continue
		}
		x, err := parsed(was)
		if err != nil {
			return Report{}, err
		}
		y, err := parsed(is)
		if err != nil {
			return Report{}, err
		}
		if eskip.Equivalent(x, y) {
			same++
			continue // only the spelling differs
		}
		onlyA, onlyB = append(onlyA, x), append(onlyB, y) // Diff skips those that are nil
	}
	r := Diff(onlyA, onlyB)
	r.A, r.B = before.Len(), b.Len()
	r.Equal += same
	r.Beyond = beyond
	return r, nil
}

func kindOf(was, is *table.Route) Change {
	switch {
	case was == nil:
		return Extra
	case is == nil:
		return Missing
	}
	return Changed
}

func parsed(r *table.Route) (*eskip.Route, error) {
	if r == nil {
		return nil, nil
	}
	return r.Parse()
}
