package lister

import (
	"errors"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/api"
	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// List is a kind with what is known of it. The owner of the [Lister] guards it.
type List struct {
	api.Resource
	decoder *decode.Decoder // for answers

	State        // from the last complete answer
	Absent  bool // discovery does not find the kind; items are kept in case it returns
	Changed bool // items or Absent changed since the last snapshot
}

// Forget makes the next request consistent and accepts its answer, however old it is. The objects stay known.
func (l *List) Forget() { l.Seen, l.Wire = 0, WireDigest{} }

// SetAbsent sets whether the kind is absent from the cluster.
func (l *List) SetAbsent(absent bool) {
	if l.Absent != absent {
		l.Absent, l.Changed = absent, true
	}
}

// Adopt makes the answer the known state. It reports whether any object changed.
func (l *List) Adopt(a Listing) (changed bool) {
	changed = !a.same && !sameItems(l.Items, a.Items)
	l.Changed = l.Changed || changed
	l.State = a.State
	return changed
}

// State is what is known of a list at a revision. The items are shared: nobody may modify them.
type State struct {
	Items  []Item
	Sorted bool          // the items are in the order of their keys, as the API has them
	Seen   kube.Revision // 0 if the list had none, or was not read yet
	Wire   WireDigest    // of the compressed answer, if it was compressed
}

// Listing is a complete answer to a list request. Items that equal those of the state it was compared with share
// their objects; same says that all items do and none is missing.
type Listing struct {
	State
	same bool
	lost int // how many known objects it lacks
}

// Decode returns an item for raw with its digest: the decoded object, or the reason why it cannot be decoded.
func (l *List) Decode(d *decode.Decoder, raw []byte, media string, sum Digest) Item {
	obj, err := d.Object(l.Kind, media, raw)
	if err == nil {
		return Item{Sum: sum, Object: obj}
	}
	bad := &kube.BadObject{Ref: kube.Ref{Kind: l.Kind}, Err: err}
	if d, ok := errors.AsType[*kube.DecodeError](err); ok {
		bad.Ref = d.Ref
	}
	return Item{Sum: sum, Bad: bad}
}

// collect returns the objects of the list in a new slice.
func collect[T kube.Object](l *List) []T {
	if l.Absent || len(l.Items) == 0 {
		return nil
	}
	out := make([]T, 0, len(l.Items))
	for i := range l.Items {
		if o, ok := l.Items[i].Object.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

func (l *List) appendBad(bad []kube.BadObject) []kube.BadObject {
	if l.Absent {
		return bad
	}
	for i := range l.Items {
		if b := l.Items[i].Bad; b != nil {
			bad = append(bad, *b)
		}
	}
	return bad
}
