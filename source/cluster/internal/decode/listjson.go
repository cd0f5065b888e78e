package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// splitter splits JSON into values. It looks only at strings, brackets and commas, which is many times as fast as decoding:
// most items of a list did not change and are never decoded. Other mistakes in an item are found when it is decoded, and
// affect only that object.
type splitter struct {
	in      io.Reader
	text    []byte // a window of the body, which grows to the largest value
	at      int    // everything before it was read
	from    int    // start of the value being read, -1 for none: the window does not move past it
	dropped int64  // bytes of the body before the window
	err     error  // of in; io.EOF at its end
}

var errEnds = errors.New("the text ends early")

// walkJSON walks a list. Names match regardless of case, as in encoding/json. [head.check] decides whether it is a list of
// the right kind.
func (w *Walker) walkJSON(head *head, item func([]byte)) error {
	head.noItems = true
	s := &splitter{in: w.in, text: w.buf[:0], from: -1}
	defer func() { w.buf = s.text }()
	err := s.elements('{', '}', func() error { return s.member(head, item) })
	if err == nil && s.next() != 0 {
		err = errors.New("unexpected data after the list")
	}
	if s.err != nil && !errors.Is(s.err, io.EOF) {
		err = s.err
	}
	if err != nil {
		return fmt.Errorf("JSON, byte %d: %w", s.dropped+int64(s.at), err)
	}
	return nil
}

// more reads more of the body into the window. It reports whether it has read anything.
func (s *splitter) more() bool {
	keep := s.at
	if s.from >= 0 {
		keep = s.from
	}
	if keep > 0 {
		s.text = s.text[:copy(s.text, s.text[keep:])]
		s.at, s.from, s.dropped = s.at-keep, max(s.from-keep, -1), s.dropped+int64(keep)
	}
	s.text = slices.Grow(s.text, max(windowSize-len(s.text), len(s.text)/2, 1))
	for s.err == nil {
		var n int
		n, s.err = s.in.Read(s.text[len(s.text):cap(s.text)])
		if s.text = s.text[:len(s.text)+n]; n > 0 {
			return true
		}
	}
	return false
}

// member reads a member of the list object.
func (s *splitter) member(head *head, item func([]byte)) error {
	raw, err := s.value()
	if err != nil {
		return err
	}
	var key string
	if err := json.Unmarshal(raw, &key); err != nil {
		return err
	}
	if s.next() != ':' {
		return errors.New("missing colon after key")
	}
	s.at++
	switch {
	case strings.EqualFold(key, "items"):
		if !head.noItems {
			return errors.New(`duplicate field "items"`)
		}
		if s.next() != '[' {
			var null []json.RawMessage
			return s.decode(&null)
		}
		head.noItems = false
		return s.elements('[', ']', func() error {
			raw, err := s.value()
			if err == nil {
				item(raw)
			}
			return err
		})
	case strings.EqualFold(key, "metadata"):
		if head.hasMeta {
			return errors.New(`duplicate field "metadata"`)
		}
		var meta struct{ ResourceVersion, Continue string }
		err := s.decode(&meta)
		head.hasMeta = true
		head.resourceVersion, head.more = meta.ResourceVersion, meta.Continue
		return err
	case strings.EqualFold(key, "kind"):
		return s.decode(&head.kind)
	case strings.EqualFold(key, "apiVersion"):
		return s.decode(&head.apiVersion)
	}
	_, err = s.value()
	return err
}

// decode decodes the next value.
func (s *splitter) decode(into any) error {
	raw, err := s.value()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// elements calls f for each element between two brackets. f must read the element.
func (s *splitter) elements(opening, closing byte, f func() error) error {
	if s.next() != opening {
		return fmt.Errorf("missing %q", opening)
	}
	s.at++
	if s.next() == closing {
		s.at++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
		case closing:
			s.at++
			return nil
		case 0:
			return errEnds
		default:
			return fmt.Errorf("missing comma or %q", closing)
		}
	}
}

// next returns the byte after white space, without reading it, or 0 at the end.
func (s *splitter) next() byte {
	for s.at < len(s.text) || s.more() {
		switch c := s.text[s.at]; c {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// value reads one value and returns its text: up to the closing bracket, or else up to the delimiter that follows it. The
// text is valid until more is read.
func (s *splitter) value() ([]byte, error) {
	s.next()
	s.from = s.at
	err := s.skip()
	from := s.from
	s.from = -1
	if err == nil && s.at == from {
		err = errors.New("missing value")
	}
	return s.text[from:s.at], err
}

// skip moves to the end of the value that begins here.
func (s *splitter) skip() error {
	for depth := 0; s.at < len(s.text) || s.more(); s.at++ {
		switch s.text[s.at] {
		case '"':
			if err := s.skipString(); err != nil {
				return err
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
			}
			if depth <= 0 {
				return nil
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return nil
			}
		}
	}
	return errEnds
}

// skipString moves to the closing quote of the string that begins here.
func (s *splitter) skipString() error {
	s.at++
	for {
		n := bytes.IndexByte(s.text[s.at:], '"')
		if n < 0 {
			if s.at = len(s.text); !s.more() {
				return errEnds
			}
			continue
		}
		s.at += n
		slashes := 0
		for s.text[s.at-1-slashes] == '\\' { // ends at the opening quote
			slashes++
		}
		if slashes%2 == 0 {
			return nil
		}
		s.at++
	}
}
