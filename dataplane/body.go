package dataplane

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/table"
)

const (
	// maxWindow bounds the memory of a zstd decoder. Encoders use 8 MiB, and up to 32 MiB at their highest level.
	maxWindow = 64 << 20
	// maxHint bounds what is allocated for a text before it has come.
	maxHint = 128 << 20
)

// body reads the body of an answer.
type body struct {
	resp     *http.Response
	limit    int64 // of what is received, and of what it decodes to
	hint     int64 // the size that the text may have
	received prometheus.Counter
}

// read returns the decoded text with its digest. It is whole, as far as the transfer can tell: the length is as announced
// and the encoding has come to its end.
func (b *body) read() (string, table.Digest, *Error) {
	length := b.resp.ContentLength
	if length > b.limit {
		return "", table.Digest{}, failf(ReasonTooLarge, "%d bytes announced, limit %d", length, b.limit)
	}
	raw := &countingReader{r: io.LimitReader(b.resp.Body, b.limit+1)}
	defer func() { b.received.Add(float64(raw.n)) }()

	var text strings.Builder
	text.Grow(int(min(max(b.hint+b.hint/8, length), b.limit, maxHint)))
	hash := sha256.New()
	decoded, err := b.decode(io.MultiWriter(&text, hash), raw)
	if err == nil && decoded <= b.limit {
		_, err = io.Copy(io.Discard, raw) // a decoder must not stop before the end of the transfer, but may
	}
	switch {
	case raw.n > b.limit || decoded > b.limit || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		return "", table.Digest{}, failf(ReasonTooLarge, "more than %d bytes", b.limit)
	case raw.err != nil:
		return "", table.Digest{}, failf(transferReason(raw.err, ReasonLength), "body broke off after %d bytes: %w", raw.n, raw.err)
	case raw.ended && length >= 0 && raw.n != length:
		return "", table.Digest{}, failf(ReasonLength, "%d bytes received, %d announced", raw.n, length)
	case err != nil:
		return "", table.Digest{}, failf(ReasonEncoding, "%w", err)
	}
	var digest table.Digest
	hash.Sum(digest[:0])
	return text.String(), digest, nil
}

// decode writes the decoded body to w, one byte more than the limit at most.
func (b *body) decode(w io.Writer, raw *countingReader) (int64, error) {
	var from io.Reader
	switch encoding := strings.ToLower(b.resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		from = raw
	case "gzip", "x-gzip":
		gz, err := gzip.NewReader(raw)
		if err != nil {
			return 0, fmt.Errorf("gzip: %w", err)
		}
		defer gz.Close()
		from = gz
	case "zstd":
		zs, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(b.limit)), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return 0, fmt.Errorf("zstd: %w", err)
		}
		defer zs.Close()
		from = zs
	default:
		return 0, fmt.Errorf("unknown content encoding %.50q", encoding)
	}
	n, err := io.Copy(w, io.LimitReader(from, b.limit+1))
	if err == nil && raw.n == 0 && from != io.Reader(raw) {
		err = errors.New("no byte of an encoded body")
	}
	return n, err
}

// countingReader counts what is read and remembers why it ended.
type countingReader struct {
	r     io.Reader
	n     int64
	ended bool  // io.EOF was read
	err   error // any other
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	switch err {
	case nil:
	case io.EOF:
		c.ended = true
	default:
		c.err = err
	}
	return n, err
}
