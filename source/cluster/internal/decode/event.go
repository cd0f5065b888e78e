package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

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

	// Namespace, Name, Revision and Object describe an object that was added, modified or deleted. Object is the JSON
	// object; it is valid until the next event is read. A bookmark has only a Revision.
	Namespace, Name string
	Revision        kube.Revision
	Object          []byte

	// Status is the status of a Failed event.
	Status *metav1.Status
}

// Events reads the stream of a watch in JSON, one event at a time.
type Events struct {
	kind    kube.Kind
	text    *json.Decoder // reads at most limit bytes for an event
	allowed *io.LimitedReader
	limit   int64
	buf     json.RawMessage
}

// NewEvents returns a reader of events about objects of the kind. An event of more than limit bytes fails with [ErrTooLarge].
func NewEvents(kind kube.Kind, body io.Reader, limit int64) *Events {
	allowed := &io.LimitedReader{R: body}
	return &Events{kind: kind, text: json.NewDecoder(allowed), allowed: allowed, limit: limit}
}

// BadEventError reports an event that cannot be decoded or is larger than allowed. Nothing after it can be read.
type BadEventError struct{ Err error }

func (e *BadEventError) Error() string { return "event: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *BadEventError) Unwrap() error { return e.Err }

// Next reads an event. The error is io.EOF if the stream ended between two events, and a *[BadEventError] if the
// event cannot be decoded; any other error is a read error of the body.
func (r *Events) Next() (e Event, err error) {
	r.allowed.N = r.limit
	r.buf = r.buf[:0]
	err = r.text.Decode(&r.buf)
	if r.allowed.N <= 0 {
		err = fmt.Errorf("%w: an event of more than %d bytes", ErrTooLarge, r.limit)
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) || errors.Is(err, ErrTooLarge) {
		return e, &BadEventError{err}
	} else if err != nil {
		return e, err
	}
	if e, err = r.decode(); err != nil {
		return e, &BadEventError{err}
	}
	return e, nil
}

// decode decodes an event, but only the type and the name of its object. If the rest is invalid, the object is bad, not the
// event.
func (r *Events) decode() (e Event, err error) {
	var event struct {
		Type   EventType
		Object json.RawMessage
	}
	if err := json.Unmarshal(r.buf, &event); err != nil {
		return e, err
	}
	e.Type = event.Type
	if e.Type == Failed {
		e.Status = &metav1.Status{}
		return e, json.Unmarshal(event.Object, e.Status)
	}
	var o struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace, ResourceVersion string }
	}
	if err := json.Unmarshal(event.Object, &o); err != nil {
		return e, err
	}
	if want := r.kind.APIVersion(); o.Kind != string(r.kind) || o.APIVersion != want {
		return e, fmt.Errorf("object is a %.40q of API version %.40q, must be %s of %s", o.Kind, o.APIVersion, r.kind, want)
	}
	if e.Revision, err = Revision(o.Metadata.ResourceVersion); err != nil {
		return e, err
	}
	switch e.Type {
	case Bookmark:
		return e, nil
	case Added, Modified, Deleted:
		if o.Metadata.Name == "" {
			return e, errors.New("an object without a name")
		}
		e.Namespace, e.Name, e.Object = o.Metadata.Namespace, o.Metadata.Name, event.Object
		return e, nil
	}
	return e, fmt.Errorf("type %.40q", e.Type)
}

// Revision parses a resourceVersion as a number. A watch cannot use a version without an order.
func Revision(version string) (kube.Revision, error) {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("resourceVersion %q must be a number above 0", version)
	}
	return kube.Revision(n), nil
}
