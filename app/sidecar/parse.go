package sidecar

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/routesrv/routesrv/fleet"
)

// errNoSkipper reports that a document lacks all of the series that every Skipper has.
var errNoSkipper = errors.New("not the metrics of a Skipper")

// maxReasons is how many reasons of refused routes are kept; the others are added up as "other".
const maxReasons = 8

// reasonOfSkipper matches the reasons that a Skipper gives.
var reasonOfSkipper = regexp.MustCompile(`^[a-z_]{1,32}$`)

// figure is what some series count together.
type figure uint8

const (
	requests figure = iota
	noRoute
	routes
	updates
	lastApply // seconds since 1970
	started   // likewise
	// Counters of all answers, and of answers with 5xx: all, by route, by backend.
	served
	served5xx
	routes5xx
	backend5xx
	backendErrors
)

// sums are the sums of the series of each figure. A figure without a series is missing.
type sums struct {
	of      map[figure]float64
	refused map[string]uint64 // routes, by reason
}

// value returns nil if the figure is missing, and 0 for a value that no counter can have.
func (s *sums) value(f figure) *uint64 {
	sum, ok := s.of[f]
	switch {
	case !ok:
		return nil
	case sum > 0 && sum < 1<<63:
		return new(uint64(sum))
	}
	return new(uint64)
}

// time returns the time in a figure, or the zero time.
func (s *sums) time(f figure) time.Time {
	if seconds := s.of[f]; seconds > 0 && seconds < 1<<40 {
		return time.UnixMilli(int64(seconds * 1000)).UTC()
	}
	return time.Time{}
}

// parseMetrics reads the metrics of a Skipper, in either format. Of Prometheus text it reads only the named families.
func parseMetrics(r io.Reader, names []string) (*fleet.Figures, error) {
	s := sums{of: make(map[figure]float64)}
	in := bufio.NewReader(r)
	first, err := in.Peek(1)
	switch {
	case err != nil:
	case first[0] == '{':
		err = s.codahale(in)
	default:
		err = s.prometheus(in, names)
	}
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	f := &fleet.Figures{
		Requests: s.value(requests), NoRoute: s.value(noRoute), Routes: s.value(routes), Updates: s.value(updates), Refused: s.refused,
		LastApply: s.time(lastApply), Started: s.time(started),
	}
	if f.Requests == nil && f.Routes == nil && f.Updates == nil {
		return nil, errNoSkipper
	}
	if f.NoRoute == nil {
		f.NoRoute = new(uint64) // the series appears with the first such request
	}
	if _, ok := s.of[served]; !ok {
		s.of[served5xx] = max(s.of[routes5xx], s.of[backend5xx]) + s.of[backendErrors]
	}
	if f.Errors = s.value(served5xx); f.Errors == nil {
		f.Errors = new(uint64)
	}
	return f, nil
}

// prometheus reads the text format of Prometheus.
func (s *sums) prometheus(in io.Reader, names []string) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&limitedReader{r: &filter{lines: bufio.NewScanner(in), names: names}, limit: maxMetricsText})
	if err != nil {
		return err
	}
	for name, family := range families {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "skipper_"), "_count") // of untyped counts of histograms
		for _, m := range family.Metric {
			if v := valueOf(m); !math.IsNaN(v) {
				s.series(name, m, v)
			}
		}
	}
	return nil
}

// filter passes on the lines of some families, without the buckets of histograms: a proxy that ignores names in the URL sends
// many megabytes.
type filter struct {
	lines *bufio.Scanner
	names []string
	rest  []byte
}

func (f *filter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if !f.lines.Scan() {
			return 0, cmp.Or(f.lines.Err(), io.EOF)
		}
		if line := f.lines.Bytes(); f.passes(line) {
			f.rest = append(append(f.rest, line...), '\n')
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// passes reports whether a line is a type or a value of one of the families.
func (f *filter) passes(line []byte) bool {
	line = bytes.TrimPrefix(line, []byte("# TYPE "))
	return slices.ContainsFunc(f.names, func(name string) bool {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		rest = bytes.TrimPrefix(rest, []byte("_count"))
		return ok && (len(rest) == 0 || rest[0] == '{' || rest[0] == ' ')
	})
}

// valueOf returns the value of a series; for a histogram, the number of its values.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return math.NaN()
}

// series processes a series of a family, whose name comes without prefix and suffix.
func (s *sums) series(family string, m *dto.Metric, value float64) {
	label := func(name string) string {
		for _, l := range m.Label {
			if l.GetName() == name {
				return l.GetValue()
			}
		}
		return ""
	}
	serverError := strings.HasPrefix(label("code"), "5")
	switch family {
	case "route_error_total":
		s.of[noRoute] += value
	case "backend_5xx_duration_seconds":
		s.of[backend5xx] += value
	case "backend_error_total":
		s.of[backendErrors] += value
	case "custom_total", "custom_gauges", "custom_duration_seconds":
		s.custom(label("key"), value)
	case "process_start_time_seconds":
		s.of[started] = value
	case "route_invalid":
		s.refuse(label("reason"), value)
	case "serve_route":
		s.of[served] += value
		if serverError {
			s.of[served5xx] += value
		}
	case "response_duration_seconds":
		if serverError {
			s.of[routes5xx] += value
		}
	}
}

// custom processes a figure that both formats have under the same key.
func (s *sums) custom(key string, value float64) {
	switch {
	case strings.HasPrefix(key, "incoming."):
		s.of[requests] += value
	case key == "routes.total":
		s.of[routes] = value
	case key == "routes.updated_timestamp":
		s.of[lastApply] = value
	case key == "routes.update_latency":
		s.of[updates] = value
	}
}

// refuse counts refused routes.
func (s *sums) refuse(reason string, value float64) {
	if reason == "" || value <= 0 || value > 1e9 {
		return
	}
	if s.refused == nil {
		s.refused = make(map[string]uint64)
	}
	if _, known := s.refused[reason]; !known && (len(s.refused) >= maxReasons || !reasonOfSkipper.MatchString(reason)) {
		reason = "other"
	}
	s.refused[reason] += uint64(value)
}

// codahale reads the JSON document: its groups of metrics, each by its key, have a count or a value.
func (s *sums) codahale(in io.Reader) error {
	var groups map[string]map[string]struct{ Count, Value *float64 }
	if err := json.NewDecoder(&limitedReader{r: in, limit: maxMetricsJSON}).Decode(&groups); err != nil {
		return err
	}
	for _, metrics := range groups {
		for key, m := range metrics {
			n := cmp.Or(m.Count, m.Value)
			if n == nil {
				continue
			}
			switch key = strings.TrimPrefix(key, "skipper."); {
			case key == "routefailure":
				s.of[noRoute] += *n
			case key == "all.backend.5xx":
				s.of[backend5xx] += *n
			case strings.HasPrefix(key, "errors.backend."):
				s.of[backendErrors] += *n
			case strings.HasPrefix(key, "response.5"):
				s.of[routes5xx] += *n
			case strings.HasPrefix(key, "route.invalid."):
				s.refuse(key[strings.LastIndexByte(key, '.')+1:], *n)
			default:
				s.custom(key, *n)
			}
		}
	}
	return nil
}
