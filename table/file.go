package table

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// ErrDamaged is the error of ReadFile for a file that has been changed, or has another version.
var ErrDamaged = errors.New("table file is damaged, or has another version")

// The file form is a valid eskip document, so that a Skipper can start with it: two lines of comments, then the canonical text
// and a newline. The first line names the form and the digest of the second one, which is metadata as JSON, with the digest of
// the text.
const (
	fileMagic   = "// routesrv table"
	fileVersion = 1
)

const maxFileHeader = 64 << 10

// FileMeta is the metadata in the file form of a table. WriteFile takes Digest, Revision and Time from the table.
type FileMeta struct {
	Digest   Digest    `json:"digest"`
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time,omitzero"`

	// Saved is when the file was written or the source was last read; zero if unknown.
	Saved time.Time `json:"saved,omitzero"`
	// Origin is where the table came from: a URL, or "cluster".
	Origin string `json:"origin"`
}

// WriteFile writes the file form of t to w without building it in memory, and not atomically: see internal/durable.
func (t *Table) WriteFile(w io.Writer, meta FileMeta) error {
	meta.Digest, meta.Revision, meta.Time, meta.Saved = t.Digest(), t.revision, t.at.UTC(), meta.Saved.UTC()
	described, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if _, err := w.Write(fileHeader(described)); err != nil {
		return err
	}
	if _, err := t.WriteTo(w); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

func fileHeader(described []byte) []byte {
	return fmt.Appendf(nil, "%s, version %d, header %x\n// %s\n", fileMagic, fileVersion, sha256.Sum256(described), described)
}

// ReadFile reads the file form to its end. It returns a table only if header and text match their digests, which detect torn
// writes, bad disks and edits; they are no signature. The error wraps ErrDamaged, comes from r, or means that the file is no
// table file.
func ReadFile(r io.Reader) (*Table, FileMeta, error) {
	in := bufio.NewReaderSize(r, maxFileHeader)
	meta, err := readFileHeader(in)
	if err != nil {
		return nil, FileMeta{}, err
	}
	d := NewDecoder(nil, math.MaxInt64)
	if _, err := io.Copy(d, in); err != nil {
		return nil, FileMeta{}, err
	}
	if d.line < len(d.part) {
		return nil, FileMeta{}, fmt.Errorf("%w: its last line has no end", ErrDamaged)
	}
	t, err := d.Table(meta.Revision, meta.Time)
	if err != nil {
		return nil, FileMeta{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if t.Digest() != meta.Digest {
		return nil, FileMeta{}, fmt.Errorf("%w: text has digest %s, header has %s", ErrDamaged, t.Digest(), meta.Digest)
	}
	return t, meta, nil
}

func readFileHeader(in *bufio.Reader) (meta FileMeta, err error) {
	head, err := in.Peek(maxFileHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return FileMeta{}, err
	}
	if !bytes.HasPrefix(head, []byte(fileMagic)) {
		return FileMeta{}, errors.New("not a table file")
	}
	_, rest, _ := bytes.Cut(head, []byte("\n// "))
	described, _, _ := bytes.Cut(rest, []byte{'\n'})
	want := fileHeader(described)
	if !bytes.HasPrefix(head, want) {
		return FileMeta{}, fmt.Errorf("%w: its header is not of version %d, or does not match its digest", ErrDamaged, fileVersion)
	}
	if err := json.Unmarshal(described, &meta); err != nil {
		return FileMeta{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	_, err = in.Discard(len(want))
	return meta, err
}
