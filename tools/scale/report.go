package main

import (
	"fmt"
	"math"
	"strings"
)

// plots returns the charts by file name.
func plots(m *Measurements, mod *model) map[string]plot {
	const size = "size of the cluster (1 is 15,000 Ingresses and 5,000 RouteGroups)"
	measured := func(name, figure string) series { return series{name: name, points: m.samples(figure)} }
	return map[string]plot{
		"cpu": {title: "CPU of the route server", xLabel: size, yLabel: "CPU milliseconds", series: []series{
			measured("first table", figFirstCPU), measured("one object changed", figChangeCPU),
			measured("poll, others changed", figBusyCPU), measured("poll, quiet", figQuietCPU),
		}},
		"memory": {title: "Peak memory with changes", xLabel: size, yLabel: "MiB", series: []series{
			measured("polling", figPolling), measured("and 300 clients", figPeak), mod.drawn("model", figPeak),
		}},
		"bytes": {title: "Bytes", xLabel: size, yLabel: "MB", series: []series{
			measured("table, identity", figIdentity), measured("table, gzip", figGzip), measured("table, zstd", figZstd),
			measured("300 clients, tables", figTablesSent), measured("300 clients, deltas", figDeltasSent),
		}},
		"latency": {title: "Poll with one changed object, from its start to the table", xLabel: size, yLabel: "milliseconds", series: []series{
			measured("measured", figLatency), mod.drawn("model", figLatency),
		}},
		"fleet": {title: "Egress of the busiest server, 1x, one change a second", xLabel: "proxies", yLabel: "Mbit/s", series: []series{
			mod.egress("full tables", 0, true), mod.egress("streams", 0, false), mod.egress("streams, relays", 1000, false),
		}},
	}
}

// drawn returns a line of the model.
func (m *model) drawn(name, figure string) series {
	s := series{name: name, modeled: true}
	for e := -1.0; e <= 1.001; e += 0.1 {
		f := math.Pow(10, e)
		s.points = append(s.points, sample{f, m.lines[figure].at(f)})
	}
	return s
}

// egress returns the line for fleets at 1x.
func (m *model) egress(name string, fanout int, full bool) series {
	s := series{name: name, modeled: true}
	for e := 2.0; e <= 5.001; e += 0.25 {
		proxies := math.Pow(10, e)
		c := m.cost(fleet{proxies: int(proxies), fanout: fanout, factor: 1, changes: 1})
		value := c.egress
		if full {
			value = c.baseline
		}
		s.points = append(s.points, sample{proxies, value})
	}
	return s
}

// tables returns the parts of the document.
func tables(m *Measurements, mod *model) map[string]string {
	return map[string]string{
		"measured": measuredTable(m, mod), "fleets": fleetTable(mod), "largest": largestTable(m, mod), "machine": m.Machine + "\n",
	}
}

func measuredTable(m *Measurements, mod *model) string {
	var b strings.Builder
	b.WriteString("| |")
	for _, f := range m.factors() {
		b.WriteString(" " + f + "x |")
	}
	b.WriteString(" model | worst error |\n|---|" + strings.Repeat("---|", len(m.factors())+2) + "\n")
	for _, row := range []struct{ name, figure string }{
		{"routes", figRoutes}, {"table, identity, MB", figIdentity}, {"table, gzip, MB", figGzip}, {"table, zstd, MB", figZstd},
		{"first table, CPU ms", figFirstCPU}, {"poll, nothing was written, CPU ms", figQuietCPU},
		{"poll, other objects were written, CPU ms", figBusyCPU}, {"poll with one changed object, CPU ms", figChangeCPU},
		{"poll with one changed object, from its start to the table, ms", figLatency}, {"peak memory, polling with changes, MiB", figPolling},
		{"the same with 300 clients that take deltas, MiB", figPeak},
		{"one change to 300 clients, full tables, MB", figTablesSent}, {"one change to 300 clients, deltas, MB", figDeltasSent},
		{"memory of each of 4,000 streams, KiB", figManyMemory}, {"one change to 1,000 streams, CPU ms", figStreamCPU},
	} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, f := range m.factors() {
			if v, ok := m.Points[f][row.figure]; ok {
				b.WriteString(" " + number(v) + " |")
			} else {
				b.WriteString(" |")
			}
		}
		if l, ok := mod.lines[row.figure]; ok {
			fmt.Fprintf(&b, " %s + %s x | %.0f %% |\n", number(l.fixed), number(l.slope), 100*l.worst(m.samples(row.figure)))
		} else {
			b.WriteString(" | |\n")
		}
	}
	return b.String()
}

func fleetTable(mod *model) string {
	var b strings.Builder
	b.WriteString("| proxies | size | tiers | servers | CPU of the root, cores | CPU of a relay, cores | memory of the root, MiB | " +
		"egress of the busiest, Mbit/s | full tables to all its clients at 1 Gbit/s, s | for comparison: full tables by polling, Mbit/s |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, factor := range []float64{1, 3} {
		for _, proxies := range []int{1000, 10_000, 100_000} {
			for _, fanout := range []int{0, 1000} {
				c := mod.cost(fleet{proxies: proxies, fanout: fanout, factor: factor, changes: 1})
				if fanout > 0 && c.tiers == 1 {
					continue
				}
				leaf := ""
				if c.leafCPU > 0 {
					leaf = number(c.leafCPU)
				}
				fmt.Fprintf(&b, "| %d | %gx | %d | %d | %s | %s | %s | %s | %s | %s |\n", proxies, factor, c.tiers, c.servers,
					number(c.rootCPU), leaf, number(c.rootMiB), number(c.egress), number(c.restart), number(c.baseline))
			}
		}
	}
	return b.String()
}

// largestTable compares the model of a fleet with the measured fleets.
func largestTable(m *Measurements, mod *model) string {
	var b strings.Builder
	b.WriteString("| streams, at 1x | servers | last client after the first, ms | CPU of the root, ms | model | memory of the root, MiB | model | " +
		"CPU of a relay, ms | memory of a relay, MiB |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, ran := range ranHere {
		figure := func(unit string) string {
			if v, ok := m.Points["1"][ran.benchmark+" "+unit]; ok {
				return number(v)
			}
			return ""
		}
		cpu, mem := mod.root(1, ran.direct)
		fmt.Fprintf(&b, "| %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", ran.streams, ran.servers, figure("first-to-last-ms"),
			figure("cpu-ms/op"), number(cpu), figure("peak-MiB"), number(mem), figure("relay-cpu-ms/op"), figure("relay-peak-MiB"))
	}
	return b.String()
}

// number formats with three significant digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 1000:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2g", v)
	}
}
