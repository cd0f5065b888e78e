package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// splitter splits JSON into values. It looks only at strings, brackets and commas, which is many times as fast as decoding:
// most items of a list did not change and are never decoded. What else is wrong with an item shows when it is decoded, and
// is a problem of that object alone.
type splitter struct {
	text []byte
	at   int
}

var errEnds = errors.New("the text ends early")

// walkJSON walks a list. Names match regardless of case, as in encoding/json. [head.check] decides whether it is a list of
// the right kind.
func walkJSON(text []byte, head *head, item func([]byte)) error {
	head.noItems = true
	s := &splitter{text: text}
	err := s.elements('{', '}', func() error { return s.member(head, item) })
	if err == nil && s.next() != 0 {
		err = errors.New("something follows the list")
	}
	if err != nil {
		return fmt.Errorf("JSON, byte %d: %w", s.at, err)
	}
	return nil
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
		return errors.New("want a colon")
	}
	s.at++
	switch {
	case strings.EqualFold(key, "items"):
		if !head.noItems {
			return errors.New("items stand there twice")
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
			return errors.New("metadata stands there twice")
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

// elements calls f for each element between two brackets. f has to read it.
func (s *splitter) elements(opening, closing byte, f func() error) error {
	if s.next() != opening {
		return fmt.Errorf("want %q", opening)
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
			return fmt.Errorf("want a comma or %q", closing)
		}
	}
}

// next returns the byte after white space, without reading it, or 0 at the end.
func (s *splitter) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// value reads one value and returns its text: up to the bracket that closes it, or else up to what must follow it.
func (s *splitter) value() ([]byte, error) {
	s.next()
	from, depth := s.at, 0
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			if err := s.skipString(); err != nil {
				return nil, err
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
			}
			if depth <= 0 {
				return s.since(from)
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return s.since(from)
			}
		}
	}
	if depth > 0 {
		return nil, errEnds
	}
	return s.since(from)
}

func (s *splitter) since(from int) ([]byte, error) {
	if s.at == from {
		return nil, errors.New("want a value")
	}
	return s.text[from:s.at], nil
}

// skipString moves to the closing quote of the string that begins here.
func (s *splitter) skipString() error {
	for {
		n := bytes.IndexByte(s.text[s.at+1:], '"')
		if n < 0 {
			s.at = len(s.text)
			return errEnds
		}
		begin := s.at + 1
		s.at = begin + n
		slashes := 0
		for i := s.at - 1; i >= begin && s.text[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return nil
		}
	}
}
