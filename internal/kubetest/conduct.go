package kubetest

import (
	"context"
	"net/http"

	"github.com/routesrv/routesrv/kube"
)

// Conduct is how a server treats each request, for tests in which several clients meet different faults. Functions that are
// nil change nothing. They are called from the goroutines of the requests, with the server locked: they must not use it.
type Conduct struct {
	// Fault is how this request goes wrong. It counts where SetFault says nothing.
	Fault func(*http.Request) Fault
	// Watch is how this watch goes wrong, which is decided when it begins. It counts where SetWatchFault says nothing.
	Watch func(*http.Request) WatchFault
	// Mute reports whether the watch with this context keeps everything to itself. Wake has it asked again.
	Mute func(context.Context) bool
	// Answered is told what the request with this context gets: lists, discovery and each event of a watch.
	Answered func(context.Context, Answer)
}

// Answer is what a request gets, or one event of a watch, before a fault of the connection has struck.
type Answer struct {
	Kind     kube.Kind // empty for discovery
	Verb     string    // list, watch or get
	Revision kube.Revision
	Status   int
}

// SetConduct has the server ask c from now on.
func (s *Server) SetConduct(c Conduct) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conduct = c
}

// Wake has all watches look for what they may send.
func (s *Server) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announce()
}

// Drop ends the open watches whose context fits, in the middle of whatever they are at.
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

// Objects are those that are stored, as JSON, in the order of lists.
func (s *Server) Objects() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]byte
	for _, o := range s.inOrder() {
		out = append(out, o.json)
	}
	return out
}

// Revision is that of the last write.
func (s *Server) Revision() kube.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Restore takes everything back to what it was at a revision, as a restore of etcd from a copy does: later writes never
// happened, and their revisions are given to others. All watches end, and later ones from before are told that their revision is
// too old, since the caches of the API server are new. It reports false, and does nothing, if the revision is from before the last
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

// at is what was stored at a revision that is not compacted, in no order; mu is held.
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

// answered tells the conduct; mu is held.
func (s *Server) answered(ctx context.Context, a Answer) {
	if s.conduct.Answered != nil {
		s.conduct.Answered(ctx, a)
	}
}

// muted reports whether a watch keeps everything to itself; mu is held.
func (o *watcher) muted() bool {
	return o.server.held[o.path] || o.server.conduct.Mute != nil && o.server.conduct.Mute(o.ctx)
}
