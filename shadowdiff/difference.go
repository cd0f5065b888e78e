package shadowdiff

import (
	"cmp"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Kind is a kind of difference.
type Kind uint8

// The kinds, as seen from A.
const (
	Missing Kind = iota // only A has the route
	Extra               // only B has the route
	Changed             // both have a route with the id, and they differ
	Renamed             // both have the route, under different ids

	kindCount
)

var kindNames = [kindCount]string{"missing", "extra", "changed", "renamed"}

// String returns the name in text, JSON and metrics.
func (k Kind) String() string { return kindNames[k] }

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Key identifies a difference in several reports about the same tables.
type Key struct {
	Kind  Kind
	ID    string // in A; in B for Extra
	NewID string // in B for Renamed, else empty
}

func (k Key) compare(l Key) int {
	return cmp.Or(strings.Compare(k.ID, l.ID), cmp.Compare(k.Kind, l.Kind), strings.Compare(k.NewID, l.NewID))
}

// Difference is one entry of a report, of any kind.
type Difference struct {
	Key
	A, B  *eskip.Route // nil if the side does not have the route
	Parts []Part       // for Changed, else nil
}

// Aligned returns all parts of both routes side by side, including identical ones, in the order in which routes are written. For a route
// that is only on one side, all parts are Removed or Added.
func (d Difference) Aligned() []Part {
	switch d.Kind {
	case Missing:
		return oneSided(d.A, Removed)
	case Extra:
		return oneSided(d.B, Added)
	default:
		return align(d.A, d.B)
	}
}

// oneSided returns the parts of a route without a partner.
func oneSided(r *eskip.Route, op Op) []Part {
	out := align(r, r)
	for i := range out {
		out[i].Op = op
		if op == Removed {
			out[i].New, out[i].NewPosition = "", 0
		} else {
			out[i].Old, out[i].OldPosition = "", 0
		}
	}
	return out
}
