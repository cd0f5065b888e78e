package lister

import (
	"crypto/sha256"

	"github.com/routesrv/routesrv/kube"
)

// matcher finds the items of an answer among the known ones and decodes the others.
type matcher struct {
	list  *List
	known State
	media string

	same    bool   // so far the answer equals what is known, item by item; next is still empty
	at      int    // the known item that is expected next
	kept    int    // known items found in the answer so far
	next    []Item // of the answer
	index   map[kube.Ref]int
	decoded int
}

// add processes the next item of the answer.
func (m *matcher) add(raw []byte) {
	sum := Digest(sha256.Sum256(raw))
	if m.at < len(m.known.Items) && m.known.Items[m.at].Sum == sum {
		if !m.same {
			m.next = append(m.next, m.known.Items[m.at])
		}
		m.at++
		m.kept++
		return
	}
	m.diverge()
	m.decoded++
	it := m.list.Decode(m.list.decoder, raw, m.media, sum)
	if i, ok := m.find(it.Ref()); ok {
		it.Keep(&m.known.Items[i])
		m.at = i + 1
		m.kept++
	}
	m.next = append(m.next, it)
}

// find returns the index of an object among the known items.
func (m *matcher) find(ref kube.Ref) (int, bool) {
	if m.known.Sorted {
		return Find(m.known.Items, ref)
	}
	if m.index == nil {
		m.index = make(map[kube.Ref]int, len(m.known.Items))
		for i := range m.known.Items {
			m.index[m.known.Items[i].Ref()] = i
		}
	}
	i, ok := m.index[ref]
	return i, ok
}

// diverge starts to collect the items of the answer: from here on it differs from what is known.
func (m *matcher) diverge() {
	if m.same {
		m.same = false
		m.next = append(make([]Item, 0, len(m.known.Items)+len(m.known.Items)/16+16), m.known.Items[:m.at]...)
	}
}

// listing returns the collected answer, once the answer is known to be complete.
func (m *matcher) listing() Listing {
	if m.at < len(m.known.Items) {
		m.diverge() // the last known items are missing
	}
	if m.same {
		return Listing{State: m.known, same: true}
	}
	return Listing{
		State: State{Items: m.next, Sorted: inOrder(m.next)}, lost: len(m.known.Items) - m.kept,
	}
}
