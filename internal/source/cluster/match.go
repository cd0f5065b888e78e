package cluster

import (
	"crypto/sha256"

	"github.com/routesrv/routesrv/kube"
)

// matcher finds the items of an answer among the known ones and decodes the others.
type matcher struct {
	list  *list
	known state
	media string

	at      int              // the known item that is expected next
	kept    int              // known items found in the answer so far
	next    []item           // of the answer
	index   map[kube.Ref]int // of the known items; made when it is needed
	decoded int
}

func newMatcher(l *list, known state, media string) *matcher {
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
	return listing{state: state{items: m.next}, lost: len(m.known.items) - m.kept}
}
