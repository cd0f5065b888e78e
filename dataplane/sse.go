package dataplane

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/table"
)

const (
	// maxFieldName is longer than all known names of fields, maxFieldValue longer than all short values.
	maxFieldName  = 8
	maxFieldValue = 1024
	// maxRetry limits the advice of a server.
	maxRetry = time.Hour
)

// errEventTooLarge means that an event has more data than the limit.
var errEventTooLarge = errors.New("event is too large")

// event is a Server-Sent Event.
type event struct {
	name  string        // "message" if the server sends none
	id    string        // of this event; empty if it has none
	data  string        // lines separated by "\n"; empty if the data is in one of the fields below
	retry time.Duration // last value in the stream; 0 if there was none

	decoder *table.Decoder // holds the whole text of a table
	digest  table.Digest   // of that text
	delta   *table.Delta   // nil if there is none, or if it failed
	failed  *Error         // why there is no delta
}

// eventReader reads a stream of Server-Sent Events as defined in the HTML standard, except that an id applies to its own event
// only. It returns an event as soon as its last line has arrived. Its memory is proportional to the limit.
type eventReader struct {
	r       *bufio.Reader
	bound   func() int64              // returns the limit for the data of an event that begins now
	payload func(name string) payload // receives the data
	limit   int64                     // of the current event
	size    int64                     // of its data so far
	sink    payload                   // of its data; nil before the first data
	retry   time.Duration
	begun   bool // the first bytes were checked
	wasCR   bool // the last line ended with a carriage return, which a line feed may follow
}

func newEventReader(r io.Reader, bound func() int64, payload func(name string) payload) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 16<<10), bound: bound, payload: payload}
}

// next waits for the next event. It skips events without data.
func (r *eventReader) next() (event, error) {
	e := event{name: "message"}
	r.limit, r.size, r.sink = r.bound(), 0, nil
	defer func() {
		if r.sink != nil {
			r.sink.abort() // the event is incomplete
			r.sink = nil
		}
	}()
	for lines := 0; ; {
		l, err := r.line(&e, lines > 0)
		if err != nil {
			return event{}, err
		}
		switch string(l.name) {
		case "":
			if l.colon {
				continue // a comment
			}
			if lines > 0 {
				if e.retry = r.retry; r.sink != nil {
					r.sink.finish(&e)
					r.sink = nil
				}
				return e, nil
			}
			e = event{name: "message"}
		case "data":
			lines++
		case "event":
			e.name = string(l.value)
		case "id":
			if e.id = string(l.value); strings.ContainsRune(e.id, 0) {
				e.id = ""
			}
		case "retry":
			if n, err := strconv.ParseUint(string(l.value), 10, 32); err == nil {
				r.retry = min(time.Duration(n)*time.Millisecond, maxRetry)
			}
		}
	}
}

// streamLine is a line of a stream. A name or value that is too long is truncated, and then unknown.
type streamLine struct {
	name  []byte
	colon bool   // a colon followed the name
	value []byte // except for data, which is stored elsewhere
	begun bool   // a byte of the value has arrived, which may be a space to ignore
}

// line reads one line of an event. It passes on data, preceded by a line feed if there was data before.
func (r *eventReader) line(e *event, more bool) (streamLine, error) {
	var l streamLine
	for {
		b, ended, err := r.chunk()
		if err != nil {
			return l, err
		}
		if !l.colon {
			var name []byte
			name, b, l.colon = bytes.Cut(b, []byte(":"))
			l.name = appendUpTo(l.name, name, maxFieldName)
			if (l.colon || ended) && more && string(l.name) == "data" {
				if err := r.add(e, []byte("\n")); err != nil {
					return l, err
				}
			}
		}
		if l.colon && len(b) > 0 {
			if !l.begun {
				b = bytes.TrimPrefix(b, []byte(" "))
			}
			l.begun = true
			if string(l.name) != "data" {
				l.value = appendUpTo(l.value, b, maxFieldValue)
			} else if err := r.add(e, b); err != nil {
				return l, err
			}
		}
		if ended {
			return l, nil
		}
	}
}

// add adds to the data of an event.
func (r *eventReader) add(e *event, b []byte) error {
	if r.size += int64(len(b)); r.size > r.limit {
		return fmt.Errorf("%w: more than %d bytes", errEventTooLarge, r.limit)
	}
	if r.sink == nil {
		r.sink = r.payload(e.name)
	}
	_, err := r.sink.Write(b)
	return err
}

// appendUpTo appends as much as fits, plus one byte, so that a truncated value does not equal its prefix.
func appendUpTo(dst, b []byte, limit int) []byte {
	return append(dst, b[:min(len(b), limit+1-len(dst))]...)
}

// chunk returns the available part of the current line, and whether the line ends with it. It waits only if nothing has arrived.
// The bytes are valid until the next call.
func (r *eventReader) chunk() (b []byte, ended bool, err error) {
	for {
		if _, err := r.r.Peek(1); err != nil {
			return nil, false, err
		}
		if !r.begun {
			r.begun = true
			if mark, err := r.r.Peek(3); err == nil && string(mark) == "\uFEFF" {
				_, _ = r.r.Discard(3)
				continue
			}
		}
		b, _ = r.r.Peek(r.r.Buffered())
		if r.wasCR && b[0] == '\n' {
			r.wasCR = false
			_, _ = r.r.Discard(1)
			continue
		}
		r.wasCR = false
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			_, _ = r.r.Discard(len(b))
			return b, false, nil
		}
		r.wasCR = b[end] == '\r'
		_, _ = r.r.Discard(end + 1)
		return b[:end], true, nil
	}
}
