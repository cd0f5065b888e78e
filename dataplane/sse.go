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
)

const (
	// maxEvent limits the data of an event. The largest events are deltas, of at most 4 MiB.
	maxEvent = 8 << 20
	// maxLine limits lines other than data.
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
	r     *bufio.Reader
	limit int // of the data of an event
	retry time.Duration
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// next waits for the next event. It skips events without data.
func (r *eventReader) next() (event, error) {
	e := event{name: "message"}
	var data bytes.Buffer
	for lines := 0; ; {
		line, err := r.line(max(r.limit-data.Len(), maxLine))
		if err != nil {
			return event{}, err
		}
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
}

// line reads one line of at most the given length, besides its name.
func (r *eventReader) line(most int) (string, error) {
	var long []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if len(long)+len(part) > most+len("data: \r\n") {
			return "", fmt.Errorf("%w: a line of more than %d bytes", errEventTooLarge, most)
		}
		switch {
		case err == nil && long == nil:
			return lineOf(part), nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
		if long = append(long, part...); err == nil {
			return lineOf(long), nil
		}
	}
}

// lineOf returns a line without its end.
func lineOf(b []byte) string {
	return string(bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r")))
}
