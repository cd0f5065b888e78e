package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/api"
	"github.com/routesrv/routesrv/source/cluster/decode"
	"github.com/routesrv/routesrv/source/cluster/lister"
)

// entry is an object of a watch or a list as the reflector takes it: little more than a name and a revision around what
// was decoded.
type entry struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	revision kube.Revision
	item     lister.Item
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

// openStream asks for a watch and passes its events on until it ends, ctx ends or nobody wants them any more. loaded is
// called when everything that there was at first has come, or the stream has ended, once; if that takes longer than a
// request may take, the stream is given up.
func (k *watched) openStream(parent context.Context, s *session, r api.WatchOptions, loaded func()) (watch.Interface, error) {
	once := sync.OnceFunc(loaded)
	ctx, cancel := context.WithCancelCause(parent)
	src := k.w.lister
	timer := time.AfterFunc(src.Config.Timeout, func() {
		cancel(fmt.Errorf("no complete answer within %v: %w", src.Config.Timeout, context.DeadlineExceeded))
	})
	resp, err := src.API.Watch(ctx, parent, &k.list.Resource, r)
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
	f := &frames{k: k, hash: k.list.NewHasher(), media: resp.Media, in: decode.NewEvents(k.list.Type, resp.Media, resp.Body, src.Config.MaxBytes)}
	if !r.Initial {
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
			err = api.Errorf(streamReason(err), "request to %s: %w", resp.Path, err)
		}
		k.closed(err)
	}()
	return out, nil
}

// pass passes events on. It returns nil when the stream has ended between two of them.
func (s *stream) pass(ctx context.Context, f *frames, loaded func()) error {
	for {
		e, err := f.next()
		if bad := (*decode.BadEventError)(nil); errors.As(err, &bad) {
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
	return fmt.Sprintf("the watch has ended, status: %d %s: %s", e.status.Code, e.status.Reason, api.OneLine(e.status.Message))
}

// expired reports whether the server has forgotten the revision from which it was to go on.
func (e *endedError) expired() bool {
	return e.status.Code == http.StatusGone || e.status.Reason == metav1.StatusReasonExpired || e.status.Reason == metav1.StatusReasonGone
}

func streamReason(err error) api.Reason {
	ended := (*endedError)(nil)
	switch {
	case errors.As(err, &ended):
		return api.ReasonStatus
	case errors.Is(err, context.DeadlineExceeded):
		return api.ReasonTimeout
	}
	return api.ReasonConnection
}
