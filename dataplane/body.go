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
	f = b.read(ReasonParse, func(r io.Reader) error {
		_, err := io.Copy(io.MultiWriter(hash, d), r)
		return err
	})
	hash.Sum(digest[:0])
	return digest, f
}

func (b *body) delta() (d *table.Delta, f *Error) {
	f = b.read(ReasonDelta, func(r io.Reader) (err error) {
		d, err = table.ReadDelta(r, b.limit)
		return err
	})
	return d, f
}

// read passes the decoded body to consume, whose error has the given reason unless the transfer is the cause.
func (b *body) read(reason Reason, consume func(io.Reader) error) *Error {
	if length := b.resp.ContentLength; length > b.limit {
		return failf(ReasonTooLarge, "%d bytes announced, limit %d", length, b.limit)
	}
	raw := &limited{r: b.resp.Body, limit: b.limit}
	defer func() { b.received.Add(float64(raw.n)) }()
	text, err := b.decoder(raw)
	if err == nil {
		defer text.Close()
		in := &limited{r: text, limit: b.limit}
		if err = consume(in); in.err == nil && raw.err == nil {
			return reasoned(reason, err)
		}
		err = in.err
	}
	switch {
	case raw.err != nil && !errors.Is(raw.err, table.ErrTooLarge):
		return failf(transferReason(raw.err, ReasonLength), "body broke off after %d bytes: %w", raw.n, raw.err)
	case raw.err != nil || errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = raw.tooLarge()
	}
	return reasoned(ReasonEncoding, err)
}

// reasoned returns an error about a content; nil for nil.
func reasoned(reason Reason, err error) *Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, table.ErrTooLarge):
		reason = ReasonTooLarge
	}
	return failf(reason, "%w", err)
}

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

// limited counts the bytes read, ends with table.ErrTooLarge at the limit, and remembers why reading failed.
type limited struct {
	r        io.Reader
	n, limit int64
	err      error // except io.EOF
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.n += int64(n); l.n > l.limit {
		err = l.tooLarge()
	}
	if err != nil && err != io.EOF {
		l.err = err
	}
	return n, err
}

func (l *limited) tooLarge() error {
	return fmt.Errorf("%w: more than %d bytes", table.ErrTooLarge, l.limit)
}

// memoryShare is the divisor of Config.Memory for one table.
const memoryShare = 4

// limit returns the current maximum size of a table in bytes. A table of the size of the last one, plus half, is never too large
// because of the memory alone.
func (c *Client) limit() int64 {
	if c.cfg.MaxBytes > 0 {
		return c.cfg.MaxBytes
	}
	limit := int64(defaultMaxBytes)
	if c.cfg.Memory > 0 {
		limit = min(limit, c.cfg.Memory/memoryShare)
	}
	if t := c.publisher.Table(); t != nil {
		limit = max(limit, int64(t.Bytes())*3/2)
	}
	return limit
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
