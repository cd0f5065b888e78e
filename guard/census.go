package guard

import (
	"hash/maphash"
	"strings"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// request is what clients notice of a route: the hash of a host and a path, however the route is called and whichever object it
// belongs to.
type request uint64

// object is the hash of the kind, the namespace and the name of an object.
type object uint64

// kind is an index of the kinds of objects that are counted.
type kind int

const (
	ingresses kind = iota
	routeGroups
	kinds
)

// String returns the plural, for details.
func (k kind) String() string { return [...]string{"Ingresses", "RouteGroups"}[k] }

// answers counts the routes that answer a request, or their change.
type answers struct {
	routes    int32
	endpoints int32 // routes with addresses
	others    int32 // routes to <loopback>, <dynamic> and <forward>
}

func (a answers) plus(b answers) answers {
	return answers{a.routes + b.routes, a.endpoints + b.endpoints, a.others + b.others}
}

// census counts what a table answers. It takes about 40 bytes for a pair of host and path and is updated from changes, because
// counting 124,000 routes takes about 60 ms.
type census struct {
	requests map[request]answers
	backends int // requests with endpoints
	objects  [kinds]map[object]int32
}

// reader reads what a guard must know of a route. Its hashes are the same for the life of a guard.
type reader struct{ seed maphash.Seed }

// counts reports whether a route answers requests for somebody: generated routes and catch-alls do not.
func counts(r *table.Route) bool { return routeid.ObjectOf(r.ID).Kind != routeid.KindGenerated }

// requests calls yield for each pair of host and path. Path, PathSubtree and PathRegexp of one text are the same path, so that
// another path mode loses nothing. A route with neither host nor path answers whatever nobody else does: it is known by its id.
func (d reader) requests(r *table.Route, yield func(request)) {
	path, expr := r.Path()
	some := false
	for host := range r.HostsOf() {
		some = true
		yield(d.request(host, path, expr))
	}
	switch {
	case some:
	case path == "":
		yield(d.request(r.ID, "", false))
	default:
		yield(d.request("", path, expr))
	}
}

func (d reader) request(host, path string, expr bool) request {
	var h maphash.Hash
	h.SetSeed(d.seed)
	h.WriteString(host)
	h.WriteByte(0)
	path = strings.TrimRight(path, "/")
	if !expr {
		h.WriteString(path)
		return request(h.Sum64())
	}
	for i := range len(path) {
		if c := path[i]; strings.IndexByte(`^$()\`, c) < 0 {
			h.WriteByte(c)
		}
	}
	return request(h.Sum64())
}

// object returns the object that a route belongs to, as far as its id shows. known is false for a route of no object of the
// cluster.
func (d reader) object(r *table.Route) (k kind, o object, known bool) {
	owner := routeid.ObjectOf(r.ID)
	switch owner.Kind {
	case routeid.KindIngress:
		k = ingresses
	case routeid.KindRouteGroup:
		k = routeGroups
	default:
		return 0, 0, false
	}
	return k, d.named(k, owner.Namespace, owner.Name), true
}

func (d reader) named(k kind, namespace, name string) object {
	var h maphash.Hash
	h.SetSeed(d.seed)
	h.WriteByte(byte(k))
	h.WriteString(namespace)
	h.WriteByte(0)
	h.WriteString(name)
	return object(h.Sum64())
}

// owner returns the object of a route if it is one of those of which left is true. That of a custom route may have several names.
func (d reader) owner(r *table.Route, left func(kind, object) bool) (o object, exists bool) {
	k, o, known := d.object(r)
	if !known || left(k, o) {
		return o, known
	}
	for _, name := range routeid.CustomNames(r.ID) {
		if o := d.named(k, routeid.NamespaceOf(r.ID), name); left(k, o) {
			return o, true
		}
	}
	return o, false
}

// answersOf returns what one route adds to a census, n times.
func answersOf(r *table.Route, n int32) answers {
	a := answers{routes: n}
	switch backendOf(r) {
	case endpointsBackend:
		a.endpoints = n
	case otherBackend:
		a.others = n
	}
	return a
}

// census counts a table.
func (d reader) census(t *table.Table) *census {
	c := &census{requests: make(map[request]answers, t.Len())}
	for k := range c.objects {
		c.objects[k] = make(map[object]int32)
	}
	for r := range t.Routes().All() {
		if !counts(r) {
			continue
		}
		adds := answersOf(r, 1)
		d.requests(r, func(q request) { c.requests[q] = c.requests[q].plus(adds) })
		if k, o, known := d.object(r); known {
			c.objects[k][o]++
		}
	}
	for _, a := range c.requests {
		if a.endpoints > 0 {
			c.backends++
		}
	}
	return c
}

// apply updates the census for a change of its table.
func (c *census) apply(n *deltas) {
	for q, delta := range n.requests {
		was := c.requests[q]
		is := was.plus(delta)
		if was.endpoints > 0 {
			c.backends--
		}
		if is.endpoints > 0 {
			c.backends++
		}
		if is == (answers{}) {
			delete(c.requests, q)
		} else {
			c.requests[q] = is
		}
	}
	for k, objects := range n.objects {
		for o, delta := range objects {
			if c.objects[k][o] += delta; c.objects[k][o] == 0 {
				delete(c.objects[k], o)
			}
		}
	}
}
