package wire

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// Encoding is a content coding of a table.
type Encoding uint8

// The encodings. Encodings is their number: it is the length of an array that has something for each.
const (
	Identity Encoding = iota
	Gzip
	Zstd
	Encodings
)

var (
	encodingNames    = [Encodings]string{"identity", "gzip", "zstd"}
	encodingSuffixes = [Encodings]string{"", "+gzip", "+zstd"}
)

// String returns the name of the encoding, as in Content-Encoding.
func (e Encoding) String() string {
	if e < Encodings {
		return encodingNames[e]
	}
	return "encoding " + strconv.Itoa(int(e))
}

// Tag is what an ETag of a route server says:
//
//	"<64 hex digits>[.<revision>][~<rotation>][+gzip|+zstd]"
//
// Tags are comparable. What the revision and the rotation are for is in the documentation of package etagcache.
type Tag struct {
	// Digest is that of the uncompressed text.
	Digest table.Digest
	// Revision is the highest list revision of the read that first gave the table; 0 if the source has none.
	Revision uint64
	// Rotation counts bodies that broke off.
	Rotation uint32
	// Encoding is that of the body. It must be less than Encodings.
	Encoding Encoding
}

// maxTagSize is the longest text of a Tag.
const maxTagSize = 2*len(table.Digest{}) + len(`"."`) + len("18446744073709551615") + len("~4294967295") + len("+gzip")

// String returns the ETag with its quotes.
func (t Tag) String() string {
	b := make([]byte, 0, maxTagSize)
	b = append(b, '"')
	b = hex.AppendEncode(b, t.Digest[:])
	if t.Revision > 0 {
		b = append(b, '.')
		b = strconv.AppendUint(b, t.Revision, 10)
	}
	if t.Rotation > 0 {
		b = append(b, '~')
		b = strconv.AppendUint(b, uint64(t.Rotation), 10)
	}
	b = append(b, encodingSuffixes[t.Encoding]...)
	b = append(b, '"')
	return string(b)
}

// ParseTag reads what is between the quotes of an ETag. It refuses whatever String does not write, so that every tag has
// one spelling.
func ParseTag(opaque string) (Tag, bool) {
	var t Tag
	const size = 2 * len(t.Digest)
	if len(opaque) < size || len(opaque) > maxTagSize-len(`""`) {
		return Tag{}, false
	}
	digest, err := table.ParseDigest(opaque[:size])
	if err != nil {
		return Tag{}, false
	}
	t.Digest = digest
	rest := opaque[size:]
	for e := Identity + 1; e < Encodings; e++ {
		if cut, ok := strings.CutSuffix(rest, encodingSuffixes[e]); ok {
			t.Encoding, rest = e, cut
			break
		}
	}
	revision, rotation, rotated := strings.Cut(rest, "~")
	if revision != "" {
		n, ok := strings.CutPrefix(revision, ".")
		if t.Revision, ok = parsePositive(n, ok, 64); !ok {
			return Tag{}, false
		}
	}
	if rotated {
		n, ok := parsePositive(rotation, true, 32)
		if !ok {
			return Tag{}, false
		}
		t.Rotation = uint32(n)
	}
	return t, true
}

// parsePositive reads a number of at most so many bits, from 1, without leading zeros. It is false if ok is.
func parsePositive(s string, ok bool, bits int) (uint64, bool) {
	if !ok || s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil
}

// Tags is what a list of entity tags in a request says.
type Tags struct {
	Any  bool       // the list is *
	List []NamedTag // the tags of route servers, in the order of the request
}

// NamedTag is a tag in a list.
type NamedTag struct {
	Tag
	Weak bool
}

// ParseTags reads the values of If-None-Match, If-Match, If-Range or Last-Event-ID (RFC 9110 §13.1). It leaves out tags that no
// route server writes: they match nothing. It ignores what follows a syntax error.
func ParseTags(values []string) Tags {
	var n Tags
	for _, s := range values {
		for {
			s = strings.TrimLeft(s, " \t,")
			if s == "" {
				break
			}
			if s[0] == '*' {
				n.Any = true
				break
			}
			opaque, weak, rest, ok := cutEntity(s)
			if !ok {
				break
			}
			if t, ok := ParseTag(opaque); ok {
				n.List = append(n.List, NamedTag{t, weak})
			}
			s = rest
		}
	}
	return n
}

// cutEntity splits the first entity tag (RFC 9110 §8.8.3) off s.
func cutEntity(s string) (opaque string, weak bool, rest string, ok bool) {
	s, weak = strings.CutPrefix(s, "W/")
	s, ok = strings.CutPrefix(s, `"`)
	if !ok {
		return "", false, "", false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			return s[:i], weak, s[i+1:], true
		case c < 0x21 || c == 0x7f:
			return "", false, "", false
		}
	}
	return "", false, "", false
}

// maxEntity is how long an ETag may be for a client to keep and send back. Those of a route server have some 100 bytes.
const maxEntity = 256

// Entity is the ETag of an answer, or the id of an event. The zero value is none.
type Entity struct {
	Text  string // as the server sent it; empty if there is none that a client could send back
	Tag   Tag    // what the text says, if Known
	Known bool   // a route server wrote the text
}

// ParseEntity reads the value of an ETag header. The result is the zero value for what is no entity tag (RFC 9110 §8.8.3), has
// more than 256 bytes, or has others than those of visible ASCII. A weak tag says the same as a strong one: a proxy that encodes
// on its way makes it weak, and the digest is that of the text.
func ParseEntity(text string) Entity {
	if len(text) > maxEntity {
		return Entity{}
	}
	opaque, _, rest, ok := cutEntity(text)
	if !ok || rest != "" {
		return Entity{}
	}
	for i := range len(opaque) {
		if opaque[i] > 0x7f {
			return Entity{}
		}
	}
	e := Entity{Text: text}
	e.Tag, e.Known = ParseTag(opaque)
	return e
}
