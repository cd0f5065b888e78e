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

// maxWindow limits the memory of a zstd decoder: no HTTP content may need more (RFC 9659).
const maxWindow = 8 << 20

// body reads the body of an answer.
type body struct {
	resp     *http.Response
	limit    int64 // of the received and of the decoded bytes
	received prometheus.Counter
}

// table reads a table into the decoder, and returns the digest of its text.
func (b *body) table(d *table.Decoder) (digest table.Digest, f *Error) {
	hash := sha256.New()
	f = b.read(func(r io.Reader) *Error {
		if _, err := io.Copy(io.MultiWriter(hash, d), r); errors.Is(err, table.ErrTooLarge) {
			return failf(ReasonTooLarge, "%w", err)
		}
		return nil // read detects a truncated body, and the digest a text that does not parse
	})
	hash.Sum(digest[:0])
	return digest, f
}

// delta reads a delta.
func (b *body) delta() (d *table.Delta, f *Error) {
	f = b.read(func(r io.Reader) *Error {
		var f *Error
		d, f = readDeltaFrom(r, b.limit)
		return f
	})
	return d, f
}

// readDeltaFrom is table.ReadDelta with the reason of a failure.
func readDeltaFrom(r io.Reader, limit int64) (*table.Delta, *Error) {
	d, err := table.ReadDelta(r, limit)
	switch {
	case errors.Is(err, table.ErrTooLarge):
		return nil, failf(ReasonTooLarge, "%w", err)
	case err != nil:
		return nil, failf(ReasonDelta, "%w", err)
	}
	return d, nil
}

// read passes the decoded body to consume, and checks as far as the transfer allows that it is complete: the length is as
// announced and the encoding has reached its end. If not, that error takes precedence over an error of consume, except one about
// the size.
func (b *body) read(consume func(io.Reader) *Error) (f *Error) {
	var decoded int64
	length := b.resp.ContentLength
	if length > b.limit {
		return failf(ReasonTooLarge, "%d bytes announced, limit %d", length, b.limit)
	}
	raw := &countingReader{r: io.LimitReader(b.resp.Body, b.limit+1)}
	defer func() { b.received.Add(float64(raw.n)) }()
	text, err := b.decoder(raw)
	if err == nil {
		in := &countingReader{r: io.LimitReader(text, b.limit+1)}
		if f = consume(in); f == nil || f.Reason != ReasonTooLarge {
			_, _ = io.Copy(io.Discard, in) // in keeps the error
			if in.err == nil && in.n <= b.limit {
				_, in.err = io.Copy(io.Discard, raw) // a decoder may stop before the end of the transfer, so read on to the end
			}
		}
		text.Close()
		if decoded, err = in.n, in.err; err == nil && raw.n == 0 && b.resp.Header.Get("Content-Encoding") != "" {
			err = errors.New("no byte of an encoded body")
		}
	}
	switch {
	case raw.n > b.limit || decoded > b.limit || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		return failf(ReasonTooLarge, "more than %d bytes", b.limit)
	case f != nil && f.Reason == ReasonTooLarge:
		return f
	case raw.err != nil:
		return failf(transferReason(raw.err, ReasonLength), "body broke off after %d bytes: %w", raw.n, raw.err)
	case raw.ended && length >= 0 && raw.n != length:
		return failf(ReasonLength, "%d bytes received, %d announced", raw.n, length)
	case err != nil:
		return failf(ReasonEncoding, "%w", err)
	}
	return f
}

// decoder returns a reader of the decoded body.
func (b *body) decoder(raw io.Reader) (io.ReadCloser, error) {
	switch encoding := strings.ToLower(b.resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return io.NopCloser(raw), nil
	case "gzip", "x-gzip":
		gz, err := gzip.NewReader(raw)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return gz, nil
	case "zstd":
		zs, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(b.limit)), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return zs.IOReadCloser(), nil
	default:
		return nil, fmt.Errorf("unknown content encoding %.50q", encoding)
	}
}

// countingReader counts the bytes read and remembers why reading ended.
type countingReader struct {
	r     io.Reader
	n     int64
	ended bool  // io.EOF was read
	err   error // any other error
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

// The defaults of Config.MaxBytes.
const (
	// growth is how many times larger than the last table the next one may be.
	growth = 4
	// leastMaxBytes is the minimum limit, however small the last table is.
	leastMaxBytes = 64 << 20
	// memoryShare is the divisor of Config.Memory for one table.
	memoryShare = 4
)

// limit returns the current maximum size of a table in bytes: Config.MaxBytes, or a limit derived from the last table and the
// memory. A table of the size of the last one, plus half, is never too large because of the memory alone. While another table is
// held, which takes memory, too, the limit is lower.
func (c *Client) limit() int64 {
	var last, held int64
	if t := c.publisher.Table(); t != nil {
		last = int64(t.Bytes())
	}
	if h := c.publisher.Held(); h != nil {
		held = int64(h.Table.Bytes())
	}
	limit := c.cfg.MaxBytes
	if limit == 0 {
		limit = derivedLimit(last, c.cfg.Memory)
	}
	return max(min(limit, last+last/2), limit/2, limit-held)
}

func derivedLimit(last, memory int64) int64 {
	limit := int64(defaultMaxBytes)
	if last > 0 {
		limit = max(growth*last, leastMaxBytes)
	}
	if memory > 0 {
		limit = min(limit, memory/memoryShare)
	}
	return max(limit, last+last/2)
}

// complete adds the server to an error, and the limit and the remedy if it is about a size. It returns nil for nil.
func (c *Client) complete(s *server, f *Error) *Error {
	if f == nil {
		return nil
	}
	if f.URL = s.name; f.Reason == ReasonTooLarge {
		f.Err = fmt.Errorf("%w (limit %d bytes now; if the table is as large as it is meant to be, set --guard=max-bytes and "+
			"the memory limit)", f.Err, c.limit())
	}
	return f
}
