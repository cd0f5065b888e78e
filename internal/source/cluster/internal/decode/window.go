package decode

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// windowSize is what a window begins with: many objects, and small enough to stay in the cache of a processor core.
	windowSize = 64 << 10
	// windowKept is how large a window may stay between two lists.
	windowKept = 1 << 20
)

var (
	// ErrTooLarge says that a body, or a part of one, has more bytes than are allowed.
	ErrTooLarge = errors.New("the body is too large")
	errEnds     = errors.New("the text ends early")
)

// SourceError is an error of what a [Window] reads from: the network, or the decompressor.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Window is the part of a body that is being looked at. It moves over the body, so that no body is ever in memory as a
// whole, and grows to the size of the largest item. Its memory is kept from body to body. The zero value has no body.
type Window struct {
	source io.Reader
	limit  int64  // of the body, in bytes
	buf    []byte // what was read and not dropped yet
	at     int    // buf[at:] was not consumed yet
	read   int64  // bytes of the body so far
	end    bool   // source has nothing more
}

// Reset begins another body, of at most limit bytes. More fail with [ErrTooLarge].
func (w *Window) Reset(source io.Reader, limit int64) {
	*w = Window{source: source, limit: limit, buf: w.buf[:0]}
	if cap(w.buf) == 0 {
		w.buf = make([]byte, 0, windowSize)
	}
}

// Release drops the source, and the memory that an unusually large item took.
func (w *Window) Release() {
	w.source = nil
	if cap(w.buf) > windowKept {
		w.buf = nil
	}
}

// rest is what was read and not consumed. It is valid until more or consume is called.
func (w *Window) rest() []byte { return w.buf[w.at:] }

// position is how many bytes of the body were consumed.
func (w *Window) position() int64 { return w.read - int64(len(w.buf)-w.at) }

// Size returns how many bytes of the body were read so far.
func (w *Window) Size() int64 { return w.read }

// more reads until the window is full, which it makes larger if nothing of it was consumed. It fails with errEnds if there is
// no more.
func (w *Window) more() error {
	if w.end {
		return errEnds
	}
	if w.at > 0 {
		w.buf = w.buf[:copy(w.buf, w.buf[w.at:])]
		w.at = 0
	}
	if len(w.buf) > cap(w.buf)/2 {
		w.buf = slices.Grow(w.buf, cap(w.buf))
	}
	before := len(w.buf)
	for len(w.buf) < cap(w.buf) && !w.end {
		n, err := w.source.Read(w.buf[len(w.buf):cap(w.buf)])
		w.buf = w.buf[:len(w.buf)+n]
		w.read += int64(n)
		switch {
		case w.read > w.limit:
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, w.limit)
		case errors.Is(err, io.EOF):
			w.end = true
		case err != nil:
			return &SourceError{err}
		}
	}
	if len(w.buf) == before {
		return errEnds
	}
	return nil
}

// ended reports whether the body has no more bytes.
func (w *Window) ended() (bool, error) {
	for w.at == len(w.buf) {
		if err := w.more(); errors.Is(err, errEnds) {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	return false, nil
}

// consume returns the next n bytes, which are valid until the window is used again.
func (w *Window) consume(n uint64) ([]byte, error) {
	for uint64(len(w.buf)-w.at) < n {
		if err := w.more(); err != nil {
			return nil, err
		}
	}
	b := w.buf[w.at : w.at+int(n)]
	w.at += int(n)
	return b, nil
}

// All reads and returns the rest of the body. It is valid until the window is used again.
func (w *Window) All() ([]byte, error) {
	for {
		if err := w.more(); errors.Is(err, errEnds) {
			return w.rest(), nil
		} else if err != nil {
			return nil, err
		}
	}
}

// varint reads a number as protobuf writes it.
func (w *Window) varint() (uint64, error) {
	for {
		v, n := protowire.ConsumeVarint(w.rest())
		if n > 0 {
			w.at += n
			return v, nil
		}
		if len(w.rest()) >= 10 {
			return 0, protowire.ParseError(n)
		}
		if err := w.more(); err != nil {
			return 0, err
		}
	}
}

// field reads the beginning of the next field that is length-delimited, and skips others. ok is false at the end, which
// is a position in the body, or negative for the end of the body.
func (w *Window) field(end int64) (number protowire.Number, size uint64, ok bool, err error) {
	for {
		if end < 0 {
			done, err := w.ended()
			if done || err != nil {
				return 0, 0, false, err
			}
		} else if p := w.position(); p > end {
			return 0, 0, false, errors.New("a field is longer than what it is in")
		} else if p == end {
			return 0, 0, false, nil
		}
		tag, err := w.varint()
		if err != nil {
			return 0, 0, false, err
		}
		number, wire := protowire.DecodeTag(tag)
		if number < protowire.MinValidNumber {
			return 0, 0, false, fmt.Errorf("field number %d", number)
		}
		switch wire {
		case protowire.BytesType:
			size, err := w.varint()
			if err == nil && end >= 0 && (size > uint64(end) || w.position()+int64(size) > end) {
				err = errors.New("a field is longer than what it is in")
			}
			return number, size, err == nil, err
		case protowire.VarintType:
			_, err = w.varint()
		case protowire.Fixed32Type:
			_, err = w.consume(4)
		case protowire.Fixed64Type:
			_, err = w.consume(8)
		default:
			err = fmt.Errorf("wire type %d", wire)
		}
		if err != nil {
			return 0, 0, false, err
		}
	}
}
