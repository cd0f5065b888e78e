// Package clients implements the clients of a fleet: an unmodified Skipper, a client with deltas, and one with streams. It
// follows docs/reference/protocol.md and shares no code with the product, so that it does not share mistakes either. It records every
// answer.
package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/record"
)

// Upstream is a server that a client asks.
type Upstream struct {
	Name string
	URL  string // base
}

// Config describes a client.
type Config struct {
	Member    history.Member
	Upstreams []Upstream
	Interval  time.Duration // between two requests
	Timeout   time.Duration // of a request
	Seed      uint64
	// NewConnections opens a new connection for each request, as HTTP/1.0 clients and load balancers do.
	NewConnections bool
	// Metrics is the address where a mortal client shows the metrics of a proxy.
	Metrics string
}

// Client is one client. Call Run once.
type Client struct {
	cfg  Config
	rec  *record.Recorder
	rng  *rand.Rand
	http *http.Client

	// The table that it holds.
	etag, digest, text string
	plain              bool            // the last delta was invalid: request a table
	whole              bool            // a stream advises to request one, for which the client names its own: another server may have an older one
	pending            *history.Answer // the table of an event, before its state is known
	dying              bool            // a mortal client that has named a fatal table
	applied            string          // the digest that a mortal client has applied
	metrics            metrics
}

// New returns a client.
func New(cfg Config, rec *record.Recorder) *Client {
	return &Client{
		cfg: cfg, rec: rec, rng: rand.New(rand.NewPCG(cfg.Seed, 2)),
		http: &http.Client{
			Transport: &http.Transport{DisableKeepAlives: cfg.NewConnections, MaxIdleConnsPerHost: 2, DisableCompression: cfg.Member.Kind == history.Stream || cfg.Member.Light},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

// Run sends requests until ctx ends.
func (c *Client) Run(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	if c.cfg.Metrics != "" {
		stop, err := c.metrics.serve(c.cfg.Metrics)
		if err != nil {
			panic(err) // an address of its own
		}
		defer stop()
	}
	for pause(ctx, time.Duration(c.rng.Int64N(int64(c.cfg.Interval)+1))); ctx.Err() == nil; {
		begin := time.Now()
		u := c.cfg.Upstreams[c.rng.IntN(len(c.cfg.Upstreams))]
		switch c.cfg.Member.Kind {
		case history.Stream:
			c.follow(ctx, u)
		default:
			c.poll(ctx, u)
		}
		pause(ctx, c.cfg.Interval-time.Since(begin))
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin returns an answer to be filled in.
func (c *Client) begin(u Upstream) history.Answer {
	return history.Answer{Begin: c.rec.Now(), Client: c.cfg.Member.Name, Server: u.Name, Form: "none", Base: c.etag, Digest: c.digest}
}

func (c *Client) request(ctx context.Context, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.cfg.Member.Name)
	return r, nil
}

func (c *Client) url(u Upstream) string {
	if c.cfg.Member.Zone != "" {
		return u.URL + "/routes/" + c.cfg.Member.Zone
	}
	return u.URL + "/routes"
}

// poll sends one conditional request.
func (c *Client) poll(ctx context.Context, u Upstream) {
	a := c.begin(u)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	err := c.exchange(ctx, u, &a)
	a.End = c.rec.Now()
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return // the run is over
		}
		a.Outcome, a.Why = history.Failed, err.Error()
		var refused refusal
		if errors.As(err, &refused) {
			a.Outcome = history.Refused
		}
	}
	a.Digest = c.digest
	c.rec.Answer(a)
	if c.cfg.Member.Mortal {
		c.mayDie(a.End)
	}
}

// mayDie ends a proxy that has a fatal table. As a Skipper does, it names a table in one request before it applies it. A process of which
// nothing saw that it started would not be evidence, so it lives until its metrics were read: on a busy machine they are read less often.
func (c *Client) mayDie(now time.Duration) {
	fatal := strings.Contains(c.rec.Text(c.digest), history.Fatal)
	switch {
	case fatal && c.dying && c.metrics.wasSeen():
		c.rec.Event(history.Event{At: now, Member: c.cfg.Member.Name, Name: "died", Args: c.digest})
		c.etag, c.digest, c.applied, fatal = "", "", "", false
		c.metrics.restarted()
	case c.digest != c.applied:
		c.applied = c.digest
		c.metrics.hasApplied()
	}
	c.dying = fatal
}

// refusal is why an answer cannot be used.
type refusal string

func (r refusal) Error() string { return string(r) }

func (c *Client) exchange(ctx context.Context, u Upstream, a *history.Answer) error {
	r, err := c.request(ctx, c.url(u))
	if err != nil {
		return err
	}
	if c.etag != "" && !c.plain {
		r.Header.Set("If-None-Match", c.etag)
	}
	if c.cfg.Member.Kind == history.Delta && !c.plain && !c.whole {
		r.Header.Set("A-IM", "eskip-delta")
	}
	if c.cfg.Member.Light {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.headers(resp, a)
	if c.cfg.Member.Light {
		return c.light(resp, a)
	}
	body, err := io.ReadAll(resp.Body)
	a.Body = int64(len(body))
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	switch resp.StatusCode {
	case http.StatusNotModified:
		a.Outcome = history.Unchanged
		return nil
	case http.StatusOK:
		a.Form = "table"
		return c.table(string(body), a)
	case http.StatusIMUsed:
		a.Form = "delta"
		return c.delta(body, a)
	default:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
}

func (c *Client) headers(resp *http.Response, a *history.Answer) {
	h := resp.Header
	a.Status, a.ETag, a.State = resp.StatusCode, h.Get("ETag"), h.Get("X-Table-State")
	a.Revision, _ = strconv.ParseUint(h.Get("X-Revision"), 10, 64)
	if read, err := time.Parse(time.RFC3339Nano, h.Get("X-Source-Read")); err == nil {
		a.LastRead = c.rec.Offset(read)
	}
}

// table handles a full table.
func (c *Client) table(text string, a *history.Answer) error {
	if c.cfg.Member.Light {
		c.hold(a.ETag, tagDigest(a.ETag), "", a)
		return nil
	}
	digest, wrong := c.rec.Table(text)
	if wrong != "" {
		return refusal(wrong)
	}
	if c.cfg.Member.Kind != history.Poller && digest != tagDigest(a.ETag) {
		c.plain = true
		return refusal("the body is not what its ETag names: " + digest)
	}
	if a.ETag == "" {
		return refusal("a table without an ETag")
	}
	c.hold(a.ETag, digest, text, a)
	return nil
}

func (c *Client) delta(body []byte, a *history.Answer) error {
	if c.cfg.Member.Light {
		if err := c.lead(body, tagDigest(a.ETag)); err != nil {
			c.plain = true
			return refusal("delta: " + err.Error())
		}
		c.hold(a.ETag, tagDigest(a.ETag), "", a)
		return nil
	}
	text, err := apply(c.text, c.digest, body, tagDigest(a.ETag))
	if err != nil {
		c.plain = true
		return refusal("delta: " + err.Error())
	}
	digest, wrong := c.rec.Table(text)
	if wrong != "" {
		c.plain = true
		return refusal("delta: " + wrong)
	}
	c.hold(a.ETag, digest, text, a)
	return nil
}

// hold stores the table as the client's table.
func (c *Client) hold(etag, digest, text string, a *history.Answer) {
	c.etag, c.digest, c.plain = etag, digest, false
	if c.cfg.Member.Kind != history.Poller {
		c.text = text
	}
	a.Outcome = history.Applied
}

// tagDigest returns the digest in an ETag, or "".
func tagDigest(etag string) string {
	tag := strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if len(tag) < 64 {
		return ""
	}
	return tag[:64]
}
