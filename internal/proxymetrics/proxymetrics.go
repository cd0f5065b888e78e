// Package proxymetrics reads what a Skipper says of itself in its metrics: requests, errors, routes and when it applied a table.
//
// It understands both flavours of Skipper, Prometheus text and the JSON of codahale. Series that are off by default are used where
// they are on; a figure for which there is no series is missing.
//
// # Limits
//
// A document of more than [MaxBytes] is not read to its end, and gives no figures: such a proxy has series for each host or route and
// method. Lines are looked at one after the other, and nothing but the sums is kept.
//
// # Caveats
//
// No proxy says which table it has applied. [Reader.Figures] says "applied" if the count of tables has grown, and processing began, after
// the proxy fetched the table. Times of Skipper are whole seconds, so a table that was fetched within the same second as the one before
// was applied can be called applied too early. A table that is equal as data is never applied, and stays "fetched". Refused routes are
// never removed from the metrics of a Skipper: only what is added means something, hence Figures.RefusedNew.
package proxymetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// Limits of reading.
const (
	// MaxBytes is how long a document may be.
	MaxBytes = 8 << 20
	timeout  = 2 * time.Second
	maxLine  = 64 << 10
)

// Reader reads the metrics of one proxy. Make one with [New]; it is used by one goroutine.
type Reader struct {
	url    string
	client *http.Client
	log    *slog.Logger

	failing bool
	before  *fleet.Figures // of the last time
	fetched time.Time      // of the table that the next two are about
	updates uint64         // before it was fetched
	refused uint64         // before it was fetched
}

// New makes a Reader for the metrics at a URL, http or https.
func New(address string, log *slog.Logger) (*Reader, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("want http(s)://host[:port]/path, without a password")
	}
	transport := &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	return &Reader{url: u.String(), log: log, client: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes the connection that is kept.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// Figures reads the metrics, and says how far the proxy is with the table that it fetched at that time; zero for none. The result is
// nil if there are no metrics, which is logged when it begins and ends.
func (r *Reader) Figures(ctx context.Context, fetched time.Time) (*fleet.Figures, fleet.Applied) {
	f, err := r.read(ctx)
	if ctx.Err() != nil {
		return nil, fleet.AppliedUnknown
	}
	if failed := err != nil; failed != r.failing {
		r.failing = failed
		if failed {
			r.log.Info("no figures of the proxy (--proxy-metrics-url)", "error", err)
		} else {
			r.log.Info("figures of the proxy can be read")
		}
	}
	if err != nil {
		return nil, fleet.AppliedUnknown
	}
	return f, r.judge(f, fetched)
}

// judge compares figures with those before the proxy fetched its table.
func (r *Reader) judge(f *fleet.Figures, fetched time.Time) fleet.Applied {
	// The same moment, told twice as an age, differs by what a report takes.
	if d := fetched.Sub(r.fetched); d > 500*time.Millisecond || d < -500*time.Millisecond {
		r.fetched, r.updates, r.refused = fetched, 0, 0
		if r.before != nil {
			r.updates, r.refused = valueOf(r.before.Updates), total(r.before.Refused)
		}
	}
	if n := valueOf(f.Updates); n < r.updates {
		r.updates, r.refused = 0, 0 // it was restarted
	}
	f.RefusedNew = total(f.Refused) - min(r.refused, total(f.Refused))
	r.before = f
	switch {
	case fetched.IsZero():
		return fleet.AppliedUnknown
	case f.LastApply.Before(fetched.Truncate(time.Second)), f.Updates != nil && *f.Updates <= r.updates:
		return fleet.AppliedFetched
	default:
		return fleet.AppliedDone
	}
}

func valueOf(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

func total(all map[string]uint64) (n uint64) {
	for _, one := range all {
		n += one
	}
	return n
}

// read fetches the metrics.
func (r *Reader) read(ctx context.Context) (*fleet.Figures, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain")
	req.Header.Set("User-Agent", "routesrv-dataplane")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	body := &limited{r: resp.Body, left: MaxBytes}
	f, err := Parse(body)
	if err != nil {
		return nil, err
	}
	f.Time = time.Now()
	return f, nil
}

// limited fails where an io.LimitReader would end.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes", MaxBytes)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
