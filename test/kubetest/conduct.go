package kubetest

import (
	"context"
	"net/http"

	"github.com/routesrv/routesrv/kube"
)

// Conduct decides how a server treats each request, for tests in which several clients meet different faults. A nil function
// changes nothing. The goroutines of the requests call the functions with the server locked: they must not use the server.
type Conduct struct {
	// Fault returns the fault of this request. SetFault takes precedence.
	Fault func(*http.Request) Fault
	// Watch returns the fault of this watch, decided when it begins. SetWatchFault takes precedence.
	Watch func(*http.Request) WatchFault
	// Mute reports whether the watch with this context sends nothing at present. Wake makes the server ask again.
	Mute func(context.Context) bool
	// Answered is told the answer to the request with this context: lists, discovery and each event of a watch.
	Answered func(context.Context, Answer)
}

// Answer is the answer to a request, or one event of a watch, before a fault of the connection applies.
type Answer struct {
	Kind     kube.Kind // empty for discovery
	Verb     string    // list, watch or get
	Revision kube.Revision
	Status   int
}

// SetConduct makes the server ask c from now on.
func (s *Server) SetConduct(c Conduct) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conduct = c
}

// Wake makes all watches check what they may send.
func (s *Server) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announce()
}

// Drop ends the open watches whose context fits, even in the middle of an event.
func (s *Server) Drop(fits func(context.Context) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if fits(w.ctx) {
			w.dropped = true
			w.end()
		}
	}
}

// Objects returns the stored objects as JSON, in the order of lists.
func (s *Server) Objects() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]byte
	for _, o := range s.inOrder() {
		out = append(out, o.json)
	}
	return out
}

// Revision returns the revision of the last write.
func (s *Server) Revision() kube.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Restore resets everything to its state at a revision, as restoring etcd from a backup does: later writes never happened, and
// their revisions are used again. All watches end. New watches from earlier revisions get the error that their revision is too
// old, since the caches of the API server are new. Restore returns false and does nothing if the revision is older than the last
// [Server.Compact].
func (s *Server) Restore(r kube.Revision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r < s.compacted || r > s.revision {
		return false
	}
	s.objects = s.at(r)
	clear(s.known)
	for _, o := range s.objects {
		s.known[o.ref] = true
	}
	clear(s.ordered)
	s.revision, s.history, s.compacted = r, nil, r
	for w := range s.watches {
		w.dropped = true
		w.end()
	}
	s.announce()
	return true
}

// at returns the objects stored at a revision that is not compacted, in no particular order; mu is held.
func (s *Server) at(r kube.Revision) []*object {
	state := make(map[kube.Ref]*object, len(s.objects))
	for _, o := range s.objects {
		state[o.ref] = o
	}
	for i := len(s.history) - 1; i >= 0 && s.history[i].revision > r; i-- {
		switch e := s.history[i]; {
		case e.before != nil:
			state[e.before.ref] = e.before
		default:
			delete(state, e.now.ref)
		}
	}
	out := make([]*object, 0, len(state))
	for _, o := range state {
		out = append(out, o)
	}
	return out
}

// answered reports an answer to the conduct; mu is held.
func (s *Server) answered(ctx context.Context, a Answer) {
	if s.conduct.Answered != nil {
		s.conduct.Answered(ctx, a)
	}
}

// muted reports whether a watch sends nothing at present; mu is held.
func (o *watcher) muted() bool {
	return o.server.held[o.path] || o.server.conduct.Mute != nil && o.server.conduct.Mute(o.ctx)
}
