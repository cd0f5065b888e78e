package compile

import (
	"cmp"
	"math"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// order is the place of a run of routes in the order of the reference. It decides who keeps an id that several routes want if creation
// times do not.
type order struct {
	rank rank
	host string // for fromHost
	at   int    // of the object; the catch-all of a host is behind all
}

type rank uint8

const (
	fromIngress    rank = iota // routes outside of host groups, ordered by object
	fromHost                   // ordered by host, where the reference's order of hosts is random
	fromCompanions             // ordered by object
	fromRouteGroup             // ordered by object
	fromOptions
)

// behindAll is the position of a catch-all among the objects of its host.
const behindAll = math.MaxInt

func (o order) compare(p order) int {
	return cmp.Or(cmp.Compare(o.rank, p.rank), strings.Compare(o.host, p.host), cmp.Compare(o.at, p.at))
}

// section is a run of routes that are adjacent in that order.
type section struct {
	order
	unit   *rules.Unit
	routes []rules.Route // some or all of the unit
	// object is the one that problems name: for the catch-all of a host the first object with the host, nil for the routes of the options.
	object *object
}

// sections appends the sections of an object at a place.
func (o *object) sections(all []section, at int) []section {
	u := o.unit
	add := func(r rank, host string, routes []rules.Route) {
		if len(routes) > 0 {
			all = append(all, section{order{r, host, at}, u, routes, o})
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
	if s.at == behindAll {
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
