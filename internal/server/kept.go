package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
)

// keptAnswer is the answer to replicas that ask which objects are kept. It is made once for each list.
type keptAnswer struct {
	mu   sync.Mutex
	list []*publish.Kept
	body []byte
}

// serveKept answers /kept. The objects have only the annotations and the label that the compiler reads: others are nobody's business
// here.
func (s *Server) serveKept(w http.ResponseWriter, _ *http.Request) {
	if s.compiler == nil {
		http.Error(w, "a relay knows only tables", http.StatusNotFound)
		return
	}
	a := &s.kept
	a.mu.Lock()
	defer a.mu.Unlock()
	if list := s.publisher.List(); a.body == nil || !slices.Equal(list, a.list) {
		a.list = list
		shown := make([]*publish.Kept, len(list))
		for i, k := range list {
			shown[i] = s.bare(k)
		}
		body, err := json.Marshal(shown)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		a.body = append(body, '\n')
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.body)
}

// bare returns a kept object without what the compiler does not read.
func (s *Server) bare(k *publish.Kept) *publish.Kept {
	less := *k
	if o := k.Object(); o != nil {
		less.Version = kube.VersionOf(o.WithMeta(s.bareMeta(*o.Metadata())))
	}
	return &less
}

// bareMeta returns metadata without what the compiler does not read.
func (s *Server) bareMeta(m kube.Meta) kube.Meta {
	m.Annotations = slices.DeleteFunc(slices.Clone(m.Annotations), func(p kube.Pair) bool { return !s.cfg.Compile.Reads(p.Key) })
	m.Labels = slices.DeleteFunc(slices.Clone(m.Labels), func(p kube.Pair) bool { return p.Key != s.cfg.Compile.ApplicationLabel })
	return m
}

// eventProblems returns what teams are told by Events: the problems of their objects, and takeovers. Objects that were deleted cannot have
// Events.
func (s *Server) eventProblems() []poller.Problem {
	all := append(s.compiler.Problems(), s.keptProblems(func(k *publish.Kept) bool { return !k.Deleted })...)
	return slices.Concat(all, s.reviews.takeovers.problems(), s.declared.problems())
}

// keptProblems returns the kept objects of some kind as problems.
func (s *Server) keptProblems(wanted func(*publish.Kept) bool) (all []poller.Problem) {
	for _, k := range s.publisher.Kept() {
		if !k.Pending && wanted(k) {
			all = append(all, poller.Problem{Since: k.Since, Problem: rules.Problem{
				Owner: k.Ref, Reason: rules.Kept, Severity: rules.Warning,
				Message: fmt.Sprintf("served %s, %s waits: %s%s", k.Served(), k.Waits(), k.Detail, endOf(k)),
			}})
		}
	}
	return all
}

// endOf says when a freeze or pin that ends soon is over, so that the team of the object gets an Event about it.
func endOf(k *publish.Kept) string {
	if k.Until.IsZero() || k.Reason != publish.ReasonFreeze && k.Reason != publish.ReasonPin || time.Until(k.Until) > publish.EndsSoon {
		return ""
	}
	return ", until " + k.Until.Format(time.RFC3339)
}
