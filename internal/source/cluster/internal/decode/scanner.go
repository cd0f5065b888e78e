package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// key reads a key and its colon.
func (s *scanner) key() ([]byte, error) {
	c, err := s.next()
	if err != nil {
		return nil, err
	}
	if c != '"' {
		return nil, fmt.Errorf("%w: want a key", errSyntax)
	}
	from := s.at
	if err := s.string(); err != nil {
		return nil, err
	}
	key := s.text[from:s.at]
	if c, err = s.next(); err != nil {
		return nil, err
	}
	if c != ':' {
		return nil, fmt.Errorf("%w: want a colon", errSyntax)
	}
	s.at++
	return key, nil
}

// value reads one value of any kind and returns its text.
func (s *scanner) value() ([]byte, error) {
	s.space()
	from, outside := s.at, s.depth
	defer func() { s.depth = outside }()
	for {
		opened, err := s.simple()
		if err != nil {
			return nil, err
		}
		if !opened { // a value has ended
			for {
				if s.depth == outside {
					return s.text[from:s.at], nil
				}
				closed, err := s.after()
				if err != nil {
					return nil, err
				}
				if !closed {
					break
				}
			}
		}
		if s.inObject() {
			if _, err := s.key(); err != nil {
				return nil, err
			}
		}
	}
}

// simple reads a value that is not an array or object, or an empty array or object. Of any other it reads only the
// beginning and reports that.
func (s *scanner) simple() (opened bool, err error) {
	c, err := s.next()
	if err != nil {
		return false, err
	}
	switch c {
	case '{', '[':
		s.at++
		closing, err := s.next()
		if err != nil {
			return false, err
		}
		if s.depth >= maxDepth {
			return false, errors.New("nested too deep")
		}
		if closing == c+2 { // the distance of both pairs in ASCII
			s.at++
			return false, nil
		}
		s.push(c == '{')
		return true, nil
	case '"':
		return false, s.string()
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	default:
		return false, s.number()
	}
}

// after reads what follows a value inside an array or object: a comma, or the end, which it reports.
func (s *scanner) after() (closed bool, err error) {
	c, err := s.next()
	if err != nil {
		return false, err
	}
	closing := byte(']')
	if s.inObject() {
		closing = '}'
	}
	switch c {
	case ',':
		s.at++
		return false, nil
	case closing:
		s.at++
		s.depth--
		return true, nil
	default:
		return false, fmt.Errorf("%w: want a comma or %q", errSyntax, closing)
	}
}

func (s *scanner) push(object bool) {
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	s.stack[word] &^= bit
	if object {
		s.stack[word] |= bit
	}
	s.depth++
}

func (s *scanner) inObject() bool {
	d := s.depth - 1
	return s.stack[d/64]>>(d%64)&1 == 1
}

// space skips white space.
func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return
		}
	}
}

// next skips white space and returns the byte after it, without reading it.
func (s *scanner) next() (byte, error) {
	s.space()
	if s.at == len(s.text) {
		return 0, errEnds
	}
	return s.text[s.at], nil
}

func (s *scanner) literal(want string) error {
	if got := s.text[s.at:min(s.at+len(want), len(s.text))]; string(got) != want {
		if len(got) < len(want) && string(got) == want[:len(got)] {
			return errEnds
		}
		return errSyntax
	}
	s.at += len(want)
	return nil
}

// string reads a string; s.at is at its opening quote.
func (s *scanner) string() error {
	i := s.at + 1
	for {
		i += plain(s.text[i:])
		if i >= len(s.text) {
			s.at = len(s.text)
			return errEnds
		}
		switch s.text[i] {
		case '"':
			s.at = i + 1
			return nil
		case '\\':
			n := escape(s.text[i+1:])
			if n == 0 && endsInEscape(s.text[i+1:]) {
				s.at = len(s.text)
				return errEnds
			}
			if n == 0 {
				s.at = i
				return fmt.Errorf("%w: escape in a string", errSyntax)
			}
			i += 1 + n
		default:
			s.at = i
			return fmt.Errorf("%w: control character in a string", errSyntax)
		}
	}
}

// escape returns the length of the escape sequence after a backslash, 0 if it is invalid.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) < 5 {
			return 0
		}
		for _, c := range b[1:5] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}

// endsInEscape reports whether the text ends within the escape sequence after a backslash.
func endsInEscape(b []byte) bool { return len(b) == 0 || b[0] == 'u' && len(b) < 5 }

// plain returns how many bytes of a string come before the next quote, backslash or control character. It checks
// eight bytes at a time, because most of a list is strings.
func plain(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		// The lowest marked byte is right; a borrow can wrongly mark only bytes above it.
		found := (quote-ones)&^quote | (backslash-ones)&^backslash | (x-ones*0x20)&^x
		if found &= highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// number reads a number.
func (s *scanner) number() error {
	i, t := s.at, s.text
	digits := func() bool {
		from := i
		for i < len(t) && '0' <= t[i] && t[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(t) && t[i] == '-' {
		i++
	}
	ok := true
	if i < len(t) && t[i] == '0' {
		i++
	} else {
		ok = digits()
	}
	if ok && i < len(t) && t[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(t) && (t[i] == 'e' || t[i] == 'E') {
		i++
		if i < len(t) && (t[i] == '+' || t[i] == '-') {
			i++
		}
		ok = digits()
	}
	s.at = i
	switch {
	case ok:
		return nil
	case i == len(t):
		return errEnds
	default:
		return fmt.Errorf("%w: want a value", errSyntax)
	}
}
