package compile

import (
	"encoding/binary"
	"strings"
)

// ids are a few route ids, each stored as what differs from the one before: the ids of an object have most of their text in common.
// They are immutable.
type ids string

// maxIDs is how many ids belong together. Reading one decodes those before it.
const maxIDs = 16

// newIDs returns the ids of a list, which is best sorted. It works in the memory of b.
func newIDs(b *[]byte, list []string) ids {
	*b = (*b)[:0]
	before := ""
	for _, id := range list {
		n := 0
		for n < min(len(id), len(before)) && id[n] == before[n] {
			n++
		}
		*b = binary.AppendUvarint(*b, uint64(n))
		*b = binary.AppendUvarint(*b, uint64(len(id)-n))
		*b = append(*b, id[n:]...)
		before = id
	}
	return ids(*b)
}

// at returns the id with the number.
func (all ids) at(n int) string {
	var id []byte
	rest := strings.NewReader(string(all))
	for range n + 1 {
		same, _ := binary.ReadUvarint(rest) // cannot fail: newIDs has written it
		more, _ := binary.ReadUvarint(rest)
		begin := len(all) - rest.Len()
		id = append(id[:same], all[begin:begin+int(more)]...)
		_, _ = rest.Seek(int64(more), 1)
	}
	return string(id)
}
