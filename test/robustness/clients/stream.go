package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// silence is how long a stream may be silent: a heartbeat comes every 15 seconds.
const silence = 45 * time.Second

// longestAdvice limits a server's advice when to come back.
const longestAdvice = 2 * time.Second

// event is one event of a stream.
type event struct {
	begin          time.Duration
	name, id, data string
	size           int64
}

// follow keeps one stream open until it ends, breaks, or falls silent.
func (c *Client) follow(ctx context.Context, u Upstream) {
	if c.plain || c.cfg.Member.Light && c.etag == "" {
		c.poll(ctx, u) // the stream's data was invalid, or a whole table is smaller as a compressed body
		if c.plain || c.etag == "" {
			return
		}
	}
	run := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hush := time.AfterFunc(c.cfg.Timeout, cancel) // until the stream begins
	defer hush.Stop()
	a := c.begin(u)
	fail := func(err error) {
		if run.Err() != nil {
			return // the run is over
		}
		a.End, a.Outcome, a.Why, a.Digest = c.rec.Now(), history.Failed, err.Error(), c.digest
		c.rec.Answer(a)
	}
	url := u.URL + "/routes/watch"
	if c.cfg.Member.Zone != "" {
		url += "?zone=" + c.cfg.Member.Zone
	}
	r, err := c.request(ctx, url)
	if err != nil {
		fail(err)
		return
	}
	r.Header.Set("Accept", "text/event-stream")
	if c.etag != "" {
		r.Header.Set("Last-Event-ID", c.etag)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		fail(err)
		return
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		fail(fmt.Errorf("no stream: status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type")))
		return
	}
	hush.Reset(silence)
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	defer c.settle("unknown")
	for {
		e, err := c.event(in, func() { hush.Reset(silence) })
		if err != nil {
			c.settle("unknown")
			a = c.begin(u)
			fail(fmt.Errorf("stream: %w", err))
			return
		}
		if !c.take(ctx, u, e) {
			return
		}
	}
}

// settle records the table of an event once its state is known from the following event.
func (c *Client) settle(state string) {
	if a := c.pending; a != nil {
		c.pending = nil
		a.State = state
		c.rec.Answer(*a)
	}
}

// event reads one event; it calls heard for each line.
func (c *Client) event(in *bufio.Reader, heard func()) (event, error) {
	var e event
	var data []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) && line != "" {
				err = io.ErrUnexpectedEOF
			}
			return e, err
		}
		heard()
		e.size += int64(len(line))
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			if e.name == "" {
				e.size = 0
				continue // after a comment
			}
			e.data = strings.Join(data, "\n")
			return e, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name, e.begin = value, c.rec.Now()
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		}
	}
}

// take handles an event. It reports whether the stream continues.
func (c *Client) take(ctx context.Context, u Upstream, e event) bool {
	a := c.begin(u)
	a.Begin, a.Status, a.Form, a.ETag, a.Body = e.begin, http.StatusOK, "event", e.id, e.size
	a.Revision = tagRevision(e.id)
	goes := true
	switch e.name {
	case "delta":
		if err := c.delta([]byte(e.data), &a); err != nil {
			a.Outcome, a.Why, goes = history.Refused, err.Error(), false
			break
		}
		a.End, a.Digest = c.rec.Now(), c.digest
		c.pending = &a
		return true
	case "fetch":
		c.whole = true
		c.poll(ctx, u)
		c.whole = false
		return false // the stream counts it as sent; a new one names the client's table again
	case "current":
		a.Outcome = history.Unchanged
		var now struct {
			Read  string `json:"source_read"`
			State string `json:"state"`
		}
		if err := json.Unmarshal([]byte(e.data), &now); err != nil {
			a.Outcome, a.Why = history.Refused, err.Error()
		}
		if read, err := time.Parse(time.RFC3339Nano, now.Read); err == nil {
			a.LastRead = c.rec.Offset(read)
		}
		a.State = now.State
		c.settle(now.State)
	case "reconnect":
		var advice struct {
			After int64 `json:"after_ms"`
		}
		_ = json.Unmarshal([]byte(e.data), &advice)
		a.Outcome, a.Why = history.Unchanged, "reconnect"
		a.End, a.Digest = c.rec.Now(), c.digest
		c.rec.Answer(a)
		pause(ctx, min(max(0, time.Duration(advice.After)*time.Millisecond), longestAdvice))
		return false
	default:
		a.Outcome, a.Why = history.Refused, "unknown event "+e.name
	}
	a.End, a.Digest = c.rec.Now(), c.digest
	c.rec.Answer(a)
	return goes
}

// tagRevision returns the revision in an ETag, or 0.
func tagRevision(etag string) uint64 {
	tag := strings.Trim(etag, `"`)
	if len(tag) < 66 || tag[64] != '.' {
		return 0
	}
	var n uint64
	for _, ch := range tag[65:] {
		if ch < '0' || ch > '9' {
			break
		}
		n = n*10 + uint64(ch-'0')
	}
	return n
}
