package kubetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/kube"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkInterval is how often an idle watch is told the revision, and lastBookmark how long before its time is up.
const bookmarkInterval, lastBookmark = time.Minute, 2 * time.Second

// WatchFault is a way for a watch to go wrong. The zero WatchFault is none.
type WatchFault struct {
	// Times is how many watches meet the fault; 0 means all.
	Times int

	Status int  // answered instead of a stream
	Hang   bool // no answer at all
	Silent bool // an answer, and then nothing
	Gone   bool // an answer, and then the error that the revision is too old
	Broken bool // an answer, and then a frame that is none
	Cut    int  // the connection ends after so many events, in the middle of the next one

	spent int
}

// occurrence is one write, as a watch sees it. One of the objects is nil if the write made or removed it.
type occurrence struct {
	revision    kube.Revision
	before, now *object
}

// SetWatchFault makes watches of the path (without query) go wrong from now on; the zero WatchFault heals it. Those that
// are open stay as they are.
func (s *Server) SetWatchFault(path string, f WatchFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchFaults[path] = &f
	if f == (WatchFault{}) {
		delete(s.watchFaults, path)
	}
}

// SetWatchList says whether watches can begin with what there is, as they can by default.
func (s *Server) SetWatchList(enabled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noWatchList = !enabled
}

// Compact forgets what happened up to now: later watches from before get the error that the revision is too old.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision // open watches go on
}

// DropWatches ends the open watches of the path, in the middle of whatever they are at.
func (s *Server) DropWatches(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.path == path {
			w.dropped = true
			w.end()
		}
	}
}

// HoldWatches makes the open and later watches of the path keep everything to themselves, or go on.
func (s *Server) HoldWatches(path string, hold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[path] = hold
	s.announce()
}

// LoseEvents makes the open watches of the path pass over what they have not sent yet: from their view it never happened.
func (s *Server) LoseEvents(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.path == path {
			w.sent = s.revision
		}
	}
}

// Bookmark sends every open watch the current revision.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks++
	s.announce()
}

// Watches is the number of open watches of the path.
func (s *Server) Watches(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for w := range s.watches {
		if w.path == path {
			n++
		}
	}
	return n
}

// announce wakes all watches; mu is held.
func (s *Server) announce() {
	close(s.news)
	s.news = make(chan struct{})
}

// record remembers a write for the watches; mu is held, and the write has its revision.
func (s *Server) record(before, now *object) {
	if s.revision != 0 {
		if now != nil {
			now.revision = s.revision
		}
		s.history = append(s.history, occurrence{s.revision, before, now})
	}
	s.announce()
}

// inOrder gives the objects in the order in which a server lists them: a real one by name, the fake of the conformance
// cases as they were added. mu is held.
func (s *Server) inOrder() []*object {
	if s.revision == 0 {
		return s.objects
	}
	sorted := slices.Clone(s.objects)
	slices.SortStableFunc(sorted, func(a, b *object) int {
		return cmp.Compare(a.ref.Namespace+"/"+a.ref.Name, b.ref.Namespace+"/"+b.ref.Name)
	})
	return sorted
}

// watcher is one open watch.
type watcher struct {
	server    *Server
	path      string
	kind      kube.Kind
	namespace string
	selector  string
	protobuf  bool
	bookmarks bool
	last      <-chan time.Time // the time is nearly up
	end       context.CancelFunc
	w         http.ResponseWriter
	fault     WatchFault
	events    int // sent so far
	marked    int // the bookmarks that were sent

	// guarded by server.mu
	sent    kube.Revision // what happened up to here was sent
	dropped bool          // the connection is to break
}

// serveWatch answers a watch until the client leaves, the time is up, or a fault ends it.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, m []string) {
	ctx, end := context.WithCancel(r.Context())
	defer end()
	q := r.URL.Query()
	last := make(<-chan time.Time)
	if n, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil && n > 0 {
		timer := time.AfterFunc(time.Duration(n)*time.Second, end)
		defer timer.Stop()
		last = time.After(time.Duration(n)*time.Second - lastBookmark)
	}
	asProtobuf := strings.Contains(r.Header.Get("Accept"), protobufType)
	out := &watcher{
		server: s, path: r.URL.Path, kind: kinds[m[2]], namespace: m[1], selector: q.Get("labelSelector"),
		bookmarks: q.Get("allowWatchBookmarks") == "true", last: last, end: end, w: w,
	}
	initial := q.Get("sendInitialEvents") == "true"
	since, _ := strconv.ParseUint(q.Get("resourceVersion"), 10, 64) // "" is 0

	s.mu.Lock()
	asProtobuf = asProtobuf && s.protobuf
	out.protobuf = asProtobuf && out.kind != kube.KindRouteGroup
	if f := s.watchFaults[r.URL.Path]; f != nil && (f.Times == 0 || f.spent < f.Times) {
		f.spent++
		out.fault = *f
	}
	refused := s.refuseWatch(out, initial, kube.Revision(since), asProtobuf)
	var first []occurrence
	if initial {
		first = out.present()
		out.sent = s.revision
	} else {
		out.sent = kube.Revision(since)
	}
	expired := !initial && out.sent < s.compacted
	reached := s.revision
	out.marked = s.bookmarks
	if refused == nil {
		s.watches[out] = true
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watches, out)
		s.mu.Unlock()
	}()

	switch {
	case out.fault.Hang:
		<-ctx.Done()
		return
	case refused != nil:
		w.Header().Set("Content-Type", refused.contentType)
		w.WriteHeader(refused.status)
		_, _ = w.Write(refused.body)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if out.protobuf {
		w.Header().Set("Content-Type", protobufType+";stream=watch")
	}
	w.WriteHeader(http.StatusOK)
	out.flush()
	switch {
	case out.fault.Silent:
		<-ctx.Done()
	case out.fault.Broken:
		_, _ = w.Write([]byte("\x00\x00\x00\x03xxx{"))
		out.flush()
	case out.fault.Gone || expired:
		out.sendError(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
	default:
		out.run(ctx, first, initial, reached)
	}
	s.mu.Lock()
	dropped := out.dropped
	s.mu.Unlock()
	if dropped {
		panic(http.ErrAbortHandler) // net/http's way to drop a connection in the middle of an answer
	}
}

// refuseWatch gives the answer to a watch that is none; mu is held.
func (s *Server) refuseWatch(o *watcher, initial bool, since kube.Revision, asProtobuf bool) *answer {
	var a answer
	switch {
	case o.fault.Status != 0:
		a = (&Fault{Status: o.fault.Status}).answer(asProtobuf)
	case s.api.DisableRouteGroups && o.kind == kube.KindRouteGroup:
		a = failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", asProtobuf)
	case initial && s.noWatchList:
		a = failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch", asProtobuf)
	case initial && since > s.revision:
		a = tooLarge(since, s.revision, asProtobuf)
	default:
		return nil
	}
	return &a
}

// present is everything that there is, as if it had just been added; mu is held.
func (o *watcher) present() (first []occurrence) {
	for _, obj := range o.server.inOrder() {
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
		if !o.server.held[o.path] {
			for _, e := range o.server.history {
				if e.revision > o.sent {
					next = append(next, e)
				}
			}
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

// await waits as long as the path is held. It reports whether the watch goes on.
func (o *watcher) await(ctx context.Context) bool {
	for {
		o.server.mu.Lock()
		news, held := o.server.news, o.server.held[o.path]
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

// send sends what a write is to this watch, and reports whether the watch goes on.
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
	if !o.bookmarks {
		return true
	}
	annotations := ""
	if end {
		annotations = `"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}`
	}
	return o.sendEvent(watch.Bookmark, []byte(`{"kind":"`+string(o.kind)+`","metadata":{`+annotations+`}}`), revision)
}

// sendEvent sends an object, with the revision in it.
func (o *watcher) sendEvent(kind watch.EventType, object []byte, revision kube.Revision) bool {
	var raw map[string]json.RawMessage
	var meta map[string]json.RawMessage
	if json.Unmarshal(object, &raw) != nil || json.Unmarshal(raw["metadata"], &meta) != nil {
		panic("an object that was stored does not parse") // programming error: it was parsed before
	}
	meta["resourceVersion"] = json.RawMessage(`"` + strconv.FormatUint(uint64(revision), 10) + `"`)
	raw["metadata"], _ = json.Marshal(meta) // a map of valid JSON
	text, _ := json.Marshal(raw)
	if !o.protobuf {
		return o.write(kind, text)
	}
	return o.write(kind, protobufObject(o.kind, text))
}

// protobufObject is the object in the envelope of protobuf. One that does not fit its type keeps its metadata, behind
// which comes what cannot be decoded.
func protobufObject(kind kube.Kind, text []byte) []byte {
	typed := map[kube.Kind]func() runtime.Object{
		kube.KindIngress: func() runtime.Object { return &networkingv1.Ingress{} },
		kube.KindService: func() runtime.Object { return &corev1.Service{} },
		//lint:ignore SA1019 deprecated and still served
		kube.KindEndpoints:     func() runtime.Object { return &corev1.Endpoints{} },
		kube.KindEndpointSlice: func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		kube.KindSecret:        func() runtime.Object { return &corev1.Secret{} },
	}[kind]()
	if err := json.Unmarshal(text, typed); err == nil {
		body, err := marshal(typed)
		if err != nil {
			panic(err) // programming error: the type is registered
		}
		return body
	}
	var named struct {
		Metadata struct{ Name, Namespace, ResourceVersion string }
	}
	_ = json.Unmarshal(text, &named) // it was filed by its name
	meta := metav1.ObjectMeta{
		Name: named.Metadata.Name, Namespace: named.Metadata.Namespace, ResourceVersion: named.Metadata.ResourceVersion,
	}
	inner, _ := meta.Marshal()
	message := append([]byte{0x0a, byte(len(inner))}, inner...)
	unknown := runtime.Unknown{Raw: append(message, 0x12, 200)}
	body, _ := unknown.Marshal()
	return append([]byte("k8s\x00"), body...)
}

// sendError sends what a server ends a watch with.
func (o *watcher) sendError(code int, reason metav1.StatusReason, message string) {
	a := failure(code, reason, message, o.protobuf)
	o.write(watch.Error, a.body)
}

// write sends one frame, and reports whether the watch goes on.
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

// watchPath matches what can be watched.
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
