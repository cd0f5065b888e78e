// Package timeline draws a history as a page for debugging violations: changes, faults, actions of processes, and the answers of
// each client on one time axis. The page is self-contained.
package timeline

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// Measures of the drawing, in its own units.
const (
	labels = 150  // width of the names of the lanes
	plot   = 1100 // width of the time
	lane   = 18   // height of a lane
	axis   = 24   // height of the axis
)

// maxListed limits the violations listed below the drawing.
const maxListed = 50

// Write writes the page of a history. The violations come from package validate, ordered by time; there may be none. Write
// returns the error of w.
func Write(w io.Writer, h *history.History, violations []validate.Violation) error {
	p := &page{out: bufio.NewWriter(w), h: h, end: endOf(h)}
	p.head(violations)
	lanes := lanesOf(h, p.end, violations)
	p.drawing(lanes, violations)
	p.list(violations)
	p.print("</main>\n</body>\n</html>\n")
	return p.out.Flush()
}

// page is a page being written. Its writer remembers its first error.
type page struct {
	out *bufio.Writer
	h   *history.History
	end time.Duration
}

func (p *page) print(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// endOf returns the time of the last event.
func endOf(h *history.History) time.Duration {
	end := max(h.Run.Duration, h.Run.Settled, time.Millisecond)
	for _, a := range h.Answers {
		end = max(end, a.End)
	}
	for _, f := range h.Faults {
		end = max(end, f.To, f.From)
	}
	for _, e := range h.Events {
		end = max(end, e.At)
	}
	for _, c := range h.Changes {
		end = max(end, c.At)
	}
	return end
}

// x returns the horizontal position of a time.
func (p *page) x(at time.Duration) float64 { return labels + float64(plot)*float64(at)/float64(p.end) }

func (p *page) head(violations []validate.Violation) {
	run := &p.h.Run
	verdict := "no violations"
	if n := len(violations); n > 0 {
		verdict = fmt.Sprintf("%d violations, the first after %s", n, seconds(violations[0].At))
	}
	p.print(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Run %d: %s</title>
<style>%s</style>
</head>
<body>
<main>
<h1>Run of seed %d</h1>
<p class="verdict%s">%s</p>
<p>`, run.Seed, verdict, style, run.Seed, failedClass(violations), html.EscapeString(verdict))
	if run.Plant != "" {
		p.print("Planted fault: %s. ", html.EscapeString(run.Plant))
	}
	p.print("%d members, %d changes, %d faults, %d answers, %d tables, %s. Hover over a mark to see what it is.</p>\n",
		len(run.Members), len(p.h.Changes), len(p.h.Faults), len(p.h.Answers), len(p.h.Tables), seconds(p.end))
}

func failedClass(violations []validate.Violation) string {
	if len(violations) > 0 {
		return " failed"
	}
	return ""
}

// legend explains the marks.
var legend = []struct{ class, text string }{
	{"change", "changes, or a table"}, {"invalid", "invalid or poisonous objects"}, {"mass", "mass deletes and repairs"},
	{"fault", "fault"}, {"event", "process or operator"}, {"unchanged", "nothing new"}, {"failed", "no answer"},
	{"refused", "refused"}, {"violation", "violation"},
}

func (p *page) drawing(lanes []laneOf, violations []validate.Violation) {
	p.print("<p class=\"legend\">")
	for _, l := range legend {
		p.print(`<span><i class="%s"></i>%s</span>`, l.class, l.text)
	}
	height := axis + lane*len(lanes) + 8
	p.print("</p>\n<div class=\"scroll\">\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"What happened when\">\n", labels+plot+10, height)
	p.axis(height)
	for i, l := range lanes {
		p.lane(l, axis+lane*i)
	}
	if len(violations) > 0 {
		x := p.x(violations[0].At)
		p.print("<line class=\"first\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"><title>%s</title></line>\n", x, x, axis-4, height,
			html.EscapeString("first violation: "+violations[0].String()))
	}
	p.print("</svg>\n</div>\n")
}

// axis draws the scale, and when calm began.
func (p *page) axis(height int) {
	step := tick(p.end)
	for at := time.Duration(0); at <= p.end; at += step {
		x := p.x(at)
		p.print("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/><text class=\"tick\" x=\"%.1f\" y=\"12\">%s</text>\n",
			x, x, axis-6, height, x, seconds(at))
	}
	for _, m := range []struct {
		at   time.Duration
		text string
	}{{p.h.Run.Calm, "calm"}, {p.h.Run.Settled, "settled"}} {
		if m.at > 0 {
			x := p.x(m.at)
			p.print("<line class=\"calm\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"><title>%s after %s</title></line>\n", x, x, axis-6, height, m.text, seconds(m.at))
		}
	}
}

// tick returns the distance of the marks on the axis, of which there are about ten.
func tick(end time.Duration) time.Duration {
	for _, step := range []time.Duration{
		10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
		time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	} {
		if end/step <= 14 {
			return step
		}
	}
	return time.Hour
}

func seconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%.3f s", d.Seconds())
}

func (p *page) lane(l laneOf, top int) {
	p.print("<g class=\"lane %s\"><text class=\"name\" x=\"%d\" y=\"%d\">%s<title>%s</title></text><line class=\"base\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n",
		l.class, labels-8, top+13, html.EscapeString(clip(l.name, 24)), html.EscapeString(l.about), labels, labels+plot, top+lane-1, top+lane-1)
	for _, m := range l.marks {
		x, to := p.x(m.from), p.x(m.to)
		y, height := float64(top+3), float64(lane-6)
		if m.share > 0 {
			height *= m.share
			y = float64(top+lane-3) - height
		}
		p.print("<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%s</title></rect>\n", m.class, x, y, max(to-x, 1.5), height,
			html.EscapeString(m.text))
	}
	p.print("</g>\n")
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// list lists the violations.
func (p *page) list(violations []validate.Violation) {
	if len(violations) == 0 {
		return
	}
	p.print("<h2>Violations</h2>\n<table>\n<tr><th>After</th><th>Guarantee</th><th>Member</th><th>Answer</th><th>What</th></tr>\n")
	for i, v := range violations[:min(len(violations), maxListed)] {
		class, answer := "", ""
		if i == 0 {
			class = ` class="firstrow"`
		}
		if v.Index >= 0 {
			answer = fmt.Sprint(v.Index)
		}
		p.print("<tr%s><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", class, seconds(v.At.Round(time.Millisecond)),
			html.EscapeString(v.Validator), html.EscapeString(v.Member), answer, html.EscapeString(clip(v.Text, 600)))
	}
	p.print("</table>\n")
	if n := len(violations) - maxListed; n > 0 {
		p.print("<p>And %d more.</p>\n", n)
	}
}

// style is the style sheet of the page.
const style = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2330;--soft:#68707d;--grid:#e4e7ec;--change:#2f6fdb;--invalid:#b7791f;--mass:#8b5cf6;
--fault:#e08a3c;--event:#0f766e;--unchanged:#c9d3e2;--failed:#9aa3b0;--refused:#d97706;--violation:#d11f2f}
@media(prefers-color-scheme:dark){:root{--bg:#12161d;--fg:#e4e8ef;--soft:#98a2b3;--grid:#252c38;--change:#6ea0ff;--invalid:#e0b050;--mass:#b69cff;
--fault:#e8a465;--event:#4fd1c0;--unchanged:#34435c;--failed:#6b7585;--refused:#f2a33c;--violation:#ff5d6c}}
body{margin:0;background:var(--bg);color:var(--fg);font:14px/1.5 system-ui,sans-serif}
main{max-width:1500px;margin:0 auto;padding:24px}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:28px 0 8px}
.verdict{font-weight:600;margin:0 0 4px}.failed.verdict,.verdict.failed{color:var(--violation)}
.legend span{margin-right:16px;white-space:nowrap;color:var(--soft)}.legend i{display:inline-block;width:10px;height:10px;margin-right:5px;border-radius:2px}
.scroll{overflow-x:auto}svg{width:100%;min-width:900px;height:auto;display:block}
svg text{fill:var(--fg);font:11px system-ui,sans-serif}svg .name{text-anchor:end}svg .tick{text-anchor:middle;fill:var(--soft);font-size:10px}
.grid,.base{stroke:var(--grid);stroke-width:1}.calm{stroke:var(--event);stroke-width:1;stroke-dasharray:4 3}
.first{stroke:var(--violation);stroke-width:1.5}
` + marks + `
table{border-collapse:collapse;width:100%}th{text-align:left;color:var(--soft);font-weight:500}
th,td{padding:4px 10px 4px 0;vertical-align:top;border-bottom:1px solid var(--grid)}td:first-child{white-space:nowrap}td:last-child{overflow-wrap:anywhere}
.firstrow td{color:var(--violation)}
`

// marks are the colours of the marks in the drawing and the legend.
const marks = `
rect.change{fill:var(--change)}i.change{background:var(--change)}rect.invalid{fill:var(--invalid)}i.invalid{background:var(--invalid)}
rect.mass{fill:var(--mass)}i.mass{background:var(--mass)}rect.fault{fill:var(--fault)}i.fault{background:var(--fault)}
rect.event{fill:var(--event)}i.event{background:var(--event)}rect.unchanged{fill:var(--unchanged)}i.unchanged{background:var(--unchanged)}
rect.failed{fill:var(--failed)}i.failed{background:var(--failed)}rect.refused{fill:var(--refused)}i.refused{background:var(--refused)}
rect.violation{fill:var(--violation)}i.violation{background:var(--violation)}
`
