package table

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/s2"
)

// ErrFacts means that the facts of a file cannot be used. The file can be read without them.
var ErrFacts = errors.New("the facts do not belong to the table file")

// Facts are what a reader of a table file would have to parse the whole text for: where each route ends, its Hosts and Backend. A
// process that reads its own file at start takes them from a second file, and is spared most of the time to the first answer. The
// digests of both files bind them together; facts of another table, version or length are not used.
//
// The file begins with a line: factsMagic, the version, and the digest of the table. Then comes, compressed with S2, for each block: the
// length of its text, the length of its facts, and the facts. The file ends with the SHA-256 of everything before.
const (
	factsMagic   = "routesrv table facts, version "
	factsVersion = 1 // also raise it when the same text has other facts
)

// WriteFacts writes the facts of the file form of t to w.
func (t *Table) WriteFacts(w io.Writer) error {
	var raw, facts []byte
	for _, b := range t.list.blocks {
		if facts = facts[:0]; b.packed != nil {
			facts = unpacked(facts, b.packed.facts)
		} else {
			facts = b.appendFacts(facts)
		}
		raw = binary.AppendUvarint(raw, uint64(b.bytes))
		raw = append(binary.AppendUvarint(raw, uint64(len(facts))), facts...)
	}
	out := append(factsHead(t.Digest()), s2.Encode(nil, raw)...)
	sum := sha256.Sum256(out)
	_, err := w.Write(append(out, sum[:]...))
	return err
}

func factsHead(d Digest) []byte {
	return fmt.Appendf(nil, "%s%d, of %s\n", factsMagic, factsVersion, d)
}

// ReadFileWithFacts is [ReadFile] with the output of WriteFacts, and returns a packed table. It verifies the digest of the text and
// does not parse it. The error is ErrFacts, or one of ReadFile; after ErrFacts the file must be read again from its beginning.
func ReadFileWithFacts(r io.Reader, size int64, facts []byte) (*Table, FileMeta, error) {
	in, meta, err := openFile(r, size)
	if err != nil {
		return nil, FileMeta{}, err
	}
	about, err := openFacts(facts, meta)
	if err != nil {
		return nil, FileMeta{}, err
	}
	f := factsReader{in: in, sum: sha256.New()}
	for _, b := range about {
		if err := f.block(b); err != nil {
			return nil, FileMeta{}, err
		}
	}
	if err := endFile(in, meta, Digest(f.sum.Sum(nil))); err != nil {
		return nil, FileMeta{}, err
	}
	list := newList(f.blocks, true)
	if list.len != meta.Routes {
		return nil, FileMeta{}, ErrFacts
	}
	return &Table{content: hashed(list, meta.Digest, f.states), revision: meta.Revision, at: meta.Time}, meta, nil
}

// IsFacts reports whether data begins like the output of WriteFacts, of whatever version.
func IsFacts(data []byte) bool { return bytes.HasPrefix(data, []byte(factsMagic)) }

// blockFacts are the facts of a block.
type blockFacts struct {
	bytes int // of its text
	facts []byte
}

// openFacts returns the facts of each block. Their texts, joined, are as long as the text of the file.
func openFacts(facts []byte, meta FileMeta) ([]blockFacts, error) {
	end := len(facts) - sha256.Size
	head := factsHead(meta.Digest)
	if end < len(head) || string(facts[:len(head)]) != string(head) || sha256.Sum256(facts[:end]) != [sha256.Size]byte(facts[end:]) {
		return nil, ErrFacts
	}
	body := facts[len(head):end]
	if n, err := s2.DecodedLen(body); err != nil || n > 2*meta.Bytes+1024 { // never more than the text that they are about
		return nil, ErrFacts
	}
	raw, err := s2.Decode(nil, body)
	if err != nil {
		return nil, ErrFacts
	}
	var all []blockFacts
	left := meta.Bytes
	for len(raw) > 0 {
		size, n := binary.Uvarint(raw)
		if n <= 0 || size == 0 || size > uint64(left) {
			return nil, ErrFacts
		}
		raw = raw[n:]
		length, n := binary.Uvarint(raw)
		if n <= 0 || length > uint64(len(raw)-n) {
			return nil, ErrFacts
		}
		all = append(all, blockFacts{int(size), raw[n : n+int(length)]})
		raw = raw[n+int(length):]
		if left -= int(size); len(raw) > 0 {
			left-- // the newline between two blocks
		}
	}
	if left != 0 {
		return nil, ErrFacts
	}
	return all, nil
}

// factsReader makes packed blocks of a text and its facts.
type factsReader struct {
	in     *bufio.Reader
	sum    hash.Hash
	packer packer
	text   []byte
	last   string // id
	blocks []*Block
	states []hash.Cloner // of sum, after each block
}

// block reads the text of the next block.
func (f *factsReader) block(about blockFacts) error {
	size := about.bytes
	if len(f.blocks) > 0 {
		size++ // the newline before it
	}
	f.text = slices.Grow(f.text[:0], size)[:size]
	if _, err := io.ReadFull(f.in, f.text); err != nil {
		return fmt.Errorf("%w: within the text: %w", ErrTruncated, err)
	}
	f.sum.Write(f.text)
	text := f.text
	if len(f.blocks) > 0 {
		if text[0] != '\n' {
			return ErrFacts
		}
		text = text[1:]
	}
	first, count, ok := f.fits(text, about.facts)
	if !ok {
		return ErrFacts
	}
	p := &packed{count: count, first: first, facts: f.packer.compress(about.facts), pieces: f.packer.pieces(text)}
	f.blocks = append(f.blocks, wrap(&Block{packed: p, bytes: len(text), starts: startsBlock(first)}))
	f.states = append(f.states, cloned(f.sum))
	return nil
}

// fits reports whether facts describe a text: they divide it into lines that begin with ids in order. It returns the first id and
// the number of routes.
func (f *factsReader) fits(text, facts []byte) (first string, count int, ok bool) {
	ok = true
	number := func() int {
		v, n := binary.Uvarint(facts)
		if n <= 0 || v > uint64(1<<31) {
			ok, n = false, len(facts)
		}
		facts = facts[n:]
		return int(v)
	}
	hosts := number()
	for i := 0; ok && i < hosts; i++ {
		if n := number(); n <= len(facts) {
			facts = facts[n:]
		} else {
			ok = false
		}
	}
	for ok && len(facts) > 0 {
		n, backend, host := number(), number(), number()
		if !ok || n > len(text) || backend >= n || host >= hosts {
			return "", 0, false
		}
		line := text[:n]
		if text = text[n:]; len(text) > 0 {
			if text[0] != '\n' {
				return "", 0, false
			}
			text = text[1:]
		}
		id, _, found := strings.Cut(string(line[:min(n, maxKnownID)]), ":")
		if !found || id <= f.last {
			return "", 0, false
		}
		if f.last = id; count == 0 {
			first = id
		}
		count++
	}
	return first, count, ok && count > 0 && len(text) == 0
}

// hashed returns the content of a list whose digest is known.
func hashed(list List, d Digest, states []hash.Cloner) *content {
	c := newContent(list, nil)
	c.states.Store(&states)
	c.hashed.Store(&d)
	c.sum = func() Digest { return d }
	return c
}
