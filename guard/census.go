package guard

import (
	"hash/maphash"
	"strings"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// aspect is a property of a table whose members the guard counts.
type aspect int

const (
	requests    aspect = iota // pairs of host and path that some route answers
	backends                  // requests that reach an address
	others                    // requests that reach <loopback>, <dynamic> or <forward>
	hosts                     // by name
	rests                     // hosts with a route or catch-all for all other paths
	catchAlls                 // of hosts: one member
	ingresses                 // as far as the ids of their routes distinguish them
	routeGroups               // likewise
	aspects
)

// String returns what the members are, for details.
func (k aspect) String() string {
	return map[aspect]string{
		requests: "pairs of host and path", backends: "pairs of host and path with endpoints", hosts: "hosts", rests: "catch-alls of hosts",
		ingresses: "Ingresses", routeGroups: "RouteGroups",
	}[k]
}

type member uint64

// census counts the routes of each member, or by how much the counts change: counting 124,000 routes takes 80 ms.
type census [aspects]map[member]int32

// add adds n to every count that a route contributes to. Generated routes contribute to none.
func (c *census) add(d reader, r *table.Route, n int32) {
	if routeid.IsCatchAll(r.ID) {
		c.count(catchAlls, 0, n)
		for host := range r.HostsOf() {
			c.count(rests, d.hash(host), n)
		}
	}
	if !answers(r) {
		return
	}
	owner, backend := routeid.ObjectOf(r.ID), backendOf(r)
	d.requests(r, func(q member) {
		c.count(requests, q, n)
		switch backend {
		case endpointsBackend:
			c.count(backends, q, n)
		case otherBackend:
			c.count(others, q, n)
		}
	})
	for host := range r.HostsOf() {
		m := d.hash(host)
		if c.count(hosts, m, n); takesRest(r) {
			c.count(rests, m, n)
		}
	}
	if k, known := objectKinds[owner.Kind]; known {
		_, key := routeid.ObjectKey(r.ID, r.HostsOf())
		c.count(k, d.hash(string(owner.Kind), key), n)
	}
}

func (c *census) count(k aspect, m member, n int32) {
	if c[k] == nil {
		c[k] = make(map[member]int32)
	}
	c[k][m] += n
}

func (c *census) apply(change *census) {
	for k, counts := range change {
		for m, n := range counts {
			if c.count(aspect(k), m, n); c[k][m] == 0 {
				delete(c[k], m)
			}
		}
	}
}

type reader struct{ seed maphash.Seed }

func (d reader) census(t *table.Table) *census {
	c := &census{requests: make(map[member]int32, t.Len())}
	for r := range t.Routes().All() {
		c.add(d, r, 1)
	}
	return c
}

// counted returns the census of the base, which must not be nil.
func (g *Guard) counted() *census {
	if g.census == nil {
		g.census = g.reader.census(g.base)
	}
	return g.census
}

// answers reports whether a route belongs to an object: generated routes and catch-alls do not.
func answers(r *table.Route) bool { return routeid.ObjectOf(r.ID).Kind != routeid.KindGenerated }

// takesRest reports whether the hosts of a route need no catch-all: unless its path is an expression other than ^/.
func takesRest(r *table.Route) bool {
	path, expr := r.Path()
	return !expr || path == "^/" || path == `^\/`
}

// requests yields each pair of host and path, whatever the kind of the path. A route without both is known by its id.
func (d reader) requests(r *table.Route, yield func(member)) {
	path, expr := r.Path()
	if path == "" && r.Hosts == "" {
		yield(d.hash(r.ID, ""))
		return
	}
	path = strings.TrimRight(path, "/")
	if expr {
		path = strings.Map(func(c rune) rune {
			if strings.ContainsRune(`^$()\`, c) {
				return -1
			}
			return c
		}, path)
	}
	if r.Hosts == "" {
		yield(d.hash("", path))
	}
	for host := range r.HostsOf() {
		yield(d.hash(host, path))
	}
}

func (d reader) hash(parts ...string) member {
	var h maphash.Hash
	h.SetSeed(d.seed)
	for _, part := range parts {
		h.WriteString(part)
		h.WriteByte(0)
	}
	return member(h.Sum64())
}

var objectKinds = map[routeid.Kind]aspect{routeid.KindIngress: ingresses, routeid.KindRouteGroup: routeGroups}

// owner returns the object of a route, and whether left has it. The object of a custom route has several possible names.
func (d reader) owner(r *table.Route, left func(aspect, member) bool) (o member, exists bool) {
	kind, key := routeid.ObjectKey(r.ID, r.HostsOf())
	k, known := objectKinds[kind]
	if !known {
		return 0, false
	}
	o = d.hash(string(kind), key)
	if left(k, o) {
		return o, true
	}
	for _, name := range routeid.CustomNames(r.ID) {
		if other := d.hash(string(kind), routeid.NamespaceOf(r.ID)+"__"+name); left(k, other) {
			return other, true
		}
	}
	return o, false
}
