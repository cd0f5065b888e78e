package shadowdiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// PrintableJSON escapes in JSON what [Printable] escapes in text. Such characters can occur only in strings, so the meaning is the same.
func PrintableJSON(text []byte) []byte {
	var b bytes.Buffer
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == 0x7f || r >= utf8.RuneSelf && r != utf8.RuneError && r <= 0xffff && Printable(string(r)) != string(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r > 0xffff && Printable(string(r)) != string(r):
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.Bytes()
}

// WriteJSONValue prints a value for programs and terminals, with a line feed at the end; see [PrintableJSON]. An empty indent is one line.
func WriteJSONValue(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(PrintableJSON(b.Bytes()))
	return err
}
