package dataplane

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

const (
	// silence is how long a stream may be silent. A heartbeat comes every 15 s.
	silence = 45 * time.Second
	// patience is how long there may be no event, even if other data arrives, such as while a full table arrives slowly.
	patience = 3 * time.Minute
	// leastBusy is the minimum time for which a server that has reached its limit of streams is not asked for one.
	leastBusy = 2 * time.Second
)

// Causes for cancelling the context of a stream.
var (
	errNoAnswer = errors.New("no answer before the deadline")
	errSilence  = fmt.Errorf("nothing heard for %v", silence)
	errNoEvent  = fmt.Errorf("no event for %v", patience)
	errLeft     = errors.New("stream is no longer read")
)

// subscription is a stream: a connection that delivers events. It is owned by Run, and not safe for concurrent use.
type subscription struct {
	server *server
	zone   string
	events chan event // closed at the end of the stream; then err has the reason
	err    *Error
	cancel context.CancelCauseFunc
	reader sync.WaitGroup

	at        table.Digest // the table that it has brought the client to; zero if the client had none
	current   bool         // a "current" event has arrived: server and client agree
	connected time.Time
	lastRead  time.Time     // of the source, as last reported by the stream; zero if never
	fetched   time.Time     // when it last made the client fetch a table; zero if never
	retry     time.Duration // delay after a broken connection, as advised by the stream; 0 if it gave none
}

// open connects to a server. The caller holds polling, and must close the stream.
func (c *Client) open(parent context.Context, s *server, zone string) (*subscription, *Error) {
	ctx, cancel := context.WithCancelCause(parent)
	deadline := time.AfterFunc(c.cfg.Timeout, func() { cancel(errNoAnswer) })
	resp, at, f := c.connect(ctx, s, zone)
	switch {
	case !deadline.Stop() && f == nil:
		_ = resp.Body.Close()
		f = failf(ReasonTimeout, "%w", errNoAnswer)
	case f != nil && errors.Is(context.Cause(ctx), errNoAnswer):
		f.Reason = ReasonTimeout
	}
	if f != nil {
		cancel(errLeft)
		f.URL = s.name
		return nil, f
	}
	st := &subscription{server: s, zone: zone, events: make(chan event), cancel: cancel, at: at, connected: time.Now()}
	st.reader.Go(func() { st.read(ctx, resp, c) })
	return st, nil
}

// connect requests a stream. at is the table from which it continues; zero if there is none.
func (c *Client) connect(ctx context.Context, s *server, zone string) (resp *http.Response, at table.Digest, f *Error) {
	u := s.url.JoinPath("watch")
	if zone != "" {
		u.RawQuery = "zone=" + zone // letters, digits and ._- only
	}
	header := http.Header{"Accept": {api.StreamType}, "Accept-Encoding": {"gzip"}}
	var names []string
	// A stream continues from the served table, unless its text was not canonical.
	if seen := c.tables(); seen.Served != nil && seen.canonical() {
		t := seen.Served.Table
		header.Set(api.HeaderLastEventID, api.Tag{Digest: t.Digest(), Revision: t.Revision()}.String())
		// A server without streams interprets "watch" as a zone: make it answer with 304 instead of a table.
		at, names = t.Digest(), namesOf(t)
	}
	if resp, f = c.request(ctx, http.MethodGet, u, header, names, nil); f != nil {
		return nil, at, f
	}
	if f = checkStream(resp); f != nil {
		_ = resp.Body.Close()
	}
	return resp, at, f
}

// checkStream returns an error for an answer that is not a stream.
func checkStream(resp *http.Response) *Error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	advice := retryAfter(resp)
	switch status := resp.StatusCode; {
	case status == http.StatusOK && kind == api.StreamType:
		return nil
	case status == http.StatusOK, status == http.StatusNotModified, status == http.StatusMethodNotAllowed,
		status == http.StatusNotAcceptable, status == http.StatusNotImplemented, status == http.StatusNotFound && advice == 0:
		return failf(ReasonNoStreams, "status %d with content type %.50q: no streams there", status, kind)
	case status == http.StatusTooManyRequests:
		f := failf(ReasonBusy, "status 429: no room for another stream")
		f.retryAfter = max(advice, leastBusy)
		return f
	default:
		return checkStatus(resp)
	}
}

func (st *subscription) read(ctx context.Context, resp *http.Response, c *Client) {
	defer close(st.events)
	defer func() { st.err = caught(recover(), st.err) }() // tables are parsed while they arrive
	defer resp.Body.Close()
	watch := newWatchdog(resp.Body, st.cancel, c.cfg.Metrics.received)
	defer watch.stop()
	st.err = watch.cause(ctx, st.forward(ctx, &body{resp: resp, limit: maxEvent}, watch))
}

func (st *subscription) forward(ctx context.Context, b *body, watch *watchdog) error {
	from, err := b.decoder(watch)
	if err != nil {
		return err
	}
	defer from.Close()
	for events := newEventReader(from, maxEvent); ; {
		e, err := events.next()
		if err != nil {
			return err
		}
		watch.event()
		select {
		case st.events <- e:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close ends the stream and waits until it has ended.
func (st *subscription) close() {
	st.cancel(errLeft)
	st.reader.Wait()
}

// watchdog reads a body and cancels it if nothing arrives. It does not count time that its reader spends elsewhere.
type watchdog struct {
	body     io.Reader
	received prometheus.Counter
	silent   *time.Timer // runs during a read
	eventual *time.Timer
	err      error // of the body, except io.EOF
}

func newWatchdog(body io.Reader, cancel context.CancelCauseFunc, received prometheus.Counter) *watchdog {
	return &watchdog{
		body: body, received: received,
		silent:   time.AfterFunc(silence, func() { cancel(errSilence) }),
		eventual: time.AfterFunc(patience, func() { cancel(errNoEvent) }),
	}
}

func (w *watchdog) Read(p []byte) (int, error) {
	w.silent.Reset(silence)
	n, err := w.body.Read(p)
	w.silent.Stop()
	w.received.Add(float64(n))
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

func (w *watchdog) event() { w.eventual.Reset(patience) }

func (w *watchdog) stop() {
	w.silent.Stop()
	w.eventual.Stop()
}

// cause explains why a stream ended with err. An error from the body takes precedence over one from the decoder.
func (w *watchdog) cause(ctx context.Context, err error) *Error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errSilence) || errors.Is(cause, errNoEvent):
		return failf(ReasonSilent, "%w", cause)
	case cause != nil:
		return failf(ReasonBroken, "%w", cause)
	case errors.Is(err, errEventTooLarge):
		return failf(ReasonTooLarge, "%w", err)
	case w.err != nil:
		return failf(ReasonBroken, "%w", w.err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return failf(ReasonBroken, "stream ended")
	default:
		return failf(ReasonEncoding, "%w", err)
	}
}

const (
	// maxEvent limits the data of an event. The largest events are deltas, of at most 4 MiB.
	maxEvent = 8 << 20
	// maxLine is the length up to which a line is accepted even if less data is.
	maxLine = 1024
	// maxRetry limits the advice of a server.
	maxRetry = time.Hour
)

// errEventTooLarge means that an event has more data, or another line, than the limit.
var errEventTooLarge = errors.New("event is too large")

// event is a Server-Sent Event.
type event struct {
	name  string        // "message" if the server sends none
	id    string        // of this event; empty if it has none
	data  string        // lines separated by "\n"
	retry time.Duration // last value in the stream; 0 if there was none
}

// eventReader reads a stream of Server-Sent Events, whose lines end with a line feed. An id applies to its own event only. It
// returns an event as soon as its last line has arrived.
type eventReader struct {
	lines *bufio.Scanner
	limit int // of the data of an event
	retry time.Duration
}

func newEventReader(r io.Reader, limit int) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, maxLine), limit+len("data: \r\n"))
	lines.Split(wholeLine)
	return &eventReader{lines: lines, limit: limit}
}

// wholeLine is a [bufio.SplitFunc] that drops a last line without its end.
func wholeLine(data []byte, _ bool) (advance int, line []byte, err error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return 0, nil, nil
	}
	return end + 1, bytes.TrimSuffix(data[:end], []byte("\r")), nil
}

// next waits for the next event. It skips events without data.
func (r *eventReader) next() (event, error) {
	e := event{name: "message"}
	var data bytes.Buffer
	for lines := 0; r.lines.Scan(); {
		line := r.lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			if line != "" {
				continue // a comment
			}
			if lines > 0 {
				e.data, e.retry = data.String(), r.retry
				return e, nil
			}
			e = event{name: "message"}
		case "data":
			if lines++; lines > 1 {
				data.WriteByte('\n')
			}
			if data.WriteString(value); data.Len() > r.limit {
				return event{}, fmt.Errorf("%w: more than %d bytes", errEventTooLarge, r.limit)
			}
		case "event":
			e.name = value
		case "id":
			if e.id = value; strings.ContainsRune(value, 0) {
				e.id = ""
			}
		case "retry":
			if n, err := strconv.ParseUint(value, 10, 32); err == nil {
				r.retry = min(time.Duration(n)*time.Millisecond, maxRetry)
			}
		}
	}
	err := r.lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("%w: a line of more than %d bytes", errEventTooLarge, r.limit)
	}
	return event{}, cmp.Or(err, io.EOF)
}
