package cluster

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/kube"
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// entry is an object of a watch or a list as the reflector takes it: little more than a name and a revision around what
// was decoded.
type entry struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	revision kube.Revision
	item     item
}

// DeepCopyObject implements runtime.Object. What is in an entry never changes.
func (e *entry) DeepCopyObject() runtime.Object {
	c := *e
	return &c
}

func (e *entry) ref(kind kube.Kind) kube.Ref {
	return kube.Ref{Kind: kind, Namespace: e.Namespace, Name: e.Name}
}

// frames reads a stream of events, one at a time.
type frames struct {
	k        *watched
	protobuf bool
	in       *bufio.Reader
	text     *json.Decoder // of what is allowed, for JSON
	allowed  *io.LimitedReader
	buf      []byte
	limit    int64 // of one event, in bytes
}

func newFrames(k *watched, body io.Reader, protobuf bool, limit int64) *frames {
	f := &frames{k: k, protobuf: protobuf, in: bufio.NewReaderSize(body, 32<<10), limit: limit}
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
func (f *frames) decode(kind watch.EventType, raw []byte) (watch.Event, error) {
	message := raw
	if f.protobuf {
		_, inner, err := envelope(raw)
		if err != nil {
			return watch.Event{}, err
		}
		message = inner
	}
	switch kind {
	case watch.Error:
		status, err := f.status(message)
		return watch.Event{Type: kind, Object: status}, err
	case watch.Bookmark:
		meta, err := f.meta(message)
		if err != nil {
			return watch.Event{}, err
		}
		e := &entry{}
		e.ResourceVersion, e.Annotations = meta.ResourceVersion, meta.Annotations
		return watch.Event{Type: kind, Object: e}, nil
	case watch.Added, watch.Modified, watch.Deleted:
		e, err := f.object(message)
		if err == nil && kind != watch.Deleted {
			f.fill(e, message)
		}
		return watch.Event{Type: kind, Object: e}, err
	}
	return watch.Event{}, fmt.Errorf("type %.40q", kind)
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
	sum := digest(sha256.Sum256(raw))
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

// stream is a watch that is open. It implements watch.Interface.
type stream struct {
	result chan watch.Event
	cancel context.CancelFunc
}

// ResultChan gives the events, and is closed when the stream has ended.
func (s *stream) ResultChan() <-chan watch.Event { return s.result }

// Stop ends the stream.
func (s *stream) Stop() { s.cancel() }

// watchRequest is what a watch is asked for.
type watchRequest struct {
	since   string // the revision to watch from; with initial, that all there is must not be older than
	initial bool   // everything that there is comes first
	seconds int64  // after which the server ends the stream
}

func (r watchRequest) query(selector string) string {
	q := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	if selector != "" {
		q.Set("labelSelector", selector)
	}
	if r.since != "" {
		q.Set("resourceVersion", r.since)
	}
	if r.initial {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	if r.seconds > 0 {
		q.Set("timeoutSeconds", strconv.FormatInt(r.seconds, 10))
	}
	return q.Encode()
}

// openStream asks for a watch and passes its events on until it ends, ctx ends or nobody wants them any more. loaded is
// called when everything that there was at first has come, or the stream has ended, once; if that takes longer than a
// request may take, the stream is given up.
func (k *watched) openStream(parent context.Context, s *session, r watchRequest, loaded func()) (watch.Interface, error) {
	once := sync.OnceFunc(loaded)
	ctx, cancel := context.WithCancelCause(parent)
	src := k.w.source
	timer := time.AfterFunc(src.cfg.Timeout, func() {
		cancel(fmt.Errorf("no complete answer within %v: %w", src.cfg.Timeout, context.DeadlineExceeded))
	})
	resp, path, err := k.askStream(ctx, parent, r)
	if err != nil || !s.begin() {
		if err == nil {
			_ = resp.Body.Close()
			err = context.Canceled
		}
		timer.Stop()
		cancel(nil)
		once()
		return nil, err
	}
	f := newFrames(k, resp.Body, strings.HasPrefix(resp.Header.Get("Content-Type"), mediaProtobuf), src.cfg.MaxBytes)
	if !r.initial {
		timer.Stop()
		once()
	}
	k.accepted()
	out := &stream{result: make(chan watch.Event), cancel: func() { cancel(nil) }}
	go func() {
		defer s.calls.Done()
		defer close(out.result)
		defer once()
		defer cancel(nil)
		defer timer.Stop()
		defer func() { _ = resp.Body.Close() }()
		err := out.pass(ctx, f, func() {
			timer.Stop()
			once()
		})
		if parent.Err() != nil {
			return
		}
		ended, cause := (*endedError)(nil), context.Cause(ctx)
		switch {
		case err == nil, errors.As(err, &ended):
		case errors.Is(cause, context.DeadlineExceeded):
			err = cause
		case ctx.Err() != nil:
			err = nil // stopped by who reads it
		}
		if err != nil {
			err = fail(streamReason(err), "request to %s: %w", path, err)
		}
		k.closed(err)
	}()
	return out, nil
}

// pass passes events on. It returns nil when the stream has ended between two of them.
func (s *stream) pass(ctx context.Context, f *frames, loaded func()) error {
	for {
		e, err := f.next()
		if bad := (*badFrameError)(nil); errors.As(err, &bad) {
			// The reflector lists again, since it cannot go on behind what it does not understand.
			e = watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			}}
		} else if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case s.result <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch o := e.Object.(type) {
		case *metav1.Status:
			return &endedError{o}
		case *entry:
			if e.Type == watch.Bookmark && o.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				loaded()
			}
		}
	}
}

// endedError is what the server said when it ended a watch.
type endedError struct{ status *metav1.Status }

func (e *endedError) Error() string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(e.status.Message), " "), "\ufffd")
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return fmt.Sprintf("the watch has ended, status: %d %s: %s", e.status.Code, e.status.Reason, text)
}

// expired reports whether the server has forgotten the revision from which it was to go on.
func (e *endedError) expired() bool {
	return e.status.Code == http.StatusGone || e.status.Reason == metav1.StatusReasonExpired || e.status.Reason == metav1.StatusReasonGone
}

func streamReason(err error) reason {
	ended := (*endedError)(nil)
	switch {
	case errors.As(err, &ended):
		return reasonStatus
	case errors.Is(err, context.DeadlineExceeded):
		return reasonTimeout
	}
	return reasonConnection
}

// askStream makes the request for a watch. Anything but an answer with status 200 that is a stream is an error.
func (k *watched) askStream(ctx, parent context.Context, r watchRequest) (resp *http.Response, path string, err error) {
	src := k.w.source
	u := *src.base
	u.Path = strings.TrimSuffix(u.Path, "/") + k.list.request.path
	u.RawQuery = r.query(k.list.selector)
	path = u.RequestURI()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, path, fail(reasonConnection, "request to %s: %w", path, err)
	}
	req.Header.Set("Accept", k.list.request.accept)
	resp, err = k.w.streams.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); parent.Err() == nil && errors.Is(cause, context.DeadlineExceeded) {
			return nil, path, fail(reasonTimeout, "request to %s: %w", path, cause)
		}
		return nil, path, src.transportError(ctx, parent, path, err)
	}
	if refused := resp; resp.StatusCode != http.StatusOK {
		defer func() { _ = refused.Body.Close() }()
		return nil, path, src.refused(ctx, parent, resp, path, k.list.permission("watch", src.cfg.Namespace))
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err == nil && media != mediaJSON && (media != mediaProtobuf || k.list.decode == nil) {
		err = fmt.Errorf("content type %q: want %s or %s", media, mediaProtobuf, mediaJSON)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, path, fail(reasonBody, "answer to %s: %w", path, err)
	}
	return resp, path, nil
}
