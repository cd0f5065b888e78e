package kubetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/kube"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// present returns all existing objects as if they had just been added; mu is held.
func (o *watcher) present() (first []occurrence) {
	for _, obj := range o.server.ofKind(o.kind) {
		if o.concerns(obj) {
			first = append(first, occurrence{obj.revision, nil, obj})
		}
	}
	return first
}

func (o *watcher) concerns(obj *object) bool {
	return obj != nil && obj.ref.Kind == o.kind && (o.namespace == "" || obj.ref.Namespace == o.namespace) && selected(obj.labels, o.selector)
}

// run sends events until ctx ends.
func (o *watcher) run(ctx context.Context, first []occurrence, initial bool, reached kube.Revision) {
	for _, e := range first {
		if !o.await(ctx) || !o.send(e) {
			return
		}
	}
	if initial && (!o.await(ctx) || !o.sendBookmark(reached, true)) {
		return
	}
	idle := time.NewTicker(bookmarkInterval)
	defer idle.Stop()
	for due := false; ; {
		o.server.mu.Lock()
		news := o.server.news
		var next []occurrence
		mark := due || o.server.bookmarks != o.marked
		if !o.muted() {
			next = o.server.since(o.sent)
			reached = max(o.server.revision, o.sent) // a watch from the future stays silent
			o.sent, o.marked = reached, o.server.bookmarks
		} else {
			mark = false
		}
		future := o.server.revision < o.sent
		o.server.mu.Unlock()
		for _, e := range next {
			if !o.send(e) {
				return
			}
		}
		if mark && !future && !o.sendBookmark(reached, false) {
			return
		}
		due = false
		select {
		case <-news:
		case <-idle.C:
			due = true
		case <-o.last:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

// await waits while the path is held. It reports whether the watch continues.
func (o *watcher) await(ctx context.Context) bool {
	for {
		o.server.mu.Lock()
		news, held := o.server.news, o.muted()
		o.server.mu.Unlock()
		if !held {
			return ctx.Err() == nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// send sends a write as this watch sees it, and reports whether the watch continues.
func (o *watcher) send(e occurrence) bool {
	was, is := o.concerns(e.before), o.concerns(e.now)
	switch {
	case was && is:
		return o.sendEvent(watch.Modified, e.now.json, e.revision)
	case is:
		return o.sendEvent(watch.Added, e.now.json, e.revision)
	case was:
		return o.sendEvent(watch.Deleted, e.before.json, e.revision)
	}
	return true
}

func (o *watcher) sendBookmark(revision kube.Revision, end bool) bool {
	if !o.bookmarks || o.fault.NoBookmarks {
		return true
	}
	annotations := ""
	if end {
		annotations = `"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}`
	}
	return o.sendEvent(watch.Bookmark, []byte(`{"metadata":{`+annotations+`}}`), revision)
}

// sendEvent sends an object with its revision.
func (o *watcher) sendEvent(kind watch.EventType, object []byte, revision kube.Revision) bool {
	var raw map[string]json.RawMessage
	var meta map[string]json.RawMessage
	if json.Unmarshal(object, &raw) != nil || json.Unmarshal(raw["metadata"], &meta) != nil {
		panic("an object that was stored does not parse") // programming error: it was parsed before
	}
	o.server.mu.Lock()
	o.server.answered(o.ctx, Answer{o.kind, "watch", revision, http.StatusOK})
	o.server.mu.Unlock()
	meta["resourceVersion"] = json.RawMessage(`"` + strconv.FormatUint(uint64(revision), 10) + `"`)
	raw["metadata"], _ = json.Marshal(meta) // a map of valid JSON
	claimed := metav1.TypeMeta{
		Kind: string(cmp.Or(o.fault.Kind, o.kind)), APIVersion: cmp.Or(o.fault.APIVersion, apiVersion(o.kind)),
	}
	raw["kind"], raw["apiVersion"] = json.RawMessage(`"`+claimed.Kind+`"`), json.RawMessage(`"`+claimed.APIVersion+`"`)
	text, _ := json.Marshal(raw)
	if !o.protobuf {
		return o.write(kind, text)
	}
	return o.write(kind, protobufObject(o.kind, claimed, text))
}

// protobufObject returns the object in a protobuf envelope that claims a type. For an object that does not fit its type, only the
// metadata is valid, followed by bytes that cannot be decoded.
func protobufObject(kind kube.Kind, claimed metav1.TypeMeta, text []byte) []byte {
	typed := map[kube.Kind]func() runtime.Object{
		kube.KindIngress: func() runtime.Object { return &networkingv1.Ingress{} },
		kube.KindService: func() runtime.Object { return &corev1.Service{} },
		//lint:ignore SA1019 deprecated and still served
		kube.KindEndpoints:     func() runtime.Object { return &corev1.Endpoints{} },
		kube.KindEndpointSlice: func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		kube.KindSecret:        func() runtime.Object { return &corev1.Secret{} },
	}[kind]()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: claimed.APIVersion, Kind: claimed.Kind}}
	if err := json.Unmarshal(text, typed); err == nil {
		if unknown.Raw, err = typed.(interface{ Marshal() ([]byte, error) }).Marshal(); err != nil {
			panic(err) // programming error: it was decoded
		}
	} else {
		var named struct {
			Metadata struct{ Name, Namespace, ResourceVersion string }
		}
		_ = json.Unmarshal(text, &named) // it was stored by its name
		meta := metav1.ObjectMeta{
			Name: named.Metadata.Name, Namespace: named.Metadata.Namespace, ResourceVersion: named.Metadata.ResourceVersion,
		}
		inner, _ := meta.Marshal()
		unknown.Raw = append(append([]byte{0x0a, byte(len(inner))}, inner...), 0x12, 200)
	}
	body, _ := unknown.Marshal()
	return append([]byte("k8s\x00"), body...)
}

// sendError sends an error that ends the watch.
func (o *watcher) sendError(code int, reason metav1.StatusReason, message string) {
	a := failure(code, reason, message, o.protobuf)
	o.write(watch.Error, a.body)
}

// write sends one frame, and reports whether the watch continues.
func (o *watcher) write(kind watch.EventType, object []byte) bool {
	var frame []byte
	if o.protobuf {
		e := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
		body, err := e.Marshal()
		if err != nil {
			panic(err) // programming error: two fields
		}
		frame = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	} else {
		var b bytes.Buffer
		b.WriteString(`{"type":"` + string(kind) + `","object":`)
		b.Write(bytes.TrimSpace(object))
		b.WriteString("}\n")
		frame = b.Bytes()
	}
	if o.events++; o.fault.Cut != 0 && o.events > o.fault.Cut {
		_, _ = o.w.Write(frame[:len(frame)/2])
		o.flush()
		o.server.mu.Lock()
		o.dropped = true
		o.server.mu.Unlock()
		return false
	}
	if _, err := o.w.Write(frame); err != nil {
		return false
	}
	o.flush()
	return true
}

func (o *watcher) flush() { _ = http.NewResponseController(o.w).Flush() }

// watchPath matches paths that can be watched.
func watchPath(r *http.Request) []string {
	if w := r.URL.Query().Get("watch"); r.Method != http.MethodGet || w != "true" && w != "1" {
		return nil
	}
	m := resourcePath.FindStringSubmatch(r.URL.Path)
	if m == nil || m[3] != "" {
		return nil
	}
	return m
}
