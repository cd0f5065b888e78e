package kubetest

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bookmarkInterval is how often an idle watch gets the revision. lastBookmark is how long before its end it gets the last one.
const bookmarkInterval, lastBookmark = time.Minute, 2 * time.Second

// WatchFault is a way in which watches fail. The zero WatchFault is none.
type WatchFault struct {
	// Times is how many watches meet the fault; 0 means all.
	Times int

	Status int  // answered instead of a stream
	Hang   bool // no answer at all
	Silent bool // an answer, and then nothing
	Gone   bool // an answer, then the error that the revision is too old
	Broken bool // an answer, then an invalid frame
	Cut    int  // the connection breaks after that many events, in the middle of the next one

	NoBookmarks bool // send no bookmarks, even if requested

	Kind       kube.Kind // the kind that the objects of all events claim
	APIVersion string    // the version that the objects of all events claim

	spent int
}

// occurrence is one write as watches see it. One of the objects is nil if the write created or removed the object.
type occurrence struct {
	revision    kube.Revision
	before, now *object
}

// SetWatchFault makes later watches of the path (without query) fail; the zero WatchFault ends that. Open watches are not
// affected.
func (s *Server) SetWatchFault(path string, f WatchFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchFaults[path] = &f
	if f == (WatchFault{}) {
		delete(s.watchFaults, path)
	}
}

// Compact forgets the history so far: later watches from earlier revisions get the error that the revision is too old.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact(s.revision)
}

// CompactTo forgets the history up to a revision.
func (s *Server) CompactTo(r kube.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact(min(r, s.revision))
}

// compact is CompactTo; mu is held.
func (s *Server) compact(r kube.Revision) {
	s.compacted = max(s.compacted, r)
	keep := s.compacted // open watches continue
	for w := range s.watches {
		keep = min(keep, w.sent)
	}
	s.history = slices.Clone(s.since(keep))
}

// since returns the writes after a revision; mu is held.
func (s *Server) since(r kube.Revision) []occurrence {
	i, _ := slices.BinarySearchFunc(s.history, r+1, func(e occurrence, r kube.Revision) int { return cmp.Compare(e.revision, r) })
	return s.history[i:]
}

// DropWatches ends the open watches of the path, even in the middle of an event.
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

// HoldWatches makes the open and later watches of the path send nothing, or continue.
func (s *Server) HoldWatches(path string, hold bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[path] = hold
	s.announce()
}

// LoseEvents makes the open watches of the path skip everything not sent yet, as if it had never happened.
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

// Watches returns the number of open watches of the path.
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

// record adds a write to the history for watches; mu is held, and the write has its revision.
func (s *Server) record(before, now *object) {
	if s.revision != 0 {
		if now != nil {
			now.revision = s.revision
		}
		s.history = append(s.history, occurrence{s.revision, before, now})
	}
	s.announce()
}

// inOrder returns the objects in the order of lists; mu is held.
func (s *Server) inOrder() []*object {
	if !s.sorted {
		return s.objects
	}
	return inOrder(s.objects)
}

func inOrder(objects []*object) []*object {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *object) int {
		return cmp.Compare(a.key, b.key)
	})
	return sorted
}

// ofKind returns the objects of a kind in the order of lists; mu is held.
func (s *Server) ofKind(kind kube.Kind) []*object {
	list, kept := s.ordered[kind]
	if !kept {
		for _, o := range s.inOrder() {
			if o.ref.Kind == kind {
				list = append(list, o)
			}
		}
		s.ordered[kind] = list
	}
	return list
}

// watcher is one open watch.
type watcher struct {
	server    *Server
	path      string
	kind      kube.Kind
	namespace string
	selector  string
	bookmarks bool
	last      <-chan time.Time // fires shortly before the watch's time is up
	ctx       context.Context  // of the request
	end       context.CancelFunc
	w         http.ResponseWriter
	fault     WatchFault
	events    int // sent so far
	marked    int // bookmarks sent

	// guarded by server.mu
	sent    kube.Revision // everything up to this revision was sent
	dropped bool          // the connection must break
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
	out := &watcher{
		server: s, path: r.URL.Path, kind: kinds[m[2]], namespace: m[1], selector: q.Get("labelSelector"),
		bookmarks: q.Get("allowWatchBookmarks") == "true", last: last, ctx: r.Context(), end: end, w: w,
	}
	since, _ := strconv.ParseUint(q.Get("resourceVersion"), 10, 64) // "" is 0

	s.mu.Lock()
	if f := s.watchFaults[r.URL.Path]; f != nil && (f.Times == 0 || f.spent < f.Times) {
		f.spent++
		out.fault = *f
	} else if s.conduct.Watch != nil {
		out.fault = s.conduct.Watch(r)
	}
	refused := s.refuseWatch(out)
	out.sent = kube.Revision(since)
	expired := out.sent < s.compacted
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
		out.run(ctx)
	}
	s.mu.Lock()
	dropped := out.dropped
	s.mu.Unlock()
	if dropped {
		panic(http.ErrAbortHandler) // net/http's way to drop a connection in the middle of an answer
	}
}

// refuseWatch returns the answer that refuses a watch; mu is held.
func (s *Server) refuseWatch(o *watcher) *answer {
	var a answer
	switch {
	case o.fault.Status != 0:
		a = (&Fault{Status: o.fault.Status}).answer(false)
	case (s.api.DisableRouteGroups || s.undefined) && o.kind == kube.KindRouteGroup:
		a = failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", false)
	default:
		return nil
	}
	return &a
}
