package proxymetrics

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

// sums collect the series.
type sums struct {
	requests, noRoute, routes, updates figure
	lastApply, started                 float64
	// 5xx counters by kind of series, the best first: all answers, routes, backends.
	served, served5xx, routes5xx, backend5xx, backendErrors figure
	refused                                                 map[string]uint64
}

// figure is the sum of some series; has is false without any series.
type figure struct {
	sum float64
	has bool
}

func (f *figure) add(v float64) { f.sum, f.has = f.sum+v, true }

// value returns nil if the figure is missing. It returns 0 for a value that no counter can have.
func (f figure) value() *uint64 {
	if !f.has {
		return nil
	}
	var n uint64
	if f.sum > 0 && f.sum < 1<<63 {
		n = uint64(f.sum)
	}
	return &n
}

// parse reads the metrics of a Skipper, in either format. Of Prometheus text it reads only the named families.
func parse(r io.Reader, names []string) (*fleet.Figures, error) {
	in := bufio.NewReader(r)
	first, err := in.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	var s sums
	if first[0] == '{' {
		err = s.codahale(in)
	} else {
		err = s.prometheus(in, names)
	}
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return s.figures()
}

func (s *sums) figures() (*fleet.Figures, error) {
	if !s.requests.has && !s.routes.has && !s.updates.has {
		return nil, errNoSkipper
	}
	f := &fleet.Figures{
		Requests: s.requests.value(), NoRoute: s.noRoute.value(), Routes: s.routes.value(), Updates: s.updates.value(), Refused: s.refused,
	}
	if f.NoRoute == nil {
		f.NoRoute = new(uint64) // the series appears with the first such request
	}
	if s.lastApply > 0 && s.lastApply < 1<<40 {
		f.LastApply = time.Unix(int64(s.lastApply), 0).UTC()
	}
	if s.started > 0 && s.started < 1<<40 {
		f.Started = time.UnixMilli(int64(s.started * 1000)).UTC()
	}
	failed := figure{s.served5xx.sum, true}
	if !s.served.has {
		failed.sum = max(s.routes5xx.sum, s.backend5xx.sum) + s.backendErrors.sum
	}
	f.Errors = failed.value()
	return f, nil
}

// prometheus reads the text format of Prometheus.
func (s *sums) prometheus(in io.Reader, names []string) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&limited{r: newFilter(in, names), limit: MaxText})
	if err != nil {
		return err
	}
	for name, family := range families {
		name = strings.TrimPrefix(name, "skipper_")
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

func newFilter(r io.Reader, names []string) *filter {
	return &filter{lines: bufio.NewScanner(r), names: names}
}

func (f *filter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if !f.lines.Scan() {
			return 0, cmp.Or(f.lines.Err(), io.EOF)
		}
		if line := f.lines.Bytes(); f.wants(line) {
			f.rest = append(append(f.rest, line...), '\n')
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// wants reports whether a line is a type or a value of one of the families.
func (f *filter) wants(line []byte) bool {
	line = bytes.TrimPrefix(line, []byte("# TYPE "))
	return slices.ContainsFunc(f.names, func(name string) bool {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		rest = bytes.TrimPrefix(rest, []byte("_count"))
		return ok && (len(rest) == 0 || rest[0] == '{' || rest[0] == ' ')
	})
}

// valueOf returns the value of a series: of a histogram, how many values it has.
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

// series processes a series of a family, whose name comes without its prefix. Untyped counts of histograms keep their suffix.
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
	switch strings.TrimSuffix(family, "_count") {
	case "route_error_total":
		s.noRoute.add(value)
	case "backend_5xx_duration_seconds":
		s.backend5xx.add(value)
	case "backend_error_total":
		s.backendErrors.add(value)
	case "custom_total", "custom_gauges", "custom_duration_seconds":
		s.custom(label("key"), value)
	case "process_start_time_seconds":
		s.started = value
	case "route_invalid":
		s.refuse(label("reason"), value)
	case "serve_route":
		s.served.add(value)
		if serverError {
			s.served5xx.add(value)
		}
	case "response_duration_seconds":
		if serverError {
			s.routes5xx.add(value)
		}
	}
}

// custom processes a figure that both formats have under the same key.
func (s *sums) custom(key string, value float64) {
	switch {
	case strings.HasPrefix(key, "incoming."):
		s.requests.add(value)
	case key == "routes.total":
		s.routes = figure{value, true}
	case key == "routes.updated_timestamp":
		s.lastApply = value
	case key == "routes.update_latency":
		s.updates = figure{value, true}
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

// codahale reads the JSON document: its kinds of metrics, each by its key, have a count or a value.
func (s *sums) codahale(in io.Reader) error {
	var kinds map[string]map[string]struct{ Count, Value *float64 }
	if err := json.NewDecoder(&limited{r: in, limit: maxJSON}).Decode(&kinds); err != nil {
		return err
	}
	for _, metrics := range kinds {
		for key, m := range metrics {
			if n := cmp.Or(m.Count, m.Value); n != nil {
				s.metric(strings.TrimPrefix(key, "skipper."), *n)
			}
		}
	}
	return nil
}

// metric processes one metric of the document.
func (s *sums) metric(key string, n float64) {
	switch {
	case key == "routefailure":
		s.noRoute.add(n)
	case key == "all.backend.5xx":
		s.backend5xx.add(n)
	case strings.HasPrefix(key, "errors.backend."):
		s.backendErrors.add(n)
	case strings.HasPrefix(key, "response.5"):
		s.routes5xx.add(n)
	case strings.HasPrefix(key, "route.invalid."):
		s.refuse(key[strings.LastIndexByte(key, '.')+1:], n)
	default:
		s.custom(key, n)
	}
}
