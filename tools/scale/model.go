package main

import (
	"errors"
	"fmt"
	"math"
)

// The figures of package bench that the model uses.
const (
	figFirstCPU   = "FirstTable cpu-ms/op"
	figQuietCPU   = "PollUnchanged/quiet cpu-ms/op"
	figBusyCPU    = "PollUnchanged/busy cpu-ms/op"
	figChangeCPU  = "PollOneChanged cpu-ms/op"
	figLatency    = "PollOneChanged read-to-table-ms/op"
	figPeak       = "ChangeToFleet/deltas peak-MiB"
	figPolling    = "PollOneChanged peak-MiB"
	figTablesSent = "ChangeToFleet/tables MB-sent/op"
	figDeltasSent = "ChangeToFleet/deltas MB-sent/op"
	figRoutes     = "TableSize routes"
	figIdentity   = "TableSize identity-MB"
	figGzip       = "TableSize gzip-MB"
	figZstd       = "TableSize zstd-MB"
	figStreamCPU  = "Streams/1000 cpu-ms/op"
	figManyCPU    = "Streams/4000 cpu-ms/op"
	figManyMemory = "Streams/4000 KiB/stream" // with fewer streams, the process's other memory dominates
)

// fleetOfBench is the number of clients in the figures of a fleet.
const fleetOfBench = 300

// line is a cost with a fixed part and a part proportional to the size.
type line struct{ fixed, slope float64 }

func (l line) at(factor float64) float64 { return l.fixed + l.slope*factor }

// fitLine returns the line with the least squares of relative errors: 0.1x counts as much as 10x.
func fitLine(samples []sample) (line, error) {
	if len(samples) < 2 {
		return line{}, fmt.Errorf("%d sizes were measured, want two or more", len(samples))
	}
	var w, wx, wy, wxx, wxy float64
	for _, s := range samples {
		if s.value <= 0 {
			return line{}, errors.New("a figure that is not positive")
		}
		weight := 1 / (s.value * s.value)
		w += weight
		wx += weight * s.factor
		wy += weight * s.value
		wxx += weight * s.factor * s.factor
		wxy += weight * s.factor * s.value
	}
	slope := (w*wxy - wx*wy) / (w*wxx - wx*wx)
	l := line{fixed: (wy - slope*wx) / w, slope: slope}
	if first := samples[0].factor; l.at(first) <= 0 || l.slope < 0 {
		return line{}, fmt.Errorf("%.3g + %.3g x does not grow from something: is it a figure of its own size?", l.fixed, l.slope)
	}
	return l, nil
}

// worst returns the largest relative error of the line over the samples.
func (l line) worst(samples []sample) float64 {
	most := 0.0
	for _, s := range samples {
		most = max(most, math.Abs(l.at(s.factor)/s.value-1))
	}
	return most
}

// model computes the cost of a size and a fleet.
type model struct {
	lines map[string]line
	// perStream are the costs of one stream: CPU milliseconds per change, and memory in KiB.
	streamCPU, streamKiB float64
	// deltaMB is how much one change sends to one client.
	deltaMB float64
}

// fitted are the figures that grow with the size.
var fitted = []string{
	figFirstCPU, figBusyCPU, figChangeCPU, figLatency, figPolling, figPeak, figRoutes, figIdentity, figGzip, figZstd,
}

// fit fits the model to the measurements. Constant figures are taken from factor 1.
func fit(m *Measurements) (*model, error) {
	out := &model{lines: make(map[string]line)}
	for _, figure := range fitted {
		l, err := fitLine(m.samples(figure))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", figure, err)
		}
		out.lines[figure] = l
	}
	one := m.Points["1"]
	for _, figure := range []string{figStreamCPU, figManyCPU, figManyMemory, figDeltasSent} {
		if one[figure] == 0 {
			return nil, fmt.Errorf("%s was not measured at factor 1", figure)
		}
	}
	out.streamCPU = max(0, (one[figManyCPU]-one[figStreamCPU])/3000)
	out.streamKiB = one[figManyMemory]
	out.deltaMB = one[figDeltasSent] / fleetOfBench
	return out, nil
}

// root returns the cost for the server that reads the cluster, with clients on streams: CPU milliseconds for one change and one
// poll, and its peak memory in MiB.
func (m *model) root(factor float64, clients int) (cpu, memory float64) {
	return m.lines[figChangeCPU].at(factor) + m.streamCPU*float64(clients),
		m.lines[figPeak].at(factor) + m.streamKiB*float64(clients)/1024
}

// ran is a fleet that was measured, not computed.
type ran struct {
	benchmark string
	streams   int // of proxies
	servers   int
	direct    int // streams of the root
}

// ranHere are the fleets of package bench, all at 1x.
var ranHere = []ran{
	{"Streams/1000", 1000, 1, 1000}, {"Streams/4000", 4000, 1, 4000}, {"Largest/one-tier", 16_000, 1, 16_000}, {"Largest/tree", 16_000, 5, 4},
}

// fleet is a number of proxies that follow one cluster.
type fleet struct {
	proxies int
	fanout  int     // proxies or relays of one server; 0 means one tier
	factor  float64 // of the cluster
	changes float64 // per second
}

// cost is the cost of a fleet.
type cost struct {
	servers  int     // of all tiers
	tiers    int     // of them
	rootCPU  float64 // cores of the server that reads the cluster
	leafCPU  float64 // cores of each of the others; 0 if there are none
	rootMiB  float64
	egress   float64 // Mbit/s of the busiest server, for changes
	restart  float64 // seconds for full tables to all its clients at 1 Gbit/s
	baseline float64 // Mbit/s for full tables in every poll with a change, one tier
}

// pollSeconds is the interval of polls.
const pollSeconds = 3

func (m *model) cost(f fleet) cost {
	c := cost{servers: 1, tiers: 1}
	direct := f.proxies
	if f.fanout > 0 {
		for level := f.proxies; level > f.fanout; {
			level = (level + f.fanout - 1) / f.fanout
			c.servers += level
			c.tiers++
			direct = level
		}
	}
	widest := direct
	if c.tiers > 1 {
		widest = max(direct, f.fanout)
	}
	perPoll := m.lines[figBusyCPU].at(f.factor)
	cores := func(clients int) float64 {
		cpu, _ := m.root(f.factor, clients)
		return f.changes * max(0, cpu-perPoll) / 1000
	}
	c.rootCPU = perPoll/1000/pollSeconds + cores(direct)
	if c.tiers > 1 {
		c.leafCPU = cores(f.fanout)
	}
	_, c.rootMiB = m.root(f.factor, direct)
	c.egress = 8 * f.changes * m.deltaMB * float64(widest)
	c.restart = 8 * m.lines[figZstd].at(f.factor) * float64(widest) / 1000
	c.baseline = 8 * m.lines[figGzip].at(f.factor) * min(f.changes, 1.0/pollSeconds) * float64(f.proxies)
	return c
}
