package shadowdiff

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Columns of the text.
const (
	labelIndent = 6
	labelWidth  = 16
	surrounding = 40 // characters shown around the difference in a line
)

// WriteText writes a view for people: the notes, the sides, the differences by owner, and one line of summary. Of a replaced part
// it shows only the surroundings of the difference. It escapes characters that could affect a terminal: the texts come from
// anyone who may write objects.
func WriteText(w io.Writer, v *Comparison) error {
	t := textWriter{bufio.NewWriter(w)}
	for _, n := range v.Notes {
		t.line(Printable(n.Name) + ": " + Printable(n.Text))
	}
	if len(v.Notes) > 0 {
		t.line("")
	}
	groups := v.Groups()
	if len(groups) > 0 {
		a, b := v.Labels()
		t.line("--- " + a + ": " + v.A.describe(v.Report.A))
		t.line("+++ " + b + ": " + v.B.describe(v.Report.B))
		t.line("")
	}
	for _, g := range groups {
		t.line(Printable(g.Owner.String()))
		for _, e := range g.Entries {
			t.entry(e)
		}
		t.line("")
	}
	if n := v.Beyond(); n > 0 {
		t.line(Plural(n, "more difference"))
	}
	if v.Err != "" {
		t.line("trouble: " + Printable(v.Err))
	}
	t.line(v.Summary())
	return t.Flush()
}

// textWriter keeps the first error until Flush.
type textWriter struct{ *bufio.Writer }

func (t *textWriter) line(s string) {
	t.WriteString(s)
	t.WriteByte('\n')
}

// signs stand before the kinds of differences.
const signs = "-+~>"

func (t *textWriter) entry(e Tracked) {
	head := signs[e.Kind:e.Kind+1] + " " + Printable(e.ID)
	if e.NewID != "" {
		head += " is now " + Printable(e.NewID)
	}
	t.line("  " + head + history(e))
	if only := cmp.Or(e.A, e.B); e.Parts == nil && only != nil && e.Kind != Renamed {
		t.line(strings.Repeat(" ", labelIndent) + Printable(only.String()))
	}
	for _, p := range e.Parts {
		t.part(p)
	}
}

func history(e Tracked) string {
	if e.Count == 0 {
		return ""
	}
	return fmt.Sprintf("  %s, since %s, %s", e.State(), e.FirstSeen.UTC().Format(time.RFC3339), Plural(e.Count, "comparison"))
}

// part writes one or two lines: the parts of A and of B.
func (t *textWriter) part(p Part) {
	label := fmt.Sprintf("%*s%-*s", labelIndent, "", labelWidth, p.Label())
	old, new := Printable(p.Old), Printable(p.New)
	switch p.Op {
	case Removed:
		t.line(label + "- " + old)
	case Added:
		t.line(label + "+ " + new)
	case Moved:
		t.line(label + "= " + old)
	default:
		prefix, oldMid, newMid, suffix := Mark(old, new)
		prefix, suffix = surroundings(prefix, suffix)
		t.line(label + "- " + prefix + oldMid + suffix)
		t.line(strings.Repeat(" ", labelIndent+labelWidth) + "+ " + prefix + newMid + suffix)
	}
}

// surroundings shortens the text before and after the difference to what helps a reader.
func surroundings(prefix, suffix string) (string, string) {
	p, s := []rune(prefix), []rune(suffix)
	if len(p) > surrounding {
		head := name(p, surrounding/2)
		p = slices.Concat(head, []rune("…"), p[len(p)-(surrounding-1-len(head)):])
	}
	if len(s) > surrounding {
		s = append(s[:surrounding-1:surrounding-1], '…')
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

// Mark finds the difference between two texts: old is prefix + oldMid + suffix, new is prefix + newMid + suffix. The middles are
// whole words: for 10.0.0.11 and 10.0.0.12 they are 11 and 12.
func Mark(old, new string) (prefix, oldMid, newMid, suffix string) {
	i := 0
	for i < min(len(old), len(new)) && old[i] == new[i] {
		i++
	}
	// Back to the beginning of a word, if it continues in one of the texts, and to the beginning of a rune.
	for i > 0 && (splits(old, i) || splits(new, i)) {
		i--
	}
	j := 0
	for j < min(len(old), len(new))-i && old[len(old)-1-j] == new[len(new)-1-j] {
		j++
	}
	for j > 0 && (splits(old, len(old)-j) || splits(new, len(new)-j)) {
		j--
	}
	return old[:i], old[i : len(old)-j], new[i : len(new)-j], old[len(old)-j:]
}

// splits reports whether a word or a rune continues at s[i].
func splits(s string, i int) bool {
	return i > 0 && i < len(s) && (isWord(s[i-1]) && isWord(s[i]) || !utf8.RuneStart(s[i]))
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Printable escapes invisible characters: control characters, which could affect a terminal, format characters, which can change
// the order of the text, and bytes that are not UTF-8.
func Printable(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case !hidden(r):
			b.WriteString(s[i : i+n])
		case r < utf8.RuneSelf || n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden also returns true for U+FFFD, the decoding of a byte that is not UTF-8.
func hidden(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) ||
		unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// PrintableLines is [Printable] for a text of several lines: line feeds stay.
func PrintableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Printable(l)
	}
	return strings.Join(lines, "\n")
}

// PrintableJSON escapes in JSON what [Printable] escapes in text. Such characters can occur only in strings, so the meaning is
// the same.
func PrintableJSON(text []byte) []byte {
	var b bytes.Buffer
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == 0x7f || r >= utf8.RuneSelf && r != utf8.RuneError && hidden(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		} else {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.Bytes()
}

// WriteJSONValue prints a value for programs and terminals, with a line feed at the end; see [PrintableJSON].
func WriteJSONValue(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(PrintableJSON(b.Bytes()))
	return err
}
