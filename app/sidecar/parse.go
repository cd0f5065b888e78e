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

// known collects figures.
type known struct {
	fleet.Figures
	skipper bool // there was a series of a Skipper
}

// parseMetrics reads the metrics of a Skipper, in either format.
func parseMetrics(r io.Reader) (*fleet.Figures, error) {
	var k known
	in := bufio.NewReader(r)
	first, err := in.Peek(1)
	switch {
	case err != nil:
	case first[0] == '{':
		err = k.codahale(in)
	default:
		err = k.prometheus(in)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the metrics: %w", err)
	case !k.skipper:
		return nil, errNoSkipper
	}
	return &k.Figures, nil
}

// prometheus reads the text format of Prometheus.
func (k *known) prometheus(in io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(&limitedReader{r: &filter{lines: bufio.NewScanner(in)}, limit: maxMetricsText})
	if err != nil {
		return err
	}
	for name, family := range all {
		name = strings.TrimSuffix(name, "_count") // of untyped counts of histograms
		for _, m := range family.Metric {
			label := make(map[string]string)
			for _, l := range m.Label {
				label[l.GetName()] = l.GetValue()
			}
			switch v := valueOf(m); {
			case math.IsNaN(v):
			case name == "process_start_time_seconds":
				k.Started = timeOf(v)
			case name == "skipper_route_invalid":
				k.refuse(label["reason"], v)
			default:
				k.set(label["key"], v)
			}
		}
	}
	return nil
}

// filter passes on the lines of some families, without the buckets of histograms: a proxy that ignores names in the URL sends
// many megabytes.
type filter struct {
	lines *bufio.Scanner
	rest  []byte
}

func (f *filter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if !f.lines.Scan() {
			return 0, cmp.Or(f.lines.Err(), io.EOF)
		}
		if line := f.lines.Bytes(); passes(line) {
			f.rest = append(append(f.rest, line...), '\n')
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// passes reports whether a line is a type or a value of one of the families.
func passes(line []byte) bool {
	line = bytes.TrimPrefix(line, []byte("# TYPE "))
	return slices.ContainsFunc(families(), func(name string) bool {
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

// set sets the figure with a key.
func (k *known) set(key string, value float64) {
	switch {
	case key == "routes.total":
		k.Routes = countOf(value)
	case key == "routes.updated_timestamp":
		k.LastApply = timeOf(value)
	case key == "routes.update_latency":
		k.Updates = countOf(value)
	case !strings.HasPrefix(key, "incoming."):
		return
	}
	k.skipper = true
}

// refuse counts refused routes.
func (k *known) refuse(reason string, value float64) {
	k.skipper = true
	if reason == "" || value <= 0 || value > 1e9 {
		return
	}
	if k.Refused == nil {
		k.Refused = make(map[string]uint64)
	}
	if _, found := k.Refused[reason]; !found && (len(k.Refused) >= maxReasons || !reasonOfSkipper.MatchString(reason)) {
		reason = "other"
	}
	k.Refused[reason] += uint64(value)
}

// countOf returns 0 for a value that no counter can have.
func countOf(v float64) *uint64 {
	if v > 0 && v < 1<<63 {
		return new(uint64(v))
	}
	return new(uint64)
}

// timeOf returns the time of seconds since 1970, or the zero time for a value that is none.
func timeOf(seconds float64) time.Time {
	if seconds > 0 && seconds < 1<<40 {
		return time.UnixMilli(int64(seconds * 1000)).UTC()
	}
	return time.Time{}
}

// codahale reads the JSON document: its groups of metrics, each by its key, have a count or a value.
func (k *known) codahale(in io.Reader) error {
	var groups map[string]map[string]struct{ Count, Value *float64 }
	if err := json.NewDecoder(&limitedReader{r: in, limit: maxMetricsJSON}).Decode(&groups); err != nil {
		return err
	}
	for _, metrics := range groups {
		for key, m := range metrics {
			n := cmp.Or(m.Count, m.Value)
			key = strings.TrimPrefix(key, "skipper.") // -metrics-prefix may be empty
			switch {
			case n == nil:
			case strings.HasPrefix(key, "route.invalid."):
				k.refuse(key[strings.LastIndexByte(key, '.')+1:], *n)
			default:
				k.set(key, *n)
			}
		}
	}
	return nil
}
