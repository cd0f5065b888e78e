package dataplane

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
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
	defer func() {
		if f != nil {
			f.dropped = decoded
		}
	}()
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

// named adds the limit and the remedy to an error about a size.
func (c *Client) named(f *Error) *Error {
	if f.Reason == ReasonTooLarge {
		f.Err = fmt.Errorf("%w (limit %d bytes now; if the table is as large as it is meant to be, set --guard=max-bytes and "+
			"the memory limit)", f.Err, c.limit())
	}
	return f
}

// largeDrop is how many dropped bytes justify a garbage collection.
const largeDrop = 8 << 20

// collect frees memory that was decoded in vain before the next attempt, which may take as much again. There is at most one
// attempt per interval.
func collect(dropped int64) {
	if dropped > largeDrop {
		runtime.GC()
	}
}

// LogDeltaFailed is the log message about a delta that does not verify.
const LogDeltaFailed = "delta does not verify, the full table is fetched"

// Results of deltas, as label values.
const (
	deltaApplied  = "applied"
	deltaRejected = "failed"
)

// deltaRest is how long a server is not asked for deltas after one that did not verify.
const deltaRest = 10 * time.Minute

// fullReason says why a full table is fetched where a delta would have been possible.
type fullReason string

const (
	fullFirst  fullReason = "first"  // there was no table that a delta could apply to
	fullDue    fullReason = "due"    // Config.FullEvery has passed
	fullDelta  fullReason = "delta"  // a delta did not verify
	fullStream fullReason = "stream" // data from a stream did not verify
	fullFetch  fullReason = "fetch"  // a stream asked the client to fetch the table
	fullPlain  fullReason = "plain"  // the server is not asked for deltas
	fullAnswer fullReason = "answer" // the server sent it instead of a delta
)

var fullReasons = []fullReason{
	fullFirst, fullDue, fullDelta, fullStream, fullFetch, fullPlain, fullAnswer,
}

// want is what a request asks for.
type want struct {
	delta  bool       // a delta is acceptable
	named  bool       // the request names the client's tables
	reason fullReason // if a full table comes
}

// want decides what to ask a server for. reason is why it must be a full table; empty if it need not be.
func (c *Client) want(s *server, seen view, reason fullReason) want {
	now := time.Now()
	switch {
	case seen.Served == nil && seen.Held == nil:
		return want{reason: fullFirst}
	case reason == "" && c.isFullDue(seen, now):
		// Name no table, so that the full one is sent. If this fails, do not retry at once: the table may be too large for the
		// deadline, while deltas are not.
		c.fullDue = now.Add(c.fullAfter())
		return want{reason: fullDue}
	case reason != "":
		return want{named: !s.unnamed, reason: reason}
	case s.unnamed || s.otherKind || now.Before(s.noDeltas) || !seen.canonical():
		return want{named: !s.unnamed, reason: fullPlain}
	default:
		return want{delta: true, named: true, reason: fullAnswer}
	}
}

// canonical reports whether deltas can apply to the client's tables: a text that was not canonical is stored in another form.
func (v view) canonical() bool {
	return (v.Served == nil || v.Served.Sent == v.Served.Table.Digest()) && (v.Held == nil || v.Held.Sent == v.Held.Table.Digest())
}

// isFullDue reports whether a full table is due. The caller holds polling.
func (c *Client) isFullDue(seen view, now time.Time) bool {
	if seen.Served == nil {
		return false
	}
	if c.fullDue.IsZero() {
		c.fullDue = now.Add(c.fullAfter()) // for the table of the last-known-good file
	}
	return !now.Before(c.fullDue)
}

// fullAfter returns the time to the next full table, with jitter, because the whole fleet may have fetched the last one at the
// same time.
func (c *Client) fullAfter() time.Duration {
	return time.Duration(float64(c.cfg.FullEvery) * (1 - c.cfg.Random()/2))
}

// countVerified counts the verified content of an answer. The caller holds polling.
func (c *Client) countVerified(a *answer, w want) {
	m := c.cfg.Metrics
	switch {
	case a.notModified:
	case a.ofDelta:
		m.deltas.WithLabelValues(deltaApplied).Inc()
	default:
		m.fullTables.WithLabelValues(string(w.reason)).Inc()
		c.fullDue = time.Now().Add(c.fullAfter())
	}
}

// deltaFailed records that a server has sent a delta that does not verify.
func (c *Client) deltaFailed(s *server, f *Error) {
	c.cfg.Metrics.deltas.WithLabelValues(deltaRejected).Inc()
	s.noDeltas = time.Now().Add(deltaRest)
	c.dedup.Log(slog.LevelWarn, LogDeltaFailed, string(f.Reason)+" "+s.name, "url", s.name, "reason", string(f.Reason), "error", f.Err)
}

// readDelta reads an answer with the status 226 into a, and checks that it is a delta for one of the client's tables.
func readDelta(a *answer, b *body, seen view) *Error {
	a.ofDelta = true
	h := b.resp.Header
	if form := h.Get(api.HeaderIM); !strings.EqualFold(form, api.DeltaForm) {
		return failf(ReasonDelta, "IM is %.50q, want %s", form, api.DeltaForm)
	}
	if kind, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || kind != api.DeltaType {
		return failf(ReasonDelta, "content type %.50q, want %s", h.Get("Content-Type"), api.DeltaType)
	}
	base := api.ParseEntity(h.Get(api.HeaderDeltaBase))
	if !base.Known || seen.find(base.Tag.Digest) == nil {
		return failf(ReasonDelta, "delta for %.100q, which was not named", h.Get(api.HeaderDeltaBase))
	}
	d, f := b.delta()
	if f != nil {
		return f
	}
	if f = a.setDelta(d); f == nil && a.delta.Base != base.Tag.Digest {
		f = failf(ReasonDelta, "delta for %s, Delta-Base says %s", a.delta.Base, base.Text)
	}
	return f
}

// setDelta sets the delta as the content of the answer, if it leads to the table of the tag.
func (a *answer) setDelta(d *table.Delta) *Error {
	if !a.etag.Known || d.Target != a.etag.Tag.Digest {
		return failf(ReasonDelta, "delta leads to %s, tag says %.100q", d.Target, a.etag.Text)
	}
	a.delta, a.digest = d, d.Target
	return nil
}

// applyDelta builds the table that a delta leads to. Its revision comes from the tag, as for a full table.
func applyDelta(seen view, a *answer, at time.Time, limit int64) (*table.Table, *Error) {
	base := seen.find(a.delta.Base)
	if base == nil {
		return nil, failf(ReasonDelta, "delta is for another table: %s is not held", a.delta.Base)
	}
	t, err := base.Table.Apply(a.delta, at, limit)
	if errors.Is(err, table.ErrTooLarge) {
		return nil, failf(ReasonTooLarge, "%w", err)
	}
	if err != nil {
		return nil, failf(ReasonDelta, "%w", err)
	}
	if t.Revision() != a.etag.Tag.Revision {
		t = t.WithRevision(a.etag.Tag.Revision)
	}
	return t, nil
}
