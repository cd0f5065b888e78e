package shadowdiff

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// TextOptions configure the text. The zero value is for files.
type TextOptions struct {
	Color bool // use escape sequences of terminals
	Width int  // of the lines, in characters; 0 means no limit
}

// The escape sequences in use.
const (
	styleBold   = "\x1b[1m"
	styleDim    = "\x1b[2m"
	styleRed    = "\x1b[31m"
	styleGreen  = "\x1b[32m"
	styleYellow = "\x1b[33m"
	styleCyan   = "\x1b[36m"
	styleMark   = "\x1b[7m" // the part of a line that differs
	styleUnmark = "\x1b[27m"
	styleReset  = "\x1b[0m"
)

// Columns of the text.
const (
	labelIndent = 6
	labelWidth  = 16
	surrounding = 40 // characters shown around the difference in a line
	minRoom     = 20 // for a text, however narrow the lines are
)

// WriteText writes a view for people: the notes, the sides, the differences by owner, and one line of summary. Of a replaced part
// it shows only the surroundings of the difference. It escapes characters that could affect a terminal: the texts come from
// anyone who may write objects.
func WriteText(w io.Writer, v *View, opts TextOptions) error {
	t := textWriter{Writer: bufio.NewWriter(w), opts: opts}
	for _, n := range v.Notes {
		t.line(Printable(n.Name) + ": " + Printable(n.Text))
	}
	if len(v.Notes) > 0 {
		t.line("")
	}
	groups := v.Groups()
	if len(groups) > 0 {
		a, b := v.Labels()
		t.line(t.style(styleRed, "--- "+a+": "+v.A.describe(v.Report.A)))
		t.line(t.style(styleGreen, "+++ "+b+": "+v.B.describe(v.Report.B)))
		t.line("")
	}
	for _, g := range groups {
		t.line(t.style(styleBold, Printable(g.Owner.String())))
		for _, e := range g.Entries {
			t.entry(e)
		}
		t.line("")
	}
	if n := v.Beyond(); n > 0 {
		t.line(Plural(n, "more difference"))
	}
	if v.Err != "" {
		t.line(t.style(styleRed, "trouble: "+Printable(v.Err)))
	}
	t.line(v.Summary())
	return t.Flush()
}

// WriteEntry writes one difference like [WriteText], without its owner.
func WriteEntry(w io.Writer, e Tracked, opts TextOptions) error {
	t := textWriter{Writer: bufio.NewWriter(w), opts: opts}
	t.entry(e)
	return t.Flush()
}

// textWriter keeps the first error until Flush.
type textWriter struct {
	*bufio.Writer
	opts TextOptions
}

func (t *textWriter) line(s string) {
	t.WriteString(s)
	t.WriteByte('\n')
}

func (t *textWriter) style(code, s string) string {
	if !t.opts.Color || s == "" {
		return s
	}
	return code + s + styleReset
}

// signs are the signs before the id, by kind.
var signs = [kindCount]struct{ sign, style string }{
	{"-", styleRed}, {"+", styleGreen}, {"~", styleYellow}, {">", styleCyan},
}

func (t *textWriter) entry(e Tracked) {
	sign := signs[e.Kind]
	head := sign.sign + " " + Printable(e.ID)
	if e.NewID != "" {
		head += " is now " + Printable(e.NewID)
	}
	t.line("  " + t.style(sign.style, head) + t.style(styleDim, history(e)))
	switch {
	case e.Kind == Missing && e.A != nil:
		t.line(strings.Repeat(" ", labelIndent) + t.fit(Printable(e.A.String()), labelIndent))
	case e.Kind == Extra && e.B != nil:
		t.line(strings.Repeat(" ", labelIndent) + t.fit(Printable(e.B.String()), labelIndent))
	}
	for _, p := range e.Parts {
		t.part(p)
	}
}

// history says since when a difference has been seen.
func history(e Tracked) string {
	if e.Count == 0 {
		return ""
	}
	return fmt.Sprintf("  %s, since %s, %s", e.State(), e.FirstSeen.UTC().Format(time.RFC3339), Plural(e.Count, "comparison"))
}

// part writes one or two lines: the parts of A and of B.
func (t *textWriter) part(p Part) {
	const indent = labelIndent + labelWidth + len("- ")
	room := 0
	if t.opts.Width > 0 {
		room = max(t.opts.Width-indent, minRoom)
	}
	label := fmt.Sprintf("%*s%-*s", labelIndent, "", labelWidth, p.Label())
	switch p.Op {
	case Removed:
		t.line(label + t.style(styleRed, "- "+t.fit(Printable(p.Old), indent)))
	case Added:
		t.line(label + t.style(styleGreen, "+ "+t.fit(Printable(p.New), indent)))
	case Moved:
		t.line(label + t.style(styleYellow, "= "+t.fit(Printable(p.Old), indent)))
	default:
		old, new := Printable(p.Old), Printable(p.New)
		prefix, oldMid, newMid, suffix := Mark(old, new)
		prefix, suffix = surroundings(prefix, suffix, max(utf8.RuneCountInString(oldMid), utf8.RuneCountInString(newMid)), room)
		rest := room - utf8.RuneCountInString(prefix) - utf8.RuneCountInString(suffix)
		t.line(label + t.marked(styleRed, "- ", prefix, clip(oldMid, rest, room), suffix))
		t.line(strings.Repeat(" ", labelIndent+labelWidth) + t.marked(styleGreen, "+ ", prefix, clip(newMid, rest, room), suffix))
	}
}

// marked returns a line whose middle is the difference.
func (t *textWriter) marked(style, sign, prefix, mid, suffix string) string {
	if t.opts.Color && mid != "" {
		mid = styleMark + mid + styleUnmark
	}
	return t.style(style, sign+prefix+mid+suffix)
}

// fit truncates a text to the space that remains on the line after the indent.
func (t *textWriter) fit(s string, indent int) string {
	if t.opts.Width == 0 {
		return s
	}
	return cut(s, max(t.opts.Width-indent, minRoom))
}

// clip truncates a text if there is a limit.
func clip(s string, n, limit int) string {
	if limit == 0 {
		return s
	}
	return cut(s, n)
}

// cut truncates s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

// surroundings shortens the text before and after the difference: to what helps a reader, and to the space that the difference
// leaves, half for each. Zero room means no limit.
func surroundings(prefix, suffix string, mid, room int) (string, string) {
	before, after := surrounding, surrounding
	if room > 0 {
		left := max(room-mid, 0)
		before, after = min(before, left/2), min(after, left/2)
	}
	p, s := []rune(prefix), []rune(suffix)
	if len(p) > before {
		head := name(p, before/2)
		p = slices.Concat(head, []rune("…"), p[len(p)-max(before-1-len(head), 0):])
	}
	if len(s) > after {
		s = append(s[:max(after-1, 0):max(after-1, 0)], '…')
	}
	return string(p), string(s)
}

// name returns the beginning of a predicate or filter up to its arguments, if it has at most n characters.
func name(s []rune, n int) []rune {
	if i := slices.Index(s, '('); i >= 0 && i < n {
		return s[:i+1]
	}
	return nil
}
