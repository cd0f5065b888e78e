package dataplane

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// maxEvent limits the data of an event. The largest events are deltas, of at most 4 MiB.
	maxEvent = 8 << 20
	// maxLine is the length up to which a line is accepted even if less data is.
	maxLine = 1024
	// maxRetry limits the advice of a server.
	maxRetry = time.Hour
)

// errEventTooLarge means that an event has more data, or another line, than the limit.
var errEventTooLarge = errors.New("event is too large")

// event is a Server-Sent Event.
type event struct {
	name  string        // "message" if the server sends none
	id    string        // of this event; empty if it has none
	data  string        // lines separated by "\n"
	retry time.Duration // last value in the stream; 0 if there was none
}

// eventReader reads a stream of Server-Sent Events, whose lines end with a line feed. An id applies to its own event only. It returns
// an event as soon as its last line has arrived.
type eventReader struct {
	lines *bufio.Scanner
	limit int // of the data of an event
	retry time.Duration
}

func newEventReader(r io.Reader, limit int) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, maxLine), limit+len("data: \r\n"))
	lines.Split(wholeLine)
	return &eventReader{lines: lines, limit: limit}
}

// wholeLine is a [bufio.SplitFunc] that drops a last line without its end.
func wholeLine(data []byte, _ bool) (advance int, line []byte, err error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return 0, nil, nil
	}
	return end + 1, bytes.TrimSuffix(data[:end], []byte("\r")), nil
}

// next waits for the next event. It skips events without data.
func (r *eventReader) next() (event, error) {
	e := event{name: "message"}
	var data bytes.Buffer
	for lines := 0; r.lines.Scan(); {
		line := r.lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "":
			if line != "" {
				continue // a comment
			}
			if lines > 0 {
				e.data, e.retry = data.String(), r.retry
				return e, nil
			}
			e = event{name: "message"}
		case "data":
			if lines++; lines > 1 {
				data.WriteByte('\n')
			}
			if data.WriteString(value); data.Len() > r.limit {
				return event{}, fmt.Errorf("%w: more than %d bytes", errEventTooLarge, r.limit)
			}
		case "event":
			e.name = value
		case "id":
			if e.id = value; strings.ContainsRune(value, 0) {
				e.id = ""
			}
		case "retry":
			if n, err := strconv.ParseUint(value, 10, 32); err == nil {
				r.retry = min(time.Duration(n)*time.Millisecond, maxRetry)
			}
		}
	}
	err := r.lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("%w: a line of more than %d bytes", errEventTooLarge, r.limit)
	}
	return event{}, cmp.Or(err, io.EOF)
}
