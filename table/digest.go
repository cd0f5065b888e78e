package table

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest is the SHA-256 of a table's canonical text. Equal content has an equal digest on every replica and after every restart.
// The zero value names no table (the digest of an empty table is not zero).
type Digest [sha256.Size]byte

// String returns the digest as 64 lower-case hexadecimal characters, the form used in the ETag.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is the zero value, which names no table.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns the result of String, so that a Digest appears as text in JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts the same texts as ParseDigest.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// ParseDigest is the inverse of String. It rejects upper-case digits: two spellings of one digest would be two ETags.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != 2*len(d) {
		return Digest{}, fmt.Errorf("digest has %d characters, want %d", len(s), 2*len(d))
	}
	for i := range len(s) {
		n, ok := hexDigit(s[i])
		if !ok {
			return Digest{}, fmt.Errorf("digest has %q at %d, want a lower-case hexadecimal digit", s[i], i)
		}
		d[i/2] = d[i/2]<<4 | n
	}
	return d, nil
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	default:
		return 0, false
	}
}
