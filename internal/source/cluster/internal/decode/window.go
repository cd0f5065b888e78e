package decode

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// windowSize is the initial size of a window: it holds many objects, and fits into the cache of a processor core.
	windowSize = 64 << 10
	// windowKept is the largest window that is kept between two lists.
	windowKept = 1 << 20
)

var (
	// ErrTooLarge reports that a body, or a part of one, exceeds its limit.
	ErrTooLarge = errors.New("the body is too large")
	errEnds     = errors.New("the text ends early")
)

// SourceError is a read error of a [Window]'s source: the network, or the decompressor.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Window is the part of a body that is being processed. It moves over the body, so that no body is ever in memory as
// a whole, and grows to the size of the largest item. It reuses its memory from body to body. The zero value has no
// body.
type Window struct {
	source io.Reader
	limit  int64  // of the body, in bytes
	buf    []byte // read and not yet dropped
	at     int    // buf[at:] is not yet consumed
	read   int64  // bytes of the body so far
	end    bool   // source is at its end
}

// Reset starts another body of at most limit bytes. A larger body fails with [ErrTooLarge].
func (w *Window) Reset(source io.Reader, limit int64) {
	*w = Window{source: source, limit: limit, buf: w.buf[:0]}
	if cap(w.buf) == 0 {
		w.buf = make([]byte, 0, windowSize)
	}
}

// Release drops the source and any memory that an unusually large item required.
func (w *Window) Release() {
	w.source = nil
	if cap(w.buf) > windowKept {
		w.buf = nil
	}
}

// rest returns what was read and not consumed. It is valid until more or consume is called.
func (w *Window) rest() []byte { return w.buf[w.at:] }

// position returns how many bytes of the body were consumed.
func (w *Window) position() int64 { return w.read - int64(len(w.buf)-w.at) }

// Size returns how many bytes of the body were read so far.
func (w *Window) Size() int64 { return w.read }

// more reads until the window is full. It enlarges the window first if nothing in it was consumed. It fails with
// errEnds at the end of the body.
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

// varint reads a protobuf varint.
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

// field reads the start of the next length-delimited field and skips other fields. ok is false at the end, which is a
// position in the body, or negative for the end of the body.
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
