package decode

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/kube"
)

// EventType is the type of a watch event.
type EventType string

// The event types of the API.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK" // everything up to its revision was sent
	Failed   EventType = "ERROR"    // why the server ends the stream
)

// Event is one event of a watch.
type Event struct {
	Type EventType

	// Namespace, Name, Revision and Object describe an object that was added, modified or deleted. Object is the
	// encoded object, for [Object]; it is valid until the next event is read. A bookmark has only a Revision.
	Namespace, Name string
	Revision        kube.Revision
	Object          []byte

	// Loaded says that this bookmark ends the initial objects of the watch.
	Loaded bool
	// Status is the status of a Failed event.
	Status *metav1.Status
}

// Events reads the stream of a watch, one event at a time.
type Events struct {
	typ     Type
	media   string
	in      *bufio.Reader
	text    *json.Decoder // reads at most limit bytes, for JSON
	allowed *io.LimitedReader
	buf     []byte
	limit   int64 // of one event, in bytes
}

// NewEvents returns a reader of events about objects of the type, from a body of the media type. An event of more
// than limit bytes fails with [ErrTooLarge].
func NewEvents(t Type, media string, body io.Reader, limit int64) *Events {
	r := &Events{typ: t, media: media, in: bufio.NewReaderSize(body, 32<<10), limit: limit}
	r.allowed = &io.LimitedReader{R: r.in}
	r.text = json.NewDecoder(r.allowed)
	return r
}

// Next reads an event. The error is io.EOF if the stream ended between two events, and a *[BadEventError] if the
// event cannot be decoded; any other error is a read error of the body.
func (r *Events) Next() (e Event, err error) {
	if r.media == MediaProtobuf {
		err = r.readFrame()
	} else {
		r.buf, err = r.readText()
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) || errors.Is(err, ErrTooLarge) {
		return e, &BadEventError{err}
	} else if err != nil {
		return e, err
	}
	event, raw, err := r.split()
	if err == nil {
		e, err = r.decode(event, raw)
	}
	if err != nil {
		return e, &BadEventError{err}
	}
	return e, nil
}

// BadEventError reports an event that cannot be decoded or is larger than allowed. Nothing after it can be read.
type BadEventError struct{ Err error }

func (e *BadEventError) Error() string { return "event: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *BadEventError) Unwrap() error { return e.Err }

// readFrame reads a protobuf frame: its length in four bytes, then as many bytes.
func (r *Events) readFrame() error {
	var head [4]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > r.limit {
		return fmt.Errorf("%w: an event of %d bytes, limit %d", ErrTooLarge, n, r.limit)
	}
	r.buf = r.buf[:0]
	for int64(len(r.buf)) < n { // in pieces: the length may be wrong
		piece := int(min(n-int64(len(r.buf)), windowSize))
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, piece)...)
		if _, err := io.ReadFull(r.in, r.buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// readText reads the next JSON value.
func (r *Events) readText() ([]byte, error) {
	r.allowed.N = r.limit
	raw := json.RawMessage(r.buf[:0])
	err := r.text.Decode(&raw)
	if r.allowed.N <= 0 {
		err = fmt.Errorf("%w: an event of more than %d bytes", ErrTooLarge, r.limit)
	}
	return raw, err
}

// Fields of metav1.WatchEvent and runtime.RawExtension.
const (
	eventType, eventObject = 1, 2
	extensionRaw           = 1
)

// split splits an event into its type and the object, in the encoding of the stream.
func (r *Events) split() (event EventType, raw []byte, err error) {
	if r.media != MediaProtobuf {
		var e struct {
			Type   EventType
			Object json.RawMessage
		}
		err = json.Unmarshal(r.buf, &e)
		return e.Type, e.Object, err
	}
	err = fields(r.buf, func(field protowire.Number, value []byte) error {
		switch field {
		case eventType:
			event = EventType(value)
		case eventObject:
			return fields(value, func(field protowire.Number, value []byte) error {
				if field == extensionRaw {
					raw = value
				}
				return nil
			})
		}
		return nil
	})
	return event, raw, err
}

// decode builds an event from its parts.
func (r *Events) decode(event EventType, raw []byte) (Event, error) {
	e := Event{Type: event}
	apiVersion, kind, message, err := r.open(raw)
	if err != nil {
		return e, err
	}
	if event == Failed {
		e.Status, err = r.status(message)
		return e, err
	}
	if kind != string(r.typ.Kind) || apiVersion != r.typ.APIVersion {
		return e, fmt.Errorf("it is about a %.40q of the API version %.40q, want %s of %s", kind, apiVersion, r.typ.Kind, r.typ.APIVersion)
	}
	switch event {
	case Bookmark:
		meta, err := r.meta(message)
		if err != nil {
			return e, err
		}
		e.Loaded = meta.Annotations[metav1.InitialEventsAnnotationKey] == "true"
		e.Revision, err = Revision(meta.ResourceVersion)
		return e, err
	case Added, Modified, Deleted:
		id, err := r.identity(message)
		if err != nil {
			return e, err
		}
		if e.Revision, err = Revision(id.resourceVersion); err != nil {
			return e, err
		}
		if id.name == "" {
			return e, errors.New("an object without a name")
		}
		e.Namespace, e.Name, e.Object = id.namespace, id.name, message
		return e, nil
	}
	return e, fmt.Errorf("type %.40q", event)
}

// open returns the type of an event's object, and the object in the form that is decoded.
func (r *Events) open(raw []byte) (apiVersion, kind string, message []byte, err error) {
	if r.media == MediaProtobuf {
		return envelope(raw)
	}
	var o metav1.TypeMeta
	if len(raw) > 0 { // else the event has no object, only a type at most
		err = json.Unmarshal(raw, &o)
	}
	return o.APIVersion, o.Kind, raw, err
}

// identity reads only the name, namespace and revision of an object.
func (r *Events) identity(raw []byte) (identity, error) {
	if r.media != MediaProtobuf {
		var o struct {
			Metadata struct{ Name, Namespace, ResourceVersion string }
		}
		err := json.Unmarshal(raw, &o)
		return identity{o.Metadata.Name, o.Metadata.Namespace, o.Metadata.ResourceVersion}, err
	}
	id, err := identityOf(raw)
	if id.name != "" && id.resourceVersion != "" {
		return id, nil // the rest may be broken: then it is a bad object
	}
	return id, err
}

// meta decodes the metadata of an object.
func (r *Events) meta(raw []byte) (m metav1.ObjectMeta, err error) {
	if r.media != MediaProtobuf {
		var o metav1.PartialObjectMetadata
		err = json.Unmarshal(raw, &o)
		return o.ObjectMeta, err
	}
	err = fields(raw, func(field protowire.Number, value []byte) error {
		if field == objectMetadata {
			return m.Unmarshal(value)
		}
		return nil
	})
	return m, err
}

func (r *Events) status(raw []byte) (*metav1.Status, error) {
	s := &metav1.Status{}
	if r.media == MediaProtobuf {
		return s, s.Unmarshal(raw)
	}
	return s, json.Unmarshal(raw, s)
}

// Revision parses a resourceVersion as a number. A watch cannot use a version without an order.
func Revision(version string) (kube.Revision, error) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("resourceVersion %q: want a number", version)
	}
	return kube.Revision(n), nil
}
