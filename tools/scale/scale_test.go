package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

const output = `goos: linux
cpu: Some Processor
BenchmarkFirstTable-2   	       3	2100000000 ns/op	      3000 cpu-ms/op	       370.5 peak-MiB
BenchmarkStreams/1000-2 	       3	1000 ns/op	   12.5 KiB/stream
PASS
`

func TestFiguresOfBenchmarksAreRecorded(t *testing.T) {
	m := &Measurements{Points: map[string]Point{}}
	if err := m.record("0.1", output); err != nil {
		t.Fatal(err)
	}
	p := m.Points["0.1"]
	if p[figFirstCPU] != 3000 || p["FirstTable peak-MiB"] != 370.5 || p["Streams/1000 KiB/stream"] != 12.5 || m.Machine != "Some Processor" {
		t.Errorf("recorded %v on %q", p, m.Machine)
	}
	for _, bad := range []struct{ factor, output string }{{"x", output}, {"1", "PASS"}} {
		if err := m.record(bad.factor, bad.output); err == nil {
			t.Errorf("%q at %q is recorded", bad.output, bad.factor)
		}
	}
}

func TestLineIsFoundAgain(t *testing.T) {
	want := line{fixed: 20, slope: 300}
	var samples []sample
	for i, f := range []float64{0.1, 1, 3, 10} {
		samples = append(samples, sample{f, want.at(f) * (1 + 0.02*float64(i%2*2-1))})
	}
	got, err := fitLine(samples)
	if err != nil || math.Abs(got.slope/want.slope-1) > 0.05 || got.worst(samples) > 0.04 {
		t.Errorf("line %+v, error %v, want about %+v", got, err, want)
	}
	if _, err := fitLine(samples[:1]); err == nil {
		t.Error("one size makes a line")
	}
	if l, err := fitLine([]sample{{0.1, 700}, {1, 300}}); err == nil {
		t.Errorf("line %+v goes down", l)
	}
}

// committed returns the measurements in the repository, and skips the test if there are none yet.
func committed(t *testing.T) (*Measurements, *model) {
	t.Helper()
	m, err := load("../../" + data)
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is missing: run make scale", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	mod, err := fit(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, mod
}

// The model is useful only while it agrees with the measurements.
func TestModelSaysWhatWasMeasured(t *testing.T) {
	m, mod := committed(t)
	for _, figure := range fitted {
		limit := 0.35 // times and memory vary on a machine with other work
		if worst := mod.lines[figure].worst(m.samples(figure)); worst > limit {
			t.Errorf("%s: the model is off by %.0f %%, want at most %.0f %%", figure, 100*worst, 100*limit)
		}
	}
	deltas := m.samples(figDeltasSent)
	for _, s := range deltas {
		if s.value > 3*deltas[0].value {
			t.Errorf("a change sends %g MB at %gx and %g MB at %gx: deltas are to be flat", s.value, s.factor, deltas[0].value, deltas[0].factor)
		}
	}
}

// TestModelSaysWhatRanHere compares the model, which is based on up to 4,000 streams, with larger fleets.
func TestModelSaysWhatRanHere(t *testing.T) {
	m, mod := committed(t)
	for _, r := range ranHere {
		cpu, memory := mod.root(1, r.direct)
		for unit, want := range map[string]float64{"cpu-ms/op": cpu, "peak-MiB": memory} {
			got, ok := m.Points["1"][r.benchmark+" "+unit]
			if !ok {
				t.Errorf("%s %s was not measured", r.benchmark, unit)
			}
			if off := math.Abs(got/want - 1); off > 0.5 {
				t.Errorf("%s: %g %s, and the model says %.0f", r.benchmark, got, unit, want)
			}
		}
		if cpu := m.Points["1"][r.benchmark+" relay-cpu-ms/op"]; cpu > 0 {
			if most := mod.cost(fleet{proxies: r.streams, fanout: r.streams / r.direct, factor: 1, changes: 1}).leafCPU * 1000; cpu > most {
				t.Errorf("%s: %g CPU ms for a relay, at most %.0f says the model", r.benchmark, cpu, most)
			}
		}
	}
}

func TestRelaysBoundWhatOneServerSends(t *testing.T) {
	_, mod := committed(t)
	one := mod.cost(fleet{proxies: 100_000, factor: 1, changes: 1})
	tree := mod.cost(fleet{proxies: 100_000, fanout: 1000, factor: 1, changes: 1})
	if tree.tiers != 2 || tree.servers != 101 || tree.egress >= one.egress/50 || tree.rootMiB >= one.rootMiB {
		t.Errorf("one tier %+v, with relays %+v", one, tree)
	}
	if c := mod.cost(fleet{proxies: 5_000_000, fanout: 1000, factor: 1, changes: 1}); c.tiers != 3 || c.servers != 1+5+5000 {
		t.Errorf("%d tiers with %d servers, want 3 with 5006", c.tiers, c.servers)
	}
}

func TestPlotsAreXML(t *testing.T) {
	p := plot{title: "a", series: []series{{name: "b", points: []sample{{0.1, 0}, {1, 3}, {10, 4000}}}, {name: "c", points: []sample{{1, 5}}, modeled: true}}}
	dec := xml.NewDecoder(strings.NewReader(string(p.svg())))
	elements := 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := token.(xml.StartElement); ok {
			elements++
		}
	}
	if elements < 20 {
		t.Errorf("%d elements in %s", elements, p.svg())
	}
}

func TestPartsNeedTheirPlace(t *testing.T) {
	if got, err := fill("a\n<!-- x -->\nold\n<!-- end x -->\nb", "x", "new\n"); err != nil || got != "a\n<!-- x -->\nnew\n<!-- end x -->\nb" {
		t.Errorf("%q, error %v", got, err)
	}
	if _, err := fill("a", "x", "new"); err == nil {
		t.Error("a part without a place is put somewhere")
	}
}
