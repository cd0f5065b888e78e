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
	if _, err := t.WriteTo(w); err != nil {
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

// readFileHeader reads the header, whose last line has the digest of the others.
func readFileHeader(in *bufio.Reader) (FileMeta, error) {
	first, complete, err := readLine(in)
	version, ok := strings.CutPrefix(first, fileMagic)
	switch {
	case err != nil:
		return FileMeta{}, err
	case !complete && (ok || strings.HasPrefix(fileMagic, first)):
		return FileMeta{}, fmt.Errorf("%w: within the first line", ErrTruncated)
	case !ok:
		return FileMeta{}, ErrForeign
	case version != strconv.Itoa(FileVersion):
		return FileMeta{}, fmt.Errorf("%w: %q, want %d", ErrFileVersion, version, FileVersion)
	}
	for head := first + "\n"; ; {
		line, complete, err := readLine(in)
		sum, last := strings.CutPrefix(line, fileHeader)
		switch {
		case err != nil:
			return FileMeta{}, err
		case !complete:
			return FileMeta{}, fmt.Errorf("%w: within the header", ErrTruncated)
		case last && Digest(sha256.Sum256([]byte(head))).String() != sum:
			return FileMeta{}, fmt.Errorf("%w: header says %s, and has another", ErrDigestMismatch, sum)
		case last:
			return parseFileMeta(strings.Split(strings.TrimSuffix(head, "\n"), "\n"))
		case !strings.HasPrefix(line, "// ") || len(head) > maxFileHeader:
			return FileMeta{}, fmt.Errorf("%w: header line %q", ErrDigestMismatch, line)
		}
		head += line + "\n"
	}
}

// readLine returns the next line; complete is false if there is no end of line within the limit of a header.
func readLine(in *bufio.Reader) (line string, complete bool, err error) {
	data, err := in.ReadSlice('\n')
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		return string(data), false, nil
	}
	return strings.TrimSuffix(string(data), "\n"), err == nil, err
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
