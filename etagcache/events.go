package etagcache

import (
	"encoding/binary"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// eventWriter writes the events of one stream. Errors are sticky: nothing is written after the first one, and flush returns it.
//
// A compressed stream is one endless gzip member. It consists of deflate blocks that were encoded once for all streams, and of
// stored blocks for small texts, so a stream needs no compressor, which would take most of its memory.
type eventWriter struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	metrics  *Metrics
	encoding encoding // identity or gzipped
	buf      []byte   // small texts, until the next flush
	err      error
	bytes    int // sent
}

func newEventWriter(w http.ResponseWriter, e encoding, m *Metrics) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), encoding: e, metrics: m}
}

// begin removes the time limits of the listener, which are for requests that end.
func (e *eventWriter) begin() {
	_ = e.control.SetReadDeadline(time.Time{}) // a connection without deadlines has no limits to remove
	if e.encoding == gzipped {
		e.buf = append(e.buf, gzipHeader...)
	}
}

// text adds a small text, of less than 64 KiB, which is the most that a stored deflate block holds.
func (e *eventWriter) text(s string) {
	if e.encoding == gzipped {
		e.buf = append(e.buf, 0)
		e.buf = binary.LittleEndian.AppendUint16(e.buf, uint16(len(s)))
		e.buf = binary.LittleEndian.AppendUint16(e.buf, ^uint16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

// event adds an event with one line of data.
func (e *eventWriter) event(name string, id *api.Tag, data string) {
	e.head(name, id)
	e.text("data: " + data + "\n\n")
}

func (e *eventWriter) head(name string, id *api.Tag) {
	head := "event: " + name + "\n"
	if id != nil {
		head += "id: " + id.String() + "\n"
	}
	e.text(head)
	e.metrics.StreamEvents.WithLabelValues(name).Inc()
}

// delta adds a delta event.
func (e *eventWriter) delta(d *delta, id *api.Tag) {
	e.head(api.EventDelta, id)
	e.text("data: ")
	body := d.bodies[e.encoding]()
	if e.encoding == gzipped {
		body = body[len(gzipHeader) : len(body)-gzipTrailer]
	}
	e.buf = append(e.buf, body...)
	e.text("\n\n")
}

// flush sends the added text. The reader must accept it within maxSilence.
func (e *eventWriter) flush() error {
	if e.err != nil || len(e.buf) == 0 {
		return e.err
	}
	if e.encoding == gzipped {
		e.buf = append(e.buf, 0x00, 0x00, 0x00, 0xff, 0xff) // an empty block makes decoders pass on everything before it
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(maxSilence)) // errors do not matter, as in begin
	if _, e.err = e.w.Write(e.buf); e.err == nil {
		e.err = e.control.Flush()
	}
	e.bytes += len(e.buf)
	e.metrics.StreamSentBytes.Add(float64(len(e.buf)))
	if e.buf = e.buf[:0]; cap(e.buf) > 4<<10 {
		e.buf = nil // free the memory: most of the many streams are usually silent
	}
	return e.err
}
