package cluster

import (
	"context"
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
