package cluster

import (
	"cmp"
	"crypto/sha256"
	"reflect"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// item is one entry of a list: an object, or the problem with it.
type item struct {
	sum    digest // of its bytes in a list; zero if it did not come from one
	Object kube.Object
	Bad    *kube.BadObject
}

// sameItems reports whether both hold identical objects in the same order.
func sameItems(a, b []item) bool {
	return slices.EqualFunc(a, b, func(a, b item) bool { return a.Object == b.Object && a.Bad == b.Bad })
}

// keep replaces the item, if possible, by the known one with the same name, and reports whether the decoded content changed.
// If only status, managed fields or unused labels changed, the object keeps its pointer and need not be compiled again.
func (i *item) keep(known *item) (changed bool) {
	switch {
	case i.sum == known.sum && i.sum != digest{}:
		*i = *known
	case i.Object != nil && known.Object != nil && reflect.DeepEqual(i.Object, known.Object):
		i.Object = known.Object
	case i.Bad != nil && known.Bad != nil && i.Bad.Err.Error() == known.Bad.Err.Error():
		i.Bad = known.Bad
	default:
		return true
	}
	return false
}

// findItem returns the index of an object among sorted items, or the index at which it would be inserted.
func findItem(items []item, ref kube.Ref) (int, bool) {
	return slices.BinarySearchFunc(items, ref, func(i item, ref kube.Ref) int { return compareKeys(i.Ref(), ref) })
}

// compareKeys orders objects of one kind as the API lists them: bytewise by "namespace/name", the key in etcd.
func compareKeys(a, b kube.Ref) int {
	x, y := a.Namespace, b.Namespace
	n := min(len(x), len(y))
	switch {
	case x == y:
		return strings.Compare(a.Name, b.Name)
	case x[:n] != y[:n]:
		return strings.Compare(x, y)
	case len(x) == n:
		return cmp.Compare('/', y[n])
	default:
		return cmp.Compare(x[n], '/')
	}
}

// inOrder reports whether the items are in the order of their keys, without duplicates.
func inOrder(items []item) bool {
	for i := 1; i < len(items); i++ {
		if compareKeys(items[i-1].Ref(), items[i].Ref()) >= 0 {
			return false
		}
	}
	return true
}

// Ref returns the reference of the object.
func (i *item) Ref() kube.Ref {
	if i.Bad != nil {
		return i.Bad.Ref
	}
	return i.Object.Ref()
}

// sortItems sorts the items by their keys, in place, and returns them. Of several with the same key it keeps the last.
func sortItems(items []item) []item {
	if inOrder(items) {
		return items
	}
	slices.SortStableFunc(items, func(a, b item) int { return compareKeys(a.Ref(), b.Ref()) })
	n := 0
	for i := range items {
		if n > 0 && compareKeys(items[n-1].Ref(), items[i].Ref()) == 0 {
			n--
		}
		items[n] = items[i]
		n++
	}
	clear(items[n:])
	return items[:n]
}

// digest is the SHA-256 of an object as encoded in a list, or of a compressed answer. A weaker hash would not do: tenants write
// objects, and could hide the second of two versions that collide.
type digest [sha256.Size]byte

// matcher finds the items of an answer among the known ones and decodes the others.
type matcher struct {
	list  *list
	known content
	media string

	at      int              // the known item that is expected next
	kept    int              // known items found in the answer so far
	next    []item           // of the answer
	index   map[kube.Ref]int // of the known items; made when it is needed
	decoded int
	texts   kube.Texts
}

func newMatcher(l *list, known content, media string) *matcher {
	return &matcher{list: l, known: known, media: media, next: make([]item, 0, len(known.items)+len(known.items)/16+16)}
}

// add processes the next item of the answer.
func (m *matcher) add(raw []byte) {
	sum := digest(sha256.Sum256(raw))
	if m.at < len(m.known.items) && m.known.items[m.at].sum == sum {
		m.next = append(m.next, m.known.items[m.at])
		m.at++
		m.kept++
		return
	}
	m.decoded++
	it := m.list.decodeItem(raw, m.media, sum)
	if i, ok := m.find(it.Ref()); ok {
		it.keep(&m.known.items[i])
		m.at = i + 1
		m.kept++
	} else if it.Object != nil {
		m.texts.Share(it.Object)
	}
	m.next = append(m.next, it)
}

// find returns the index of an object among the known items.
func (m *matcher) find(ref kube.Ref) (int, bool) {
	if m.index == nil {
		m.index = make(map[kube.Ref]int, len(m.known.items))
		for i := range m.known.items {
			m.index[m.known.items[i].Ref()] = i
		}
	}
	i, ok := m.index[ref]
	return i, ok
}

// listing returns the collected answer, once the answer is known to be complete.
func (m *matcher) listing() listing {
	return listing{content: content{items: m.next}, lost: len(m.known.items) - m.kept}
}
