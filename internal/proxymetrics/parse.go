package proxymetrics

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// errNoSkipper means that a document has none of the series that every Skipper has.
var errNoSkipper = errors.New("not the metrics of a Skipper")

// maxReasons is how many reasons of refused routes are kept; the others are added up as "other".
const maxReasons = 8

// sums collect the series.
type sums struct {
	requests, noRoute, routes, updates figure
	lastApply                          float64
	// 5xx counters by kind of series, the best first: all answers, routes, backends.
	served, served5xx, routes5xx, backend5xx, backendErrors figure
	refused                                                 map[string]uint64
}

// figure is a sum of series, or none if there was no series.
type figure struct {
	sum float64
	has bool
}

func (f *figure) add(v float64) { f.sum, f.has = f.sum+v, true }

// value returns nil for none. It returns 0 for a value that no counter can have.
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

// Parse reads the metrics of a Skipper, of either flavour.
func Parse(r io.Reader) (*fleet.Figures, error) {
	in := bufio.NewReaderSize(r, maxLine)
	first, err := in.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	var s sums
	if first[0] == '{' {
		err = s.codahale(in)
	} else {
		err = s.prometheus(in)
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
	switch {
	case s.served.has:
		s.served5xx.has = true
		f.Errors = s.served5xx.value()
	default:
		n := figure{has: true}
		n.add(max(s.routes5xx.sum, s.backend5xx.sum) + s.backendErrors.sum)
		f.Errors = n.value()
	}
	return f, nil
}

// prometheus reads text 0.0.4.
func (s *sums) prometheus(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("a line has more than %d bytes", maxLine)
		case err != nil && err != io.EOF:
			return err
		}
		if len(line) > 8 && string(line[:8]) == "skipper_" {
			s.sample(string(line[8:]))
		}
		if err == io.EOF {
			return nil
		}
	}
}

// sample processes one line, without the prefix of its name.
func (s *sums) sample(line string) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return
	}
	name, rest := line[:end], line[end:]
	var to *figure
	switch name {
	case "custom_total", "custom_gauges", "custom_duration_seconds_count", "route_invalid", "serve_route_count", "response_duration_seconds_count":
	case "route_error_total":
		to = &s.noRoute
	case "backend_5xx_duration_seconds_count":
		to = &s.backend5xx
	case "backend_error_total":
		to = &s.backendErrors
	default:
		return
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(strings.TrimSpace(rest), ' ')+1:]), 64)
	if err != nil || math.IsNaN(value) {
		return
	}
	if to != nil {
		to.add(value)
		return
	}
	s.labelled(name, rest, value)
}

// labelled processes a series in which a label says what it counts.
func (s *sums) labelled(name, labels string, value float64) {
	switch name {
	case "custom_total", "custom_gauges", "custom_duration_seconds_count":
		s.custom(label(labels, "key"), value)
	case "route_invalid":
		s.refuse(label(labels, "reason"), value)
	case "serve_route_count":
		s.served.add(value)
		if strings.HasPrefix(label(labels, "code"), "5") {
			s.served5xx.add(value)
		}
	case "response_duration_seconds_count":
		if strings.HasPrefix(label(labels, "code"), "5") {
			s.routes5xx.add(value)
		}
	}
}

// custom processes a figure that both flavours have under one key.
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
	if _, known := s.refused[reason]; !known && (len(s.refused) >= maxReasons || !isWord(reason)) {
		reason = "other"
	}
	s.refused[reason] += uint64(value)
}

// isWord reports whether a reason looks like one of Skipper's: 1 to 32 letters and underscores.
func isWord(s string) bool {
	for _, c := range s {
		if c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(s) <= 32
}

// label returns the value of a label, provided that no character of it is escaped.
func label(labels, name string) string {
	for at := 0; ; {
		i := strings.Index(labels[at:], name+`="`)
		if i < 0 {
			return ""
		}
		i += at
		value := labels[i+len(name)+2:]
		if before := labels[i-1]; before == '{' || before == ',' {
			end := strings.IndexByte(value, '"')
			return value[:max(end, 0)]
		}
		at = i + 1
	}
}

// codahale reads the JSON document metric by metric.
func (s *sums) codahale(in io.Reader) error {
	d := json.NewDecoder(in)
	if _, err := d.Token(); err != nil { // {
		return err
	}
	for d.More() {
		kind, err := d.Token()
		if err != nil {
			return err
		}
		if open, err := d.Token(); err != nil || open != json.Delim('{') {
			return fmt.Errorf("%v: want an object", kind)
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			var one struct {
				Count, Value *float64
			}
			if err := d.Decode(&one); err != nil {
				return err
			}
			if key, ok := key.(string); ok {
				s.metric(strings.TrimPrefix(key, "skipper."), one.Count, one.Value)
			}
		}
		if _, err := d.Token(); err != nil { // }
			return err
		}
	}
	return nil
}

// metric processes one metric of the document.
func (s *sums) metric(key string, count, value *float64) {
	n := count
	if n == nil {
		n = value
	}
	if n == nil {
		return
	}
	switch {
	case key == "routefailure":
		s.noRoute.add(*n)
	case key == "all.backend.5xx":
		s.backend5xx.add(*n)
	case strings.HasPrefix(key, "errors.backend."):
		s.backendErrors.add(*n)
	case strings.HasPrefix(key, "response.5"):
		s.routes5xx.add(*n)
	case strings.HasPrefix(key, "route.invalid."):
		s.refuse(key[strings.LastIndexByte(key, '.')+1:], *n)
	default:
		s.custom(key, *n)
	}
}
