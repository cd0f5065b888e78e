package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The size of a chart in its own units. A browser scales it to the available width.
const (
	chartWidth  = 320
	chartHeight = 72
	chartPad    = 4 // above and below, so that a line at the edge is not cut
)

// chartSpan limits the period that charts cover.
const (
	maxChartSpan = 6 * time.Hour
	minChartSpan = time.Minute
)

// chart is one chart of the publishes: a line for a lasting quantity, or bars for a quantity of each publish.
type chart struct {
	Title, Unit string
	Now         string // the last value
	Low, High   string // of the scale
	Path, Area  string // of a line
	Bars        []bar
	Marks       []mark
	From        string // label of the left edge
	Summary     string // text alternative
	Empty       string // why the chart is empty
	Width       int
	Height      int
}

// bar is a publish, or several at the same position.
type bar struct{ X, Y, Height, Label string }

// mark is an area where a pointer shows a value of a line.
type mark struct{ X, Width, Label string }

// chartsOf draws the publishes between start and now. The publishes are ordered, the oldest first.
func chartsOf(all []Publish, now time.Time) []chart {
	start := now.Add(-minChartSpan)
	if len(all) > 0 && all[0].Time.Before(start) {
		start = all[0].Time
	}
	if oldest := now.Add(-maxChartSpan); start.Before(oldest) {
		start = oldest
	}
	d := drawing{start: start, now: now}
	for _, p := range all { // the last one before the start sets the level at the left edge
		if p.Time.Before(start) {
			d.all = d.all[:0]
		}
		d.all = append(d.all, p)
	}
	took := func(p Publish) (time.Duration, bool) { return p.Took, p.Took >= 0 }
	held := func(p Publish) (time.Duration, bool) { return p.Most, p.Most > 0 }
	return []chart{
		d.line("Routes", func(p Publish) int { return p.Routes }, thousands),
		d.line("Table size", func(p Publish) int { return p.Bytes }, bytesText),
		d.bars("Time to publish", took, "No publish lately."),
		d.bars("Time to 99 % of the fleet", held, "Nothing is known of a fleet."),
	}
}

type drawing struct {
	start, now time.Time
	all        []Publish
}

// x returns the column for a time.
func (d *drawing) x(at time.Time) int {
	share := float64(at.Sub(d.start)) / float64(d.now.Sub(d.start))
	return int(max(0, min(share, 1)) * chartWidth)
}

func (d *drawing) from() string { return short(d.now.Sub(d.start)) + " ago" }

// y returns the vertical position of a value on a scale.
func y(value, low, high float64) string {
	share := 0.5
	if high > low {
		share = (value - low) / (high - low)
	}
	return strconv.FormatFloat(chartPad+(1-share)*(chartHeight-2*chartPad), 'f', 1, 64)
}

// line draws a quantity that stays constant until the next publish. Of several publishes in one column it draws the lowest, the
// highest and the last.
func (d *drawing) line(title string, value func(Publish) int, text func(int) string) chart {
	c := chart{Title: title, From: d.from(), Width: chartWidth, Height: chartHeight}
	if len(d.all) == 0 {
		c.Empty = "No table yet."
		return c
	}
	low, high := value(d.all[0]), value(d.all[0])
	for _, p := range d.all {
		low, high = min(low, value(p)), max(high, value(p))
	}
	last := value(d.all[len(d.all)-1])
	c.Now, c.Low, c.High = text(last), text(low), text(high)
	c.Summary = fmt.Sprintf("%s now %s; between %s and %s in the last %s.", title, c.Now, c.Low, c.High, short(d.now.Sub(d.start)))
	scaleLow, scaleHigh := float64(low), float64(high)
	if room := scaleHigh * 0.02; scaleHigh-scaleLow < room { // a change of less than two percent must not look like a cliff
		scaleLow, scaleHigh = scaleLow-room/2, scaleHigh+room/2
	}
	at := func(v int) string { return y(float64(v), scaleLow, scaleHigh) }
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %s", d.x(d.all[0].Time), at(value(d.all[0])))
	first := d.x(d.all[0].Time)
	for i := 1; i < len(d.all); {
		x := d.x(d.all[i].Time)
		lowest, highest, end := value(d.all[i]), value(d.all[i]), value(d.all[i])
		for ; i < len(d.all) && d.x(d.all[i].Time) == x; i++ {
			end = value(d.all[i])
			lowest, highest = min(lowest, end), max(highest, end)
		}
		fmt.Fprintf(&path, "H%d", x)
		if lowest != end {
			fmt.Fprintf(&path, "V%s", at(lowest))
		}
		if highest != end {
			fmt.Fprintf(&path, "V%s", at(highest))
		}
		fmt.Fprintf(&path, "V%s", at(end))
	}
	fmt.Fprintf(&path, "H%d", chartWidth)
	c.Path = path.String()
	c.Area = fmt.Sprintf("%sV%dH%dZ", c.Path, chartHeight, first)
	c.Marks = d.marks(func(p Publish) string { return text(value(p)) + " " + strings.ToLower(title) })
	return c
}

// maxMarks limits how many marks a chart has.
const maxMarks = 80

// marks returns the marks of publishes, one for each column.
func (d *drawing) marks(text func(Publish) string) []mark {
	const width = chartWidth / maxMarks
	var all []mark
	for i, p := range d.all {
		column := min(d.x(p.Time)/width, maxMarks-1)
		if i+1 < len(d.all) && min(d.x(d.all[i+1].Time)/width, maxMarks-1) == column {
			continue
		}
		all = append(all, mark{strconv.Itoa(column * width), strconv.Itoa(width), clock(p.Time) + ": " + text(p)})
	}
	return all
}

// bars draws a duration of each publish; of several publishes in one column, the longest.
func (d *drawing) bars(title string, value func(Publish) (time.Duration, bool), empty string) chart {
	const width = chartWidth / maxMarks
	c := chart{Title: title, From: d.from(), Width: chartWidth, Height: chartHeight, Empty: empty}
	type column struct {
		worst time.Duration
		at    time.Time
		count int
	}
	columns := make(map[int]column)
	var longest, last time.Duration
	for _, p := range d.all {
		v, ok := value(p)
		if !ok || p.Time.Before(d.start) {
			continue
		}
		n := min(d.x(p.Time)/width, maxMarks-1)
		col := columns[n]
		if col.count++; v >= col.worst {
			col.worst, col.at = v, p.Time
		}
		columns[n] = col
		longest, last = max(longest, v), v
	}
	if len(columns) == 0 {
		return c
	}
	c.Empty, c.Now, c.Low, c.High = "", durationText(last), "0", durationText(longest)
	c.Summary = fmt.Sprintf("%s: the last one took %s, the longest in the last %s %s.", title, c.Now, short(d.now.Sub(d.start)), c.High)
	for n := range maxMarks {
		col, ok := columns[n]
		if !ok {
			continue
		}
		height := 1.5
		if longest > 0 {
			height = max(height, float64(col.worst)/float64(longest)*(chartHeight-chartPad))
		}
		label := clock(col.at) + ": " + durationText(col.worst)
		if col.count > 1 {
			label += fmt.Sprintf(", the longest of %d", col.count)
		}
		c.Bars = append(c.Bars, bar{
			strconv.Itoa(n * width), strconv.FormatFloat(chartHeight-height, 'f', 1, 64), strconv.FormatFloat(height, 'f', 1, 64), label,
		})
	}
	return c
}
