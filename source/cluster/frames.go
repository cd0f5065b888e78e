package cluster

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// frames reads a stream of events, one at a time.
type frames struct {
	k        *watched
	hash     *hasher
	protobuf bool
	in       *bufio.Reader
	text     *json.Decoder // of what is allowed, for JSON
	allowed  *io.LimitedReader
	buf      []byte
	limit    int64 // of one event, in bytes
}

func newFrames(k *watched, body io.Reader, protobuf bool, limit int64) *frames {
	f := &frames{k: k, hash: k.list.hash.fork(), protobuf: protobuf, in: bufio.NewReaderSize(body, 32<<10), limit: limit}
	f.allowed = &io.LimitedReader{R: f.in}
	f.text = json.NewDecoder(f.allowed)
	return f
}

// next reads an event. The error is io.EOF if the stream ended between two events.
func (f *frames) next() (e watch.Event, err error) {
	// A panic in code that decodes what others wrote is a broken stream and not the end of the process.
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	if f.protobuf {
		err = f.readFrame()
	} else {
		f.buf, err = f.readText()
	}
	if err != nil {
		return e, err
	}
	kind, raw, err := f.split()
	if err == nil {
		e, err = f.decode(watch.EventType(kind), raw)
	}
	if err != nil {
		return e, &badFrameError{err}
	}
	return e, nil
}

// badFrameError says that an event cannot be understood.
type badFrameError struct{ err error }

func (e *badFrameError) Error() string { return "event: " + e.err.Error() }
func (e *badFrameError) Unwrap() error { return e.err }

// readFrame reads a frame of protobuf: its length in four bytes, then so many more.
func (f *frames) readFrame() error {
	var head [4]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > f.limit {
		return fmt.Errorf("%w: an event of %d bytes, limit %d", errTooLarge, n, f.limit)
	}
	f.buf = f.buf[:0]
	for int64(len(f.buf)) < n { // in pieces: the length may be wrong
		piece := int(min(n-int64(len(f.buf)), windowSize))
		at := len(f.buf)
		f.buf = append(f.buf, make([]byte, piece)...)
		if _, err := io.ReadFull(f.in, f.buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// readText reads the next JSON value.
func (f *frames) readText() ([]byte, error) {
	f.allowed.N = f.limit
	raw := json.RawMessage(f.buf[:0])
	err := f.text.Decode(&raw)
	if f.allowed.N <= 0 {
		err = fmt.Errorf("%w: an event of more than %d bytes", errTooLarge, f.limit)
	}
	return raw, err
}

// Fields of metav1.WatchEvent and runtime.RawExtension.
const (
	eventType, eventObject = 1, 2
	extensionRaw           = 1
)

// split takes an event apart: its type and the object, in the encoding of the stream.
func (f *frames) split() (kind string, raw []byte, err error) {
	if !f.protobuf {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		err = json.Unmarshal(f.buf, &e)
		return e.Type, e.Object, err
	}
	err = fields(f.buf, func(field protowire.Number, value []byte) error {
		switch field {
		case eventType:
			kind = string(value)
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
	return kind, raw, err
}

// decode makes an event of its parts.
func (f *frames) decode(event watch.EventType, raw []byte) (watch.Event, error) {
	apiVersion, kind, message, err := f.open(raw)
	if err != nil {
		return watch.Event{}, err
	}
	if event == watch.Error {
		status, err := f.status(message)
		return watch.Event{Type: event, Object: status}, err
	}
	if r := &f.k.list.resource; kind != string(r.kind) || apiVersion != r.apiVersion() {
		return watch.Event{}, fmt.Errorf("it is about a %.40q of the API version %.40q, want %s of %s", kind, apiVersion, r.kind, r.apiVersion())
	}
	switch event {
	case watch.Bookmark:
		meta, err := f.meta(message)
		if err != nil {
			return watch.Event{}, err
		}
		e := &entry{}
		e.ResourceVersion, e.Annotations = meta.ResourceVersion, meta.Annotations
		return watch.Event{Type: event, Object: e}, nil
	case watch.Added, watch.Modified, watch.Deleted:
		e, err := f.object(message)
		if err == nil && event != watch.Deleted {
			f.fill(e, message)
		}
		return watch.Event{Type: event, Object: e}, err
	}
	return watch.Event{}, fmt.Errorf("type %.40q", event)
}

// open gives the type of the object of an event, and the object in the form that is decoded.
func (f *frames) open(raw []byte) (apiVersion, kind string, message []byte, err error) {
	if f.protobuf {
		return envelope(raw)
	}
	var o metav1.TypeMeta
	if len(raw) > 0 { // else the event has a type at most
		err = json.Unmarshal(raw, &o)
	}
	return o.APIVersion, o.Kind, raw, err
}

// object says which object an event is about, and of which revision it is.
func (f *frames) object(raw []byte) (*entry, error) {
	e := &entry{}
	if err := f.identity(raw, e); err != nil {
		return nil, err
	}
	var err error
	if e.revision, err = parseRevision(e.ResourceVersion); err != nil {
		return nil, err
	}
	if e.Name == "" {
		return nil, errors.New("an object without a name")
	}
	return e, nil
}

// fill decodes the object, unless it is known.
func (f *frames) fill(e *entry, raw []byte) {
	sum := f.hash.sum(raw)
	known := false
	if e.item, known = f.k.known(e.ref(f.k.list.kind), sum); known {
		return
	}
	e.item = f.k.list.decodeItem(raw, f.protobuf)
	e.item.sum = sum
	if b := e.item.bad; b != nil {
		b.Ref.Name, b.Ref.Namespace = e.Name, e.Namespace // both could be read
	}
	f.k.w.source.metrics.DecodedObjects.WithLabelValues(string(f.k.list.kind)).Inc()
}

// identity reads name, namespace and revision of an object, and no more of it.
func (f *frames) identity(raw []byte, e *entry) error {
	if !f.protobuf {
		var o struct {
			Metadata struct{ Name, Namespace, ResourceVersion string }
		}
		if err := json.Unmarshal(raw, &o); err != nil {
			return err
		}
		e.Name, e.Namespace, e.ResourceVersion = o.Metadata.Name, o.Metadata.Namespace, o.Metadata.ResourceVersion
		return nil
	}
	err := fields(raw, func(field protowire.Number, value []byte) error {
		if field != objectMetadata {
			return nil
		}
		return fields(value, func(field protowire.Number, value []byte) error {
			switch field {
			case objectMetaName:
				e.Name = string(value)
			case objectMetaNamespace:
				e.Namespace = string(value)
			case objectMetaResourceVersion:
				e.ResourceVersion = string(value)
			}
			return nil
		})
	})
	if e.Name != "" && e.ResourceVersion != "" {
		return nil // what comes behind may be broken: then it is a bad object
	}
	return err
}

// meta decodes the metadata of an object.
func (f *frames) meta(raw []byte) (m metav1.ObjectMeta, err error) {
	if !f.protobuf {
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

func (f *frames) status(raw []byte) (*metav1.Status, error) {
	s := &metav1.Status{}
	if f.protobuf {
		return s, s.Unmarshal(raw)
	}
	return s, json.Unmarshal(raw, s)
}
