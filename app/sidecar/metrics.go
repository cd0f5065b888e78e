package sidecar

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

// Limits of reading the metrics of a proxy.
const (
	maxMetrics     = 64 << 20
	maxMetricsText = 2 << 20 // of the Prometheus text that is parsed as a whole
	maxMetricsJSON = 8 << 20
	metricsTimeout = 2 * time.Second
)

// metricsReader reads the metrics of one Skipper: its start, its routes, and whether it has applied a table. It must not be used
// concurrently.
//
// It supports both formats of Skipper, Prometheus text and codahale's JSON. A figure without a series is omitted. A proxy of a
// large cluster has series for each route, host and method, of many megabytes, so it asks only for the families that it uses
// (name[]=), and skips the others in the answer of a proxy that ignores this.
type metricsReader struct {
	url    *url.URL
	client *http.Client
	log    *slog.Logger

	failing bool
	before  *fleet.Figures // from the previous call
	fetched time.Time      // of the table that the next two fields are about
	updates uint64         // before it was fetched
	refused uint64         // before it was fetched
}

// newMetricsReader returns a reader for the metrics at an http or https URL. If transport is nil, it creates one.
func newMetricsReader(address string, transport http.RoundTripper, log *slog.Logger) (*metricsReader, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("must be http(s)://host[:port]/path, without a password")
	}
	if transport == nil {
		transport = &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	}
	return &metricsReader{url: u, log: log, client: &http.Client{
		Transport: transport, Timeout: metricsTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Read reads the metrics. It logs when reading begins to fail and when it works again.
func (r *metricsReader) Read(ctx context.Context) (*fleet.Figures, error) {
	f, err := r.read(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failed := err != nil; failed != r.failing {
		r.failing = failed
		if failed {
			r.log.Warn("cannot read the metrics of the proxy (--proxy-metrics-url)", "error", err)
		} else {
			r.log.Info("reading the metrics of the proxy works again")
		}
	}
	return f, err
}

// Judge sets RefusedNew of the last figures, and reports how far the proxy is with the table that it fetched at the given time;
// zero means none. It compares the figures with the figures of the last call before the proxy fetched that table.
//
// No proxy reports which table it has applied. Judge reports "applied" if, after the proxy fetched the table, its count of tables
// has grown and its processing began. Skipper's times are whole seconds, so a table fetched in the same second in which the
// previous one was applied can be reported as applied too early. A table that is equal as data is never applied, and stays
// "fetched".
func (r *metricsReader) Judge(f *fleet.Figures, fetched time.Time) fleet.Applied {
	// The time comes from an age in a report, so the same moment can differ by the duration of a report.
	if d := fetched.Sub(r.fetched); d > 500*time.Millisecond || d < -500*time.Millisecond {
		r.fetched, r.updates, r.refused = fetched, 0, 0
		if r.before != nil {
			r.updates, r.refused = numberOf(r.before.Updates), total(r.before.Refused)
		}
	}
	if n := numberOf(f.Updates); n < r.updates {
		r.updates, r.refused = 0, 0 // the proxy was restarted
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

func numberOf(n *uint64) uint64 {
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
func (r *metricsReader) read(ctx context.Context) (*fleet.Figures, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address(), nil)
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
	f, err := parseMetrics(&limitedReader{r: resp.Body, limit: maxMetrics})
	if err != nil {
		return nil, err
	}
	f.Time = time.Now()
	return f, nil
}

// families returns the families that are read. The first one has a series for each protocol of requests, whatever the proxy does.
func families() []string {
	return []string{
		"skipper_custom_total", "skipper_custom_gauges", "skipper_custom_duration_seconds", "skipper_route_invalid", "process_start_time_seconds",
	}
}

// address returns the URL with the names of the families. A proxy that does not know this parameter sends everything.
func (r *metricsReader) address() string {
	u := *r.url
	query := u.Query()
	query["name[]"] = append(query["name[]"], families()...)
	u.RawQuery = query.Encode()
	return u.String()
}

// limitedReader returns an error where an io.LimitReader would return EOF.
type limitedReader struct {
	r           io.Reader
	limit, read int
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.read >= l.limit {
		return 0, fmt.Errorf("the metrics are too long: more than %d MiB", l.limit>>20)
	}
	n, err := l.r.Read(p[:min(len(p), l.limit-l.read)])
	l.read += n
	return n, err
}
