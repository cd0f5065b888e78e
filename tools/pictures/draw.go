package main

import (
	"fmt"
	"html"
	"strings"
)

// style has the colours of all pictures, those of docs/images/topology.svg, for a light and for a dark page. The fonts are
// those of the reader's system.
const style = `.bg{fill:#ffffff} .head{fill:#1f2328;font-size:18px;font-weight:600} .text{fill:#1f2328;font-size:15px;font-weight:600} .small{fill:#59636e;font-size:14px}
.box{fill:#f6f8fa;stroke:#59636e;stroke-width:1.5} .own{fill:#ddf4ff;stroke:#0969da;stroke-width:2} .stop{fill:#ffebe9;stroke:#cf222e;stroke-width:2}
.idle{fill:none;stroke:#818b98;stroke-width:1.5;stroke-dasharray:5 4} .line{stroke:#0969da;stroke-width:2.5;fill:none} .maybe{stroke:#818b98;stroke-width:2;fill:none;stroke-dasharray:5 4}
.tip{fill:#0969da} .maybetip{fill:#818b98} .rule{stroke:#d1d9e0;stroke-width:1} .strong{fill:#0969da;font-size:15px;font-weight:600}
@media (prefers-color-scheme: dark){
.bg{fill:#0d1117} .head,.text{fill:#f0f6fc} .small{fill:#9198a1}
.box{fill:#151b23;stroke:#9198a1} .own{fill:#121d2f;stroke:#4493f8} .stop{fill:#25171c;stroke:#f85149}
.idle{stroke:#9198a1} .line{stroke:#4493f8} .maybe{stroke:#9198a1}
.tip{fill:#4493f8} .maybetip{fill:#9198a1} .rule{stroke:#3d444d} .strong{fill:#4493f8}
}
`

// Sizes in user units: the width of all pictures, which a telephone shows at more than half size, and the distance between lines.
const (
	width      = 640
	lineHeight = 20
)

// rect is a box that has been drawn.
type rect struct {
	x, y, w, h int
	text       string // its first line, to name it
}

// label is a line of text that has been drawn, with an estimate of what it covers.
type label struct {
	rect
	inside int // the box that it must stay in, an index of boxes; -1 for the picture
}

// picture collects the elements of an SVG. It remembers boxes and texts, so that a test can see whether they fit.
type picture struct {
	title, desc string
	height      int
	body        strings.Builder
	boxes       []rect
	labels      []label
}

// widthOf estimates the width of a text in the widest of the usual system fonts.
func widthOf(class, text string) int {
	per := map[string]float64{"head": 10.2, "text": 8.5, "strong": 8.5, "small": 7.6}[class]
	return int(per * float64(len([]rune(text))))
}

// write draws one line of text. Anchor is start, middle or end, as in SVG.
func (p *picture) write(class, anchor string, x, y, inside int, text string) {
	fmt.Fprintf(&p.body, `<text class="%s" x="%d" y="%d"`, class, x, y)
	w := widthOf(class, text)
	left := x
	switch anchor {
	case "middle":
		left -= w / 2
	case "end":
		left -= w
	}
	if anchor != "start" {
		fmt.Fprintf(&p.body, ` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(&p.body, ">%s</text>\n", html.EscapeString(text))
	p.labels = append(p.labels, label{rect{left, y - 14, w, 18, text}, inside})
}

// text draws lines one below the other, the first with its baseline at y.
func (p *picture) text(class, anchor string, x, y int, lines ...string) {
	for i, line := range lines {
		p.write(class, anchor, x, y+i*lineHeight, -1, line)
	}
}

// box draws a box with a title and small lines below it, all centred.
func (p *picture) box(class string, x, y, w, h int, title string, lines ...string) {
	p.frame(class, x, y, w, h, title)
	p.center(title, lines...)
}

// frame draws an empty box with a name.
func (p *picture) frame(class string, x, y, w, h int, name string) {
	fmt.Fprintf(&p.body, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", class, x, y, w, h)
	p.boxes = append(p.boxes, rect{x, y, w, h, name})
}

// left draws lines in the last box, at its left side: the first as a title.
func (p *picture) left(title string, lines ...string) {
	b := p.boxes[len(p.boxes)-1]
	at := b.y + (b.h-lineHeight*(1+len(lines)))/2 + 15
	p.write("text", "start", b.x+14, at, len(p.boxes)-1, title)
	for i, line := range lines {
		p.write("small", "start", b.x+14, at+(i+1)*lineHeight, len(p.boxes)-1, line)
	}
}

// down draws an arrow that ends at y2. The class is line or maybe.
func (p *picture) down(class string, x, y1, y2 int) {
	tip := map[string]string{"line": "tip", "maybe": "maybetip"}[class]
	fmt.Fprintf(&p.body, `<path class="%s" d="M%d %d V%d"/><path class="%s" d="M%d %d l-6 -10 h12 z"/>`+"\n", class, x, y1, y2-9, tip, x, y2)
}

// rule draws a thin line across.
func (p *picture) rule(x1, y1, x2, y2 int) {
	fmt.Fprintf(&p.body, `<path class="rule" d="M%d %d L%d %d"/>`+"\n", x1, y1, x2, y2)
}

// svg returns the file. The same picture gives the same bytes.
func (p *picture) svg() []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="t d" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif">
<title id="t">%s</title>
<desc id="d">%s</desc>
<style>
%s</style>
<rect class="bg" width="%d" height="%d" rx="8"/>
%s</svg>
`, width, p.height, html.EscapeString(p.title), html.EscapeString(p.desc), style, width, p.height, p.body.String())
}

// center draws lines in the last box, centred: the first as a title.
func (p *picture) center(title string, lines ...string) {
	b := p.boxes[len(p.boxes)-1]
	at := b.y + (b.h-lineHeight*(1+len(lines)))/2 + 15
	p.write("text", "middle", b.x+b.w/2, at, len(p.boxes)-1, title)
	for i, line := range lines {
		p.write("small", "middle", b.x+b.w/2, at+(i+1)*lineHeight, len(p.boxes)-1, line)
	}
}
