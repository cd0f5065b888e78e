package etagcache

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// tag is what an ETag of ours says. The grammar is in the package documentation.
type tag struct {
	digest   table.Digest
	revision uint64
	rotation uint32
	encoding encoding
}

// String returns the ETag with its quotes.
func (t tag) String() string {
	b := make([]byte, 0, 2*len(t.digest)+48)
	b = append(b, '"')
	b = hex.AppendEncode(b, t.digest[:])
	if t.revision > 0 {
		b = append(b, '.')
		b = strconv.AppendUint(b, t.revision, 10)
	}
	if t.rotation > 0 {
		b = append(b, '~')
		b = strconv.AppendUint(b, uint64(t.rotation), 10)
	}
	b = append(b, encodingTag[t.encoding]...)
	b = append(b, '"')
	return string(b)
}

// parseTag reads what is between the quotes of an ETag. It refuses whatever String does not write, so that every tag has
// one spelling.
func parseTag(opaque string) (tag, bool) {
	var t tag
	const size = 2 * len(t.digest)
	if len(opaque) < size {
		return tag{}, false
	}
	digest, err := table.ParseDigest(opaque[:size])
	if err != nil {
		return tag{}, false
	}
	t.digest = digest
	rest := opaque[size:]
	for e := identity + 1; e < encodings; e++ {
		if cut, ok := strings.CutSuffix(rest, encodingTag[e]); ok {
			t.encoding, rest = e, cut
			break
		}
	}
	revision, rotation, rotated := strings.Cut(rest, "~")
	if revision != "" {
		n, ok := strings.CutPrefix(revision, ".")
		if t.revision, ok = parsePositive(n, ok, 64); !ok {
			return tag{}, false
		}
	}
	if rotated {
		n, ok := parsePositive(rotation, true, 32)
		if !ok {
			return tag{}, false
		}
		t.rotation = uint32(n)
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

// named is what a list of ETags in a request says.
type named struct {
	any  bool // the list is *
	tags []namedTag
}

type namedTag struct {
	tag
	weak bool
}

// parseTags reads the values of If-None-Match or If-Match (RFC 9110 §13.1). Tags that are not ours are left out: they
// match nothing here. What follows a syntax error is ignored.
func parseTags(values []string) named {
	var n named
	for _, s := range values {
		for {
			s = strings.TrimLeft(s, " \t,")
			if s == "" {
				break
			}
			if s[0] == '*' {
				n.any = true
				break
			}
			opaque, weak, rest, ok := cutTag(s)
			if !ok {
				break
			}
			if t, ok := parseTag(opaque); ok {
				n.tags = append(n.tags, namedTag{t, weak})
			}
			s = rest
		}
	}
	return n
}

// cutTag splits the first entity tag (RFC 9110 §8.8.3) off s.
func cutTag(s string) (opaque string, weak bool, rest string, ok bool) {
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
