package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Point holds the measurements at one size: figures by "Benchmark/case unit", without the word Benchmark and the number of
// processors.
type Point map[string]float64

// Measurements holds the measurements at all sizes, by factor.
type Measurements struct {
	Machine string           `json:"machine"`
	Points  map[string]Point `json:"points"`
}

func load(name string) (*Measurements, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m := &Measurements{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if m.Points == nil {
		m.Points = map[string]Point{}
	}
	return m, nil
}

func (m *Measurements) save(name string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// record adds the output of go test -bench. It replaces existing figures.
func (m *Measurements) record(factor, output string) error {
	if _, err := strconv.ParseFloat(factor, 64); err != nil {
		return fmt.Errorf("factor %q: %w", factor, err)
	}
	p := m.Points[factor]
	if p == nil {
		p = Point{}
		m.Points[factor] = p
	}
	before := len(p)
	seen := 0
	for line := range strings.Lines(output) {
		if cpu, ok := strings.CutPrefix(line, "cpu: "); ok {
			m.Machine = strings.TrimSpace(cpu)
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
			}
			p[name+" "+fields[i+1]] = value
			seen++
		}
	}
	if seen == 0 {
		return fmt.Errorf("no result of a benchmark in %d bytes (%d figures were there before)", len(output), before)
	}
	return nil
}

// sample is a figure at one size.
type sample struct{ factor, value float64 }

// samples returns the values of a figure by size, without sizes at which it was not measured.
func (m *Measurements) samples(figure string) []sample {
	var all []sample
	for text, p := range m.Points {
		factor, err := strconv.ParseFloat(text, 64)
		if value, ok := p[figure]; err == nil && ok {
			all = append(all, sample{factor, value})
		}
	}
	slices.SortFunc(all, func(a, b sample) int {
		if a.factor < b.factor {
			return -1
		}
		return 1
	})
	return all
}

// factors returns the sizes as written, in order.
func (m *Measurements) factors() []string {
	all := slices.Collect(maps.Keys(m.Points))
	slices.SortFunc(all, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		if x < y {
			return -1
		}
		return 1
	})
	return all
}
