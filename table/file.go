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
	"strconv"
	"strings"
	"time"
)

// Errors of ParseFile. With each of them there is no table; do not overwrite a file that is ErrForeign.
var (
	ErrForeign        = errors.New("not a table file")
	ErrFileVersion    = errors.New("unsupported version of the table file")
	ErrTruncated      = errors.New("table file is truncated")
	ErrDigestMismatch = errors.New("table file does not match its digest")
)

// FileVersion is the version of the file form that WriteFile writes and ParseFile reads.
const FileVersion = 2

// The file form is a valid eskip document: a header in comments, then the canonical text and a newline, so that a Skipper can
// start with it and a person can read it. The header has three lines: what the file is, its metadata as JSON, and the digest of both.
const (
	fileMagic   = "// routesrv table, version "
	fileComment = "// "
	fileHeader  = "// header: "
)

// maxFileHeader limits the header, so that a huge file without line ends is not searched to its end.
const maxFileHeader = 64 << 10

// FileMeta is the metadata in the file form of a table. Digest, Revision, Routes, Bytes and Time describe the table: WriteFile
// takes them from the table and ignores these fields of its argument.
type FileMeta struct {
	Digest   Digest    `json:"digest"`
	Revision uint64    `json:"revision"`
	Routes   int       `json:"routes"`
	Bytes    int       `json:"bytes"` // of the canonical text
	Time     time.Time `json:"time,omitzero"`

	// Saved is when the file was written or, more useful to a reader, when the source was last read successfully. Zero if
	// unknown.
	Saved time.Time `json:"saved,omitzero"`
	// Origin is where the table came from: a URL, or "cluster". It may be any text.
	Origin string `json:"origin"`
}

// MarshalFile returns the file form of t. It uses Saved and Origin of meta.
func (t *Table) MarshalFile(meta FileMeta) []byte {
	var b bytes.Buffer
	b.Grow(t.Bytes() + 1024)
	_ = t.WriteFile(&b, meta) // a buffer does not fail
	return b.Bytes()
}

// WriteFile writes the file form of t to w without building it in memory first. It uses Saved and Origin of meta. It does not
// write atomically: see internal/durable.
func (t *Table) WriteFile(w io.Writer, meta FileMeta) error {
	meta.Digest, meta.Revision, meta.Routes, meta.Bytes = t.Digest(), t.revision, t.Len(), t.Bytes()
	meta.Time, meta.Saved = t.at.UTC(), meta.Saved.UTC()
	described, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("%s%d\n%s%s\n", fileMagic, FileVersion, fileComment, described)
	if _, err := io.WriteString(w, head+headerSum(head)+"\n"); err != nil {
		return err
	}
	if _, err := t.WriteTo(w); err != nil {
		return err
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// headerSum returns the last line of the header that begins with these lines.
func headerSum(head string) string { return fileHeader + Digest(sha256.Sum256([]byte(head))).String() }

// ParseFile is [ReadFile] for data in memory.
func ParseFile(data []byte) (*Table, FileMeta, error) { return ReadFile(bytes.NewReader(data)) }

// ReadFile reads the file form from r to its end. It parses the text while reading, and returns a table only if header and text match
// their digests. The error wraps ErrForeign, ErrFileVersion, ErrTruncated or ErrDigestMismatch, or comes from r, the parser or New.
//
// The digests detect torn writes, bad disks and manual edits. They are not a signature: everyone who can write the file can
// compute them.
//
// The table has the revision and time of the file. If the text is canonical, like everything that a route server sends or
// WriteFile writes, the table also has its bytes and digest: see [Decoder].
func ReadFile(r io.Reader) (*Table, FileMeta, error) {
	in := bufio.NewReaderSize(r, maxFileHeader)
	meta, err := readFileHeader(in)
	if err != nil {
		return nil, FileMeta{}, err
	}
	t, err := readFileText(in, meta)
	if err != nil {
		return nil, FileMeta{}, err
	}
	return t, meta, nil
}

// readFileText reads the part after the header.
func readFileText(in *bufio.Reader, meta FileMeta) (*Table, error) {
	sum, d := sha256.New(), NewDecoder(nil, math.MaxInt64)
	n, err := io.CopyN(io.MultiWriter(sum, d), in, int64(meta.Bytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	end, err := io.ReadAll(io.LimitReader(in, 2))
	switch got := Digest(sum.Sum(nil)); {
	case err != nil:
		return nil, err
	case len(end) == 0:
		return nil, fmt.Errorf("%w: %d bytes of text, header says %d and a newline", ErrTruncated, n, meta.Bytes)
	case string(end) != "\n":
		return nil, fmt.Errorf("%w: %q behind the text, want a newline", ErrDigestMismatch, end)
	case got != meta.Digest:
		return nil, fmt.Errorf("%w: text has %s, header says %s", ErrDigestMismatch, got, meta.Digest)
	}
	t, err := d.Table(meta.Revision, meta.Time)
	if err != nil {
		return nil, fmt.Errorf("parse table file: %w", err)
	}
	if t.Len() != meta.Routes {
		return nil, fmt.Errorf("%w: %d routes, header says %d", ErrDigestMismatch, t.Len(), meta.Routes)
	}
	return t, nil
}

// readFileHeader reads the header.
func readFileHeader(in *bufio.Reader) (meta FileMeta, err error) {
	first, err := readLine(in)
	version, ours := strings.CutPrefix(first, fileMagic)
	switch {
	case err != nil && !errors.Is(err, ErrTruncated):
		return FileMeta{}, err
	case !ours && (err == nil || !strings.HasPrefix(fileMagic, first)):
		return FileMeta{}, ErrForeign
	case err != nil:
		return FileMeta{}, fmt.Errorf("%w: within the first line", err)
	case version != strconv.Itoa(FileVersion):
		return FileMeta{}, fmt.Errorf("%w: %q, want %d", ErrFileVersion, version, FileVersion)
	}
	described, err := readLine(in)
	var sum string
	if err == nil {
		sum, err = readLine(in)
	}
	if err != nil {
		return FileMeta{}, fmt.Errorf("%w: within the header", err)
	}
	if want := headerSum(first + "\n" + described + "\n"); sum != want {
		return FileMeta{}, fmt.Errorf("%w: last line of the header is %q, want %q", ErrDigestMismatch, sum, want)
	}
	// The digest is correct, so an error means that another program wrote the header.
	if err := json.Unmarshal([]byte(strings.TrimPrefix(described, fileComment)), &meta); err != nil {
		return FileMeta{}, fmt.Errorf("%w: %v", ErrForeign, err)
	}
	return meta, nil
}

// readLine returns the next line. The error is ErrTruncated if it does not end within the limit of a header.
func readLine(in *bufio.Reader) (string, error) {
	data, err := in.ReadSlice('\n')
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		err = ErrTruncated
	}
	return strings.TrimSuffix(string(data), "\n"), err
}
