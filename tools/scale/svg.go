package main

import (
	"bytes"
	"fmt"
	"math"
)

// plot is a chart with logarithmic axes.
type plot struct {
	title, xLabel, yLabel string
	series                []series
}

// series is a line of a plot. Points are marked; a model is dashed without marks.
type series struct {
	name    string
	points  []sample
	modeled bool
}

// Sizes in pixels.
const (
	width, height               = 640, 400
	left, right, top, bottom    = 70, 190, 40, 50
	plotWidth, plotHeight       = width - left - right, height - top - bottom
	legendX, legendY, legendGap = width - right + 14, top + 10, 18
)

var colours = []string{"#1b6ca8", "#c8553d", "#3d8b5f", "#8a5aa8", "#7a7a2e", "#555555"}

// svg draws the plot. The same plot gives the same bytes.
func (p plot) svg() []byte {
	x, y := p.axis(func(s sample) float64 { return s.factor }), p.axis(func(s sample) float64 { return s.value })
	px := func(v float64) float64 { return left + plotWidth*x.share(v) }
	py := func(v float64) float64 { return top + plotHeight*(1-y.share(v)) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="14" font-weight="bold">%s</text>`+"\n", left, p.title)
	for _, v := range x.ticks() {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			px(v), top, px(v), top+plotHeight, px(v), top+plotHeight+18, label(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, py(v), left+plotWidth, py(v), left-8, py(v)+4, label(v))
	}
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#888"/>`+"\n", left, top, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", left+plotWidth/2, height-12, p.xLabel)
	fmt.Fprintf(&b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+plotHeight/2, p.yLabel)
	for i, s := range p.series {
		colour, dash := colours[i%len(colours)], ""
		if s.modeled {
			dash = ` stroke-dasharray="5 4"`
		}
		b.WriteString(`<polyline fill="none" stroke-width="1.8" stroke="` + colour + `"` + dash + ` points="`)
		for j, at := range s.points {
			if j > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%.1f,%.1f", px(at.factor), py(at.value))
		}
		b.WriteString("\"/>\n")
		for _, at := range s.points {
			if !s.modeled {
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3.2" fill="%s"/>`+"\n", px(at.factor), py(at.value), colour)
			}
		}
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="2"%s/><text x="%d" y="%d">%s</text>`+"\n",
			legendX, legendY+i*legendGap, legendX+18, legendY+i*legendGap, colour, dash, legendX+24, legendY+i*legendGap+4, s.name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// axis is a logarithmic axis from one power of ten to another.
type axis struct{ low, high int }

func (p plot) axis(of func(sample) float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range p.series {
		for _, at := range s.points {
			if v := of(at); v > 0 { // other values have no logarithm
				low, high = min(low, v), max(high, v)
			}
		}
	}
	a := axis{int(math.Floor(math.Log10(low) + 1e-9)), int(math.Ceil(math.Log10(high) - 1e-9))}
	if a.high == a.low {
		a.high++
	}
	return a
}

func (a axis) share(v float64) float64 {
	return max(0, (math.Log10(max(v, math.SmallestNonzeroFloat64))-float64(a.low))/float64(a.high-a.low))
}

func (a axis) ticks() []float64 {
	var all []float64
	for e := a.low; e <= a.high; e++ {
		all = append(all, math.Pow10(e))
	}
	return all
}

func label(v float64) string { return fmt.Sprintf("%g", v) }
