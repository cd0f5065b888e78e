package table

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
const FileVersion = 1

// The file form is a valid eskip document: metadata in comments, then the canonical text and a newline, so that a Skipper can
// start with it and a person can read it. The lines of the header have this order.
const (
	fileMagic    = "// routesrv table, version "
	fileDigest   = "// digest: "
	fileRevision = "// revision: "
	fileRoutes   = "// routes: "
	fileBytes    = "// bytes: "
	fileTime     = "// time: "
	fileSaved    = "// saved: "
	fileOrigin   = "// origin: "
	fileHeader   = "// header: " // digest of the lines above; ends the header
)

// maxFileHeader limits the header, so that a huge file without line ends is not searched to its end.
const maxFileHeader = 64 << 10

// FileMeta is the metadata in the file form of a table. Digest, Revision, Routes, Bytes and Time describe the table: WriteFile
// takes them from the table and ignores these fields of its argument.
type FileMeta struct {
	Digest   Digest
	Revision uint64
	Routes   int
	Bytes    int // of the canonical text
	Time     time.Time

	// Saved is when the file was written or, more useful to a reader, when the source was last read successfully. Zero if
	// unknown.
	Saved time.Time
	// Origin is where the table came from: a URL, or "cluster". It may be any text.
	Origin string
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
	if _, err := io.WriteString(w, t.fileHeader(meta)); err != nil {
		return err
	}
	if _, err := t.writeTo(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (t *Table) fileHeader(meta FileMeta) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d\n", fileMagic, FileVersion)
	fmt.Fprintf(&b, "%s%s\n", fileDigest, t.Digest())
	fmt.Fprintf(&b, "%s%d\n", fileRevision, t.revision)
	fmt.Fprintf(&b, "%s%d\n", fileRoutes, t.Len())
	fmt.Fprintf(&b, "%s%d\n", fileBytes, t.Bytes())
	fmt.Fprintf(&b, "%s%s\n", fileTime, formatFileTime(t.at))
	fmt.Fprintf(&b, "%s%s\n", fileSaved, formatFileTime(meta.Saved))
	fmt.Fprintf(&b, "%s%s\n", fileOrigin, strconv.Quote(meta.Origin)) // quoted, so that it cannot end the comment
	sum := sha256.Sum256([]byte(b.String()))
	fmt.Fprintf(&b, "%s%s\n", fileHeader, hex.EncodeToString(sum[:]))
	return b.String()
}

// ParseFile is [ReadFile] for data in memory.
func ParseFile(data []byte) (*Table, FileMeta, error) {
	return ReadFile(bytes.NewReader(data), int64(len(data)))
}

// ReadFile reads the file form from r, which has size bytes. It parses the text while reading, and returns a table only if header
// and text match their digests. The error wraps ErrForeign, ErrFileVersion, ErrTruncated or ErrDigestMismatch, or comes from r,
// the parser or New.
//
// The digests detect torn writes, bad disks and manual edits. They are not a signature: everyone who can write the file can
// compute them.
//
// The table has the revision and time of the file. If the text is canonical, like everything that a route server sends or
// WriteFile writes, the table also has its bytes and digest: see Parse.
func ReadFile(r io.Reader, size int64) (*Table, FileMeta, error) {
	return NewDecoder(nil, math.MaxInt64).ReadFile(r, size)
}

// ReadFile is the function of this name with a new decoder, which may be one that packs.
func (d *Decoder) ReadFile(r io.Reader, size int64) (*Table, FileMeta, error) {
	in, meta, err := openFile(r, size)
	if err != nil {
		return nil, FileMeta{}, err
	}
	t, err := d.readFileText(in, meta)
	if err != nil {
		return nil, FileMeta{}, err
	}
	return t, meta, nil
}

// openFile reads the header. The text comes next.
func openFile(r io.Reader, size int64) (*bufio.Reader, FileMeta, error) {
	in := bufio.NewReaderSize(r, maxFileHeader)
	head, err := in.Peek(maxFileHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, FileMeta{}, err
	}
	meta, rest, err := parseFileHeader(head)
	if err != nil {
		return nil, FileMeta{}, err
	}
	length := len(head) - len(rest)
	behind := size - int64(length)
	switch {
	case behind <= int64(meta.Bytes): // including the newline after the text
		return nil, FileMeta{}, fmt.Errorf("%w: %d bytes of text, header says %d", ErrTruncated, behind, meta.Bytes)
	case behind > int64(meta.Bytes)+1:
		return nil, FileMeta{}, fmt.Errorf("%w: %d bytes behind the text", ErrDigestMismatch, behind-int64(meta.Bytes))
	}
	if _, err := in.Discard(length); err != nil {
		return nil, FileMeta{}, err
	}
	return in, meta, nil
}

// readFileText reads the part after the header.
func (d *Decoder) readFileText(in *bufio.Reader, meta FileMeta) (*Table, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, d), io.LimitReader(in, int64(meta.Bytes)))
	if err != nil {
		return nil, err
	}
	if n < int64(meta.Bytes) {
		return nil, fmt.Errorf("%w: %d bytes of text, header says %d", ErrTruncated, n, meta.Bytes)
	}
	if err := endFile(in, meta, Digest(sum.Sum(nil))); err != nil {
		return nil, err
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

// endFile reads what follows the text, whose digest is got.
func endFile(in *bufio.Reader, meta FileMeta, got Digest) error {
	last, err := in.ReadByte()
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: no newline behind the text", ErrTruncated)
	case err != nil:
		return err
	case last != '\n':
		return fmt.Errorf("%w: no newline behind the text", ErrDigestMismatch)
	case got != meta.Digest:
		return fmt.Errorf("%w: text has %s, header says %s", ErrDigestMismatch, got, meta.Digest)
	}
	return nil
}

// parseFileHeader returns the metadata and the data after the header.
func parseFileHeader(data []byte) (FileMeta, []byte, error) {
	first, _, complete := cutLine(data)
	version, ok := strings.CutPrefix(first, fileMagic)
	switch {
	case !complete && (ok || strings.HasPrefix(fileMagic, first)):
		return FileMeta{}, nil, fmt.Errorf("%w: within the first line", ErrTruncated)
	case !ok:
		return FileMeta{}, nil, ErrForeign
	case version != strconv.Itoa(FileVersion):
		return FileMeta{}, nil, fmt.Errorf("%w: %q, want %d", ErrFileVersion, version, FileVersion)
	}

	var lines []string
	rest := data
	for {
		line, after, complete := cutLine(rest)
		if !complete {
			return FileMeta{}, nil, fmt.Errorf("%w: within the header", ErrTruncated)
		}
		if sum, ok := strings.CutPrefix(line, fileHeader); ok {
			header := data[:len(data)-len(rest)]
			if got := Digest(sha256.Sum256(header)).String(); got != sum {
				return FileMeta{}, nil, fmt.Errorf("%w: header has %s, and says %s", ErrDigestMismatch, got, sum)
			}
			meta, err := parseFileMeta(lines)
			return meta, after, err
		}
		if !strings.HasPrefix(line, "// ") {
			return FileMeta{}, nil, fmt.Errorf("%w: header line %q", ErrDigestMismatch, line)
		}
		lines = append(lines, line)
		rest = after
	}
}

// cutLine returns the first line of data and what follows it; complete is false if there is no end of line.
func cutLine(data []byte) (line string, rest []byte, complete bool) {
	end := bytes.IndexByte(data[:min(len(data), maxFileHeader)], '\n')
	if end < 0 {
		return string(data[:min(len(data), maxFileHeader)]), nil, false
	}
	return string(data[:end]), data[end+1:], true
}

// parseFileMeta parses the lines of a header whose digest was correct, so an error means that another program wrote it.
func parseFileMeta(lines []string) (FileMeta, error) {
	var meta FileMeta
	fields := []struct {
		prefix string
		parse  func(string) error
	}{
		{fileMagic, func(string) error { return nil }},
		{fileDigest, func(s string) (err error) { meta.Digest, err = ParseDigest(s); return err }},
		{fileRevision, func(s string) (err error) { meta.Revision, err = strconv.ParseUint(s, 10, 64); return err }},
		{fileRoutes, func(s string) (err error) { meta.Routes, err = parseCount(s); return err }},
		{fileBytes, func(s string) (err error) { meta.Bytes, err = parseCount(s); return err }},
		{fileTime, func(s string) (err error) { meta.Time, err = parseFileTime(s); return err }},
		{fileSaved, func(s string) (err error) { meta.Saved, err = parseFileTime(s); return err }},
		{fileOrigin, func(s string) (err error) { meta.Origin, err = strconv.Unquote(s); return err }},
	}
	if len(lines) != len(fields) {
		return FileMeta{}, fmt.Errorf("%w: header has %d lines, want %d", ErrForeign, len(lines), len(fields))
	}
	for i, field := range fields {
		value, ok := strings.CutPrefix(lines[i], field.prefix)
		if !ok {
			return FileMeta{}, fmt.Errorf("%w: header line %q, want %q", ErrForeign, lines[i], field.prefix)
		}
		if err := field.parse(value); err != nil {
			return FileMeta{}, fmt.Errorf("%w: header line %q: %v", ErrForeign, lines[i], err)
		}
	}
	return meta, nil
}

// parseCount parses a number of routes or bytes that fits an int and is not negative.
func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// formatFileTime formats the zero time as "-", because it means unknown and is not an instant.
func formatFileTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func parseFileTime(s string) (time.Time, error) {
	if s == "-" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}
