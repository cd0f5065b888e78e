package etagcache

import (
	"encoding/binary"
	"testing"

	"github.com/routesrv/routesrv/table"
)

func digestOf(n int) (d table.Digest) {
	binary.BigEndian.PutUint64(d[:], uint64(n)+1)
	return d
}

func seen(order, newest uint64) *readings {
	s := &readings{order: order}
	s.newest.Store(newest)
	return s
}

func TestHistoryForgetsTheOldestAndIsBounded(t *testing.T) {
	var h history
	for i := range 3 * maxHistory {
		h.add(digestOf(i), "", seen(uint64(i), 5))
		h.add(digestOf(0), "", seen(uint64(i), 5)) // every version has it
	}
	if len(h.served.keys) > maxHistory {
		t.Errorf("%d digests remembered, want at most %d", len(h.served.keys), maxHistory)
	}
	last := 3*maxHistory - 1
	for _, n := range []int{0, last, last - maxHistory/2 + 1} {
		if !h.showed(digestOf(n), 5, uint64(last)) {
			t.Errorf("digest %d is forgotten", n)
		}
	}
	for _, n := range []int{1, last - maxHistory} {
		if h.showed(digestOf(n), 5, uint64(last)) {
			t.Errorf("digest %d is remembered", n)
		}
	}
}

// A request that came just before a table was published must not be told that the new table is older than the client's.
func TestHistoryDoesNotKnowOfLaterVersions(t *testing.T) {
	var h history
	h.add(digestOf(1), "", seen(1, 10))
	h.add(digestOf(2), "", seen(2, 20))
	if h.showed(digestOf(2), 20, 1) {
		t.Error("version 2 was before version 1")
	}
	if !h.showed(digestOf(1), 10, 2) || !h.showed(digestOf(2), 20, 2) || h.showed(digestOf(1), 11, 2) {
		t.Error("version 2 does not follow version 1 of revision 10")
	}
	h.add(digestOf(2), "", seen(1, 10)) // a zone of version 1 that is made late
	if !h.showed(digestOf(2), 20, 2) {
		t.Error("what was seen last is forgotten")
	}
}

func TestHistoryEndsWhereTheSourceWentBack(t *testing.T) {
	var h history
	h.add(digestOf(1), "", seen(1, 10))
	h.add(digestOf(2), "", seen(2, 20))
	h.void(2)
	if h.showed(digestOf(1), 1, 2) || !h.showed(digestOf(2), 20, 2) {
		t.Error("want version 2 only")
	}
	for i := range maxHistory {
		h.add(digestOf(i+10), "", seen(3, 5))
	}
	if len(h.served.keys) != maxHistory || h.showed(digestOf(2), 20, 3) {
		t.Errorf("%d digests remembered, want the last %d", len(h.served.keys), maxHistory)
	}
}
