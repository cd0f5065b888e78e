package compile

import (
	"cmp"
	"iter"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

type object struct {
	kube.Routed
	unit     *rules.Unit
	sections []section
	n        int // among those with the same name, which no API server has
}

func compareObjects(a, b *object) int { return cmp.Or(a.Ref().Compare(b.Ref()), cmp.Compare(a.n, b.n)) }

func comparePivots(a, b *object) int {
	switch {
	case a == b:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return compareObjects(a, b)
}

func named(ref kube.Ref) *object {
	if ref.Kind == kube.KindIngress {
		return &object{Routed: &kube.Ingress{Meta: kube.Meta{Namespace: ref.Namespace, Name: ref.Name}}}
	}
	return &object{Routed: &kube.RouteGroup{Meta: kube.Meta{Namespace: ref.Namespace, Name: ref.Name}}}
}

func newObject(of kube.Routed, u *rules.Unit, n int) *object {
	o := &object{Routed: of, unit: u, n: n}
	add := func(r rank, host string, routes []rules.Route) {
		if len(routes) > 0 {
			o.sections = append(o.sections, section{rank: r, host: host, unit: u, routes: routes, object: o})
		}
	}
	if _, ok := of.(*kube.RouteGroup); ok {
		add(fromRouteGroup, "", u.Global)
		return o
	}
	add(fromIngress, "", u.Global)
	for i := range u.Groups {
		add(fromHost, u.Groups[i].Host, u.Groups[i].Routes)
	}
	add(fromCompanions, "", u.Companions)
	return o
}

// section is a run of routes that are adjacent in the order of the reference.
type section struct {
	rank   rank
	host   string // for fromHost
	unit   *rules.Unit
	routes []rules.Route // some or all of the unit
	// object is named in problems: the oldest one with the host for a catch-all, nil for the routes of the options.
	object   *object
	catchAll bool // of the host; no object has requested it
}

type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, ordered by object
	fromHost                   // ordered by host, which is random in the reference, then by object; the catch-all is last
	fromCompanions             // ordered by object
	fromRouteGroup             // ordered by object
	fromOptions
)

// compare orders sections as the reference does.
func (s *section) compare(o *section) int {
	if s == o {
		return 0
	}
	behind := func(s *section) int {
		if s.catchAll {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(s.rank, o.rank), strings.Compare(s.host, o.host), cmp.Compare(behind(s), behind(o)), comparePivots(s.object, o.object),
	)
}

func (s *section) claims() iter.Seq[claim] {
	return func(yield func(claim) bool) {
		for at := range s.routes {
			if !yield(claim{s, at}) {
				return
			}
		}
	}
}

// asker returns the object that requested the routes; nil for catch-alls and the routes of the options.
func (s *section) asker() *object {
	if s.catchAll {
		return nil
	}
	return s.object
}

func (s *section) owner() kube.Ref {
	if s.object == nil {
		return kube.Ref{}
	}
	return s.object.Ref()
}

func (s *section) created() int64 {
	if s.object == nil {
		return 0
	}
	return s.object.Metadata().Created
}
