package api

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// Encoding is a content coding of a table.
type Encoding uint8

// The encodings. Encodings is their number, for arrays indexed by encoding.
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

// Tag is a parsed ETag of a route server:
//
//	"<64 hex digits>[.<revision>][~<rotation>][+gzip|+zstd]"
//
// Tags are comparable. Package etagcache documents the purpose of the revision and the rotation.
type Tag struct {
	// Digest is the digest of the uncompressed text.
	Digest table.Digest
	// Revision is the highest list revision of the read that first produced the table; 0 if the source has no revisions.
	Revision uint64
	// Rotation counts how often the body broke off.
	Rotation uint32
	// Encoding is the encoding of the body. It must be less than Encodings.
	Encoding Encoding
}

// maxTagSize is the length of the longest text of a Tag.
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

// ParseTag parses the text between the quotes of an ETag. It accepts only what String writes, so that every tag has one spelling.
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

// parsePositive parses a number of at most the given bits, from 1, without leading zeros. It returns false if ok is false.
func parsePositive(s string, ok bool, bits int) (uint64, bool) {
	if !ok || s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil
}

// Tags is a parsed list of entity tags from a request.
type Tags struct {
	Any  bool       // the list is *
	List []NamedTag // the tags written by route servers, in the order of the request
}

// NamedTag is a tag in a list.
type NamedTag struct {
	Tag
	Weak bool
}

// ParseTags parses the values of If-None-Match, If-Match, If-Range or Last-Event-ID (RFC 9110 §13.1). It omits tags that no route
// server writes, since they match nothing, and ignores everything after a syntax error.
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

// cutEntity splits off the first entity tag (RFC 9110 §8.8.3) of s.
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

// maxEntity limits the length of an ETag that a client keeps and sends back. The ETags of a route server have about 100 bytes.
const maxEntity = 256

// Entity is the ETag of an answer, or the id of an event. The zero value means none.
type Entity struct {
	Text  string // as the server sent it; empty if there is none that the client could send back
	Tag   Tag    // the parsed text, if Known
	Known bool   // the text is an ETag of a route server
}

// ParseEntity parses the value of an ETag header. It returns the zero value for a text that is not an entity tag (RFC 9110
// §8.8.3), has more than 256 bytes, or has characters other than visible ASCII. A weak tag means the same as a strong one: a
// proxy that re-encodes the body makes the tag weak, and the digest is about the uncompressed text.
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
