package compile

import (
	"cmp"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// section is a run of routes that are adjacent in the order of the reference.
type section struct {
	rank   rank
	host   string // for fromHost
	unit   *rules.Unit
	routes []rules.Route // some or all of the unit
	// object is the one that problems name: for the catch-all of a host the first object with the host, nil for the routes of the options.
	object   *object
	catchAll bool // of the host; no object has requested it
}

type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, ordered by object
	fromHost                   // ordered by host, where the reference's order of hosts is random, then by object; the catch-all is last
	fromCompanions             // ordered by object
	fromRouteGroup             // ordered by object
	fromOptions
)

// compare orders sections as the reference does. The order decides who keeps an id that several routes want if creation times do not.
func (s *section) compare(o *section) int {
	behind := func(s *section) int {
		if s.catchAll {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(s.rank, o.rank), strings.Compare(s.host, o.host), cmp.Compare(behind(s), behind(o)), s.owner().Compare(o.owner()))
}

// sections appends the sections of an object.
func (o *object) sections(all []section) []section {
	u := o.unit
	add := func(r rank, host string, routes []rules.Route) {
		if len(routes) > 0 {
			all = append(all, section{rank: r, host: host, unit: u, routes: routes, object: o})
		}
	}
	if _, ok := o.Object.(*kube.RouteGroup); ok {
		add(fromRouteGroup, "", u.Global)
		return all
	}
	add(fromIngress, "", u.Global)
	for i := range u.Groups {
		add(fromHost, u.Groups[i].Host, u.Groups[i].Routes)
	}
	add(fromCompanions, "", u.Companions)
	return all
}

// asker returns the object that requested the routes; nil for a catch-all, and for the routes of the options.
func (s *section) asker() *object {
	if s.catchAll {
		return nil
	}
	return s.object
}

// owner returns the object as problems name it.
func (s *section) owner() kube.Ref {
	if s.object == nil {
		return kube.Ref{}
	}
	return s.object.Ref()
}

// created returns when the asker was created, or 0 if unknown.
func (s *section) created() int64 {
	if o := s.asker(); o != nil {
		return o.meta().Created
	}
	return 0
}
