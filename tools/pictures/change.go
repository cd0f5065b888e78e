package main

import (
	"fmt"
	"strings"
)

// times are the two percentiles of a row of the section "From a write to a proxy", as the document spells them.
type times struct{ p50, p99 string }

// readTimes finds the row of a table with the name, and returns its next two cells.
func readTimes(document, name string) (times, error) {
	_, section, found := strings.Cut(document, "\n## From a write to a proxy\n")
	if !found {
		return times{}, fmt.Errorf(`no section "From a write to a proxy"`)
	}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) >= 4 && strings.TrimSpace(cells[1]) == name {
			return times{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}, nil
		}
	}
	return times{}, fmt.Errorf("no row %q", name)
}

// changePicture shows what happens from a write to the table in every data plane, with the times of docs/performance.md.
func changePicture(performance string) (*picture, error) {
	var all [4]times
	for i, row := range []string{
		"poll and poll: at `/routes`", "watch and stream: at `/routes`",
		"poll and poll: at the proxy's data plane", "watch and stream: at the proxy's data plane",
	} {
		var err error
		if all[i], err = readTimes(performance, row); err != nil {
			return nil, err
		}
	}
	p := &picture{
		title: "What happens on a change: from a write to the API to the table in every proxy",
		desc: fmt.Sprintf("A write is stored. The route server notices it with its next poll, every 3 seconds, or at once by a watch. It compiles the changed object, "+
			"judges the table, hashes it and publishes it. At /routes the change is visible after %s (p50) with polls and %s with a watch. Each data plane fetches it "+
			"with its next poll or gets a delta by a stream, applies and verifies it, and serves it after %s with polls and %s with watch and stream.",
			all[0].p50, all[1].p50, all[2].p50, all[3].p50),
		height: 700,
	}
	const left, right = 20, 330
	p.text("head", "middle", left+145, 36, "poll and poll")
	p.text("head", "middle", right+145, 36, "watch and stream")
	p.box("box", left, 54, 600, 48, "A write to the API: RouteGroup, Ingress, EndpointSlice, …")
	p.down("line", left+145, 102, 134)
	p.down("line", right+145, 102, 134)
	p.box("own", left, 134, 290, 66, "routesrv lists every kind", "every 3 s, by default")
	p.box("own", right, 134, 290, 66, "routesrv gets an event", "with --kubernetes-read=watch")
	p.down("line", left+145, 200, 232)
	p.down("line", right+145, 200, 232)
	p.box("own", left, 232, 600, 80, "One object is compiled, the table judged and published", "The SHA-256 is the new ETag; one block is encoded again,", "and one delta is made for all clients.")
	p.down("line", left+145, 312, 336)
	p.down("line", right+145, 312, 336)
	p.time(left, 336, "at /routes", all[0])
	p.time(right, 336, "at /routes", all[1])
	p.down("line", left+145, 408, 436)
	p.down("line", right+145, 408, 436)
	p.box("own", left, 436, 290, 66, "dataplane-client asks", "every 3 s, with --transport poll")
	p.box("own", right, 436, 290, 66, "dataplane-client is told", "a stream brings the delta, by default")
	p.down("line", left+145, 502, 534)
	p.down("line", right+145, 502, 534)
	p.box("own", left, 534, 600, 48, "It applies the delta, compares the SHA-256, and judges again")
	p.down("line", left+145, 582, 606)
	p.down("line", right+145, 582, 606)
	p.time(left, 606, "in the data plane", all[2])
	p.time(right, 606, "in the data plane", all[3])
	return p, nil
}

// time draws a box with the percentiles.
func (p *picture) time(x, y int, where string, t times) {
	p.frame("box", x, y, 290, 72, where)
	in := len(p.boxes) - 1
	p.write("head", "middle", x+145, y+28, in, "p50 "+t.p50)
	p.write("small", "middle", x+145, y+52, in, where+", p99 "+t.p99)
}
