package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxDepth limits the nesting of arrays and objects, with the same limit as encoding/json.
const maxDepth = 10000

// walkJSON walks a list in JSON. It accepts exactly what encoding/json accepts into a struct with Metadata and Items,
// except for a repeated metadata or items, one of which would be lost. Names match case-insensitively, and null
// counts as missing. walkJSON checks the whole text, which detects a body that ends early or is garbled. [head.check]
// decides whether it is a list of the right kind.
func walkJSON(w *Window, head *head, item func([]byte)) error {
	head.noItems = true
	s := scanner{window: w, text: w.rest()}
	err := s.list(head, item)
	if err == nil {
		err = s.step(s.nothing)
	}
	if broken := (*SourceError)(nil); err != nil && !errors.As(err, &broken) {
		err = fmt.Errorf("JSON, byte %d: %w", w.position()+int64(s.at), err)
	}
	return err
}

// list reads the list. It reads everything larger than an item in steps, and the window moves on between them.
func (s *scanner) list(head *head, item func([]byte)) error {
	var (
		sawMeta, sawItems bool
		is                member
	)
	return s.members('{', '}', s.step, func() error {
		if err := s.step(func() error {
			key, err := s.key()
			is = memberOf(key)
			return err
		}); err != nil {
			return err
		}
		switch is {
		case memberMetadata:
			if sawMeta {
				return errors.New("metadata stands there twice")
			}
			sawMeta = true
			return s.step(func() error { return s.listMeta(head) })
		case memberItems:
			if sawItems {
				return errors.New("items stand there twice")
			}
			sawItems = true
			return s.items(head, item)
		case memberKind:
			return s.step(func() error { return s.word(&head.kind) })
		case memberAPIVersion:
			return s.step(func() error { return s.word(&head.apiVersion) })
		default:
			return s.step(func() error {
				_, err := s.value()
				return err
			})
		}
	})
}

// items reads the array of items, or null.
func (s *scanner) items(head *head, item func([]byte)) error {
	null := false
	if err := s.step(func() (err error) {
		null, err = s.null()
		return err
	}); null || err != nil {
		return err
	}
	head.noItems = false
	var raw []byte
	value := func() (err error) {
		raw, err = s.value()
		return err
	}
	return s.members('[', ']', s.step, func() error {
		err := s.step(value)
		if err == nil {
			item(raw)
		}
		return err
	})
}

// member reads one member of the list object.
type member int

const (
	memberOther member = iota
	memberMetadata
	memberItems
	memberKind
	memberAPIVersion
)

func memberOf(key []byte) member {
	switch {
	case key == nil:
		return memberOther
	case isKey(key, "metadata"):
		return memberMetadata
	case isKey(key, "items"):
		return memberItems
	case isKey(key, "kind"):
		return memberKind
	case isKey(key, "apiVersion"):
		return memberAPIVersion
	}
	return memberOther
}

// isKey compares an object key in its JSON form, quotes included, with a name.
func isKey(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') >= 0 {
		var s string
		return json.Unmarshal(key, &s) == nil && bytes.EqualFold([]byte(s), []byte(name))
	}
	return bytes.EqualFold(key[1:len(key)-1], []byte(name))
}

var errSyntax = errors.New("syntax error")

// scanner reads JSON values without decoding them. It follows RFC 8259 and does not recurse.
type scanner struct {
	window *Window // the source of more text
	text   []byte  // the content of the window
	at     int
	depth  int // open arrays and objects around the current position
	stack  [maxDepth/64 + 1]uint64
}

// step calls f, which reads one whole element. If the text ends before the element does, or together with it, step
// calls f again with more text from where the element began.
func (s *scanner) step(f func() error) error {
	for {
		from, depth := s.at, s.depth
		err := f()
		if s.window.end || err == nil && s.at < len(s.text) || err != nil && !errors.Is(err, errEnds) {
			return err
		}
		s.window.at += from
		if err := s.window.more(); err != nil && !errors.Is(err, errEnds) {
			return err
		}
		s.text, s.at, s.depth = s.window.rest(), 0, depth
	}
}

// nothing wants the text to end.
func (s *scanner) nothing() error {
	if s.space(); s.at < len(s.text) {
		return errors.New("something follows the list")
	}
	return nil
}

// listMeta reads the metadata of a list: an object or null.
func (s *scanner) listMeta(head *head) error {
	if null, err := s.null(); null || err != nil {
		return err
	}
	return s.object(func(key []byte) error {
		var into *[]byte
		switch {
		case isKey(key, "resourceVersion"):
			into = &head.resourceVersion
		case isKey(key, "continue"):
			into = &head.more
		}
		raw, err := s.value()
		if err != nil || into == nil || string(raw) == "null" {
			return err
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		*into = []byte(text)
		return nil
	})
}

// word reads a value and keeps it if it is a string.
func (s *scanner) word(into *string) error {
	raw, err := s.value()
	if err == nil && len(raw) > 0 && raw[0] == '"' {
		err = json.Unmarshal(raw, into)
	}
	return err
}

// object reads an object whose values f reads. The key is passed with its quotes.
func (s *scanner) object(f func(key []byte) error) error {
	return s.members('{', '}', atOnce, func() error {
		key, err := s.key()
		if err != nil {
			return err
		}
		return f(key)
	})
}

// null reads the next value if it is null.
func (s *scanner) null() (bool, error) {
	if c, err := s.next(); err != nil || c != 'n' {
		return false, err
	}
	return true, s.literal("null")
}

// members reads everything between the opening and the closing character. It reads the elements and the commas with
// the function step; f reads an element.
func (s *scanner) members(opening, closing byte, step func(func() error) error, f func() error) error {
	empty := false
	if err := step(func() error {
		c, err := s.next()
		if err != nil {
			return err
		}
		if c != opening {
			return fmt.Errorf("%w: want %q", errSyntax, opening)
		}
		s.at++
		c, err = s.next()
		if empty = c == closing; empty {
			s.at++
		}
		return err
	}); err != nil || empty {
		return err
	}
	s.depth++
	defer func() { s.depth-- }()
	closed := false
	after := func() error { // allocated once, not for each element
		c, err := s.next()
		if err != nil {
			return err
		}
		if closed = c == closing; c != ',' && !closed {
			return fmt.Errorf("%w: want a comma or %q", errSyntax, closing)
		}
		s.at++
		return nil
	}
	for !closed {
		if err := f(); err != nil {
			return err
		}
		if err := step(after); err != nil {
			return err
		}
	}
	return nil
}

// atOnce is the step function for text that is completely in the window.
func atOnce(f func() error) error { return f() }
