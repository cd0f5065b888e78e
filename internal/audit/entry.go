package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of texts, in characters. The longest line is far below maxLine.
const (
	maxName = 100 // of What and Reason
	maxBy   = 200
	maxWhy  = 1000

	maxLine = 16 << 10
)

// clean returns the entry in a form that reads back unchanged.
func (e Entry) clean() Entry {
	e.What = What(printable(string(e.What), maxName))
	e.Reason = printable(e.Reason, maxName)
	e.By, e.Why = printable(e.By, maxBy), printable(e.Why, maxWhy)
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	if y := e.Time.Year(); y < 1 || y > 9999 { // JSON allows no other years
		e.Time = time.Time{}
	}
	return e
}

// printable replaces unprintable characters and truncates the text.
func printable(s string, limit int) string {
	if s = strings.ToValidUTF8(s, "\ufffd"); utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit-1]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, s)
}

// line returns a clean entry as a line with a newline.
func (e Entry) line() []byte {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic("audit: an entry has no JSON form: " + err.Error()) // cannot happen: an entry has only texts, a digest and a valid time
	}
	return line.Bytes()
}

// parse reads the entries of a file and skips lines that are not entries.
func parse(data []byte) (entries []Entry) {
	for line := range bytes.Lines(data) {
		var e Entry
		if len(line) <= maxLine && json.Unmarshal(line, &e) == nil && e.What != "" {
			entries = append(entries, e.clean())
		}
	}
	return entries
}
