package shadowdiff

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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
)

// WriteText writes a view for people: notes, sides, differences by owner, and a summary, without control characters.
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

type textWriter struct{ *bufio.Writer }

func (t *textWriter) line(s string) {
	t.WriteString(s)
	t.WriteByte('\n')
}

const signs = "-+~"

func (t *textWriter) entry(e Tracked) {
	head := signs[e.Kind:e.Kind+1] + " " + Printable(e.ID)
	if e.Count > 0 {
		head += fmt.Sprintf("  %s, since %s, %s", e.State(), e.FirstSeen.UTC().Format(time.RFC3339), Plural(e.Count, "comparison"))
	}
	t.line("  " + head)
	if only := cmp.Or(e.A, e.B); e.Parts == nil && only != nil {
		t.line(strings.Repeat(" ", labelIndent) + Printable(only.String()))
	}
	for _, p := range e.Parts {
		t.part(p)
	}
}

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
		t.line(label + "- " + old)
		t.line(strings.Repeat(" ", labelIndent+labelWidth) + "+ " + new)
	}
}

// Printable escapes control and format characters, and bytes that are not UTF-8.
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

// PrintableJSON escapes in JSON what [Printable] escapes in text.
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
