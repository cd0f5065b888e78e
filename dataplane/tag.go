package dataplane

import (
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/table"
)

// maxTag bounds an ETag that is sent back. Those of a route server have some 100 bytes.
const maxTag = 256

// tag is an ETag, and what it says if it is of the form of a route server.
type tag struct {
	text     string // as the server sent it; empty if there is none that could be sent back
	digest   table.Digest
	revision uint64
	known    bool // it is of the form, so it has a digest
}

// parseTag reads the value of an ETag header. What is no entity tag (RFC 9110 §8.8.3), or an unreasonable one, is no ETag.
func parseTag(text string) tag {
	opaque, _ := strings.CutPrefix(text, "W/") // a proxy that encodes on its way makes it weak; the digest is of the text
	if len(text) > maxTag || len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' {
		return tag{}
	}
	opaque = opaque[1 : len(opaque)-1]
	for i := range len(opaque) {
		if c := opaque[i]; c < 0x21 || c == '"' || c >= 0x7f {
			return tag{}
		}
	}
	t := tag{text: text}
	t.digest, t.revision, t.known = parseOpaque(opaque)
	return t
}

// parseOpaque reads the form of a route server: digest, revision, rotation, encoding (package etagcache). It refuses
// other spellings of the same.
func parseOpaque(s string) (digest table.Digest, revision uint64, ok bool) {
	const size = 2 * len(digest)
	if len(s) < size {
		return table.Digest{}, 0, false
	}
	digest, err := table.ParseDigest(s[:size])
	if err != nil {
		return table.Digest{}, 0, false
	}
	rest := s[size:]
	for _, encoding := range []string{"+gzip", "+zstd"} {
		if cut, found := strings.CutSuffix(rest, encoding); found {
			rest = cut
			break
		}
	}
	rest, rotation, rotated := strings.Cut(rest, "~")
	if rotated {
		if _, ok := parsePositive(rotation); !ok {
			return table.Digest{}, 0, false
		}
	}
	if rest != "" {
		number, found := strings.CutPrefix(rest, ".")
		if revision, ok = parsePositive(number); !found || !ok {
			return table.Digest{}, 0, false
		}
	}
	return digest, revision, true
}

// parsePositive reads a number from 1, without leading zeros.
func parsePositive(s string) (uint64, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// namesOf returns the ETags that route servers give to a table in the encodings that are asked for. It is for a table
// from a file, which has no ETag: what it was does not matter, because the digest and the revision are all that a server
// reads of it. A server with other ETags does not know these, and sends the table.
func namesOf(t *table.Table) []string {
	base := strings.TrimSuffix(tagOf(t.Digest(), t.Revision()), `"`)
	return []string{base + `+zstd"`, base + `+gzip"`}
}

// tagOf is the ETag of a table, without an encoding.
func tagOf(digest table.Digest, revision uint64) string {
	base := digest.String()
	if revision > 0 {
		base += "." + strconv.FormatUint(revision, 10)
	}
	return `"` + base + `"`
}
