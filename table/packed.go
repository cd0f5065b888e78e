package table

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/klauspost/compress/s2"
)

// Packed are compressed routes outside of a list, in any order: routes of one object share most of their text.
type Packed []byte

// Pack compresses routes: the hosts and the text of each one, with their lengths.
func Pack(routes []*Route) Packed {
	if len(routes) == 0 {
		return nil
	}
	var all []byte
	for _, r := range routes {
		for _, part := range [...]string{r.Hosts, r.Text} {
			all = append(binary.AppendUvarint(all, uint64(len(part))), part...)
		}
	}
	return bytes.Clone(s2.Encode(nil, all))
}

// Routes returns new routes, in the order in which they were packed.
func (p Packed) Routes() (routes []*Route) {
	if p == nil {
		return nil
	}
	all, err := s2.Decode(nil, p)
	if err != nil {
		panic("table: routes do not unpack: " + err.Error()) // memory is damaged
	}
	text, at := string(all), 0
	part := func() string {
		n, size := binary.Uvarint(all[at:])
		begin := at + size
		at = begin + int(n)
		return text[begin:at]
	}
	for at < len(text) {
		r := &Route{Hosts: part(), Text: part()}
		r.ID = r.Text[:strings.IndexByte(r.Text, ':')]
		routes = append(routes, r)
	}
	return routes
}
