package page

import (
	"fmt"

	"github.com/routesrv/routesrv/shadowdiff"
)

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

// newRows returns the parts of a difference side by side. Identical endpoints, of which there may be hundreds, are only counted.
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
	r := row{Label: p.Label(), Op: p.Op.String()}
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
