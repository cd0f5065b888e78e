package sidecar

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Limits of reading the metrics of a proxy.
const (
	maxMetrics     = 64 << 20
	maxParsed      = 2 << 20 // of the text that is parsed as a whole
	metricsTimeout = 2 * time.Second
)

// metricsReader reads the metrics of one Skipper, in the format of Prometheus. It must not be used concurrently. A proxy of a
// large cluster has many megabytes of them, so it asks for a few families only (name[]=), and skips the others where that is
// ignored.
type metricsReader struct {
	url     string
	client  *http.Client
	log     *slog.Logger
	failing bool
}

func newMetricsReader(address string, transport http.RoundTripper, log *slog.Logger) (*metricsReader, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("must be http(s)://host[:port]/path, without a password")
	}
	query := u.Query()
	query["name[]"] = append(query["name[]"], families()...)
	u.RawQuery = query.Encode()
	if transport == nil {
		transport = &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}
	}
	return &metricsReader{url: u.String(), log: log, client: &http.Client{
		Transport: transport, Timeout: metricsTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Read reads the metrics. It logs when reading begins to fail and when it works again.
func (r *metricsReader) Read(ctx context.Context) (*figures, error) {
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

func (r *metricsReader) read(ctx context.Context) (*figures, error) {
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
	f, err := parseMetrics(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return f, nil
}

// figures are what the metrics of a Skipper show.
type figures struct {
	started time.Time // of its process; zero if unknown
	applied time.Time // when it began to process its table, in whole seconds; zero if unknown
	table   bool      // it has one
	refused uint64    // routes that it has refused since its start; it never decreases this
}

// families returns the families that are read. The first one has a series for each protocol of requests, whatever the proxy does.
func families() []string {
	return []string{"skipper_custom_total", "skipper_custom_gauges", "skipper_route_invalid", "process_start_time_seconds"}
}

func parseMetrics(in io.Reader) (*figures, error) {
	limited := &io.LimitedReader{R: in, N: maxMetrics}
	var wanted bytes.Buffer
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		line := lines.Bytes()
		if name := line[:max(bytes.IndexAny(line, "{ "), 0)]; slices.Contains(families(), string(name)) {
			wanted.Write(line)
			wanted.WriteByte('\n')
		}
		if wanted.Len() > maxParsed {
			return nil, fmt.Errorf("more than %d MiB of the series that are read", maxParsed>>20)
		}
	}
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("more than %d MiB", maxMetrics>>20)
	case lines.Err() != nil:
		return nil, lines.Err()
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(&wanted)
	if err != nil {
		return nil, err
	}
	f, isSkipper := &figures{}, false
	for name, family := range all {
		for _, m := range family.Metric {
			value := m.GetUntyped().GetValue() // lines with types are not wanted
			if !(value >= 0 && value < 1<<40) {
				continue
			}
			isSkipper = isSkipper || strings.HasPrefix(name, "skipper_")
			switch {
			case name == "process_start_time_seconds":
				f.started = timeOf(value)
			case name == "skipper_route_invalid":
				f.refused += uint64(value)
			case keyOf(m) == "routes.total":
				f.table = true
			case keyOf(m) == "routes.updated_timestamp":
				f.applied = timeOf(value)
			}
		}
	}
	if !isSkipper {
		return nil, errors.New("not the metrics of a Skipper with -metrics-flavour=prometheus")
	}
	return f, nil
}

// keyOf returns the label key of a series.
func keyOf(m *dto.Metric) string {
	for _, l := range m.Label {
		if l.GetName() == "key" {
			return l.GetValue()
		}
	}
	return ""
}

// timeOf returns the time of seconds since 1970; zero for 0.
func timeOf(seconds float64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(seconds * 1000)).UTC()
}
