package guard

import (
	"hash/maphash"
	"strings"

	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/table"
)

// kind is a kind of what a table has, and the guard counts.
type kind int

const (
	requests    kind = iota // pairs of host and path that some route answers
	backends                // requests of which a route has an address
	others                  // requests of which a route goes to <loopback>, <dynamic> or <forward>
	hosts                   // by name
	rests                   // hosts of which a route, or the catch-all, takes the requests for all other paths
	catchAlls               // of hosts: one member
	ingresses               // as far as the ids of their routes distinguish them
	routeGroups             // likewise
	namespaces              // which have routes
	kinds
	// namespaceRoutes are the routes of one namespace, by id. They are compared, but not counted one by one.
	namespaceRoutes
)

// String returns what the members are, for details.
func (k kind) String() string {
	return map[kind]string{
		requests: "pairs of host and path", backends: "pairs of host and path with endpoints", hosts: "hosts", rests: "catch-alls of hosts",
		ingresses: "Ingresses", routeGroups: "RouteGroups",
	}[k]
}

// member is the hash of one item of a kind.
type member uint64

// set is a set of members whose losses are counted: all of a kind, or the routes of one namespace.
type set struct {
	kind      kind
	namespace string // only for namespaceRoutes
}

// census counts the routes of a table by what they belong to, or by how much these counts change. Counting 124,000 routes takes about
// 80 ms, so that it is updated from changes.
type census [kinds]map[member]int32

// add adds n to the counts of everything that a route is counted for: of nothing if it answers for nobody.
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
	if owner.Namespace != "" {
		c.count(namespaces, d.hash(owner.Namespace), n)
	}
}

// count adds n to one count.
func (c *census) count(k kind, m member, n int32) {
	if c[k] == nil {
		c[k] = make(map[member]int32)
	}
	c[k][m] += n
}

// apply updates the census for a change of its table.
func (c *census) apply(change *census) {
	for k, counts := range change {
		for m, n := range counts {
			if c.count(kind(k), m, n); c[k][m] == 0 {
				delete(c[k], m)
			}
		}
	}
}

// reader reads what a guard must know of a route. Its hashes are the same for the life of a guard.
type reader struct{ seed maphash.Seed }

// census counts a table.
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

// answers reports whether a route answers requests for somebody: generated routes and catch-alls do not.
func answers(r *table.Route) bool { return routeid.ObjectOf(r.ID).Kind != routeid.KindGenerated }

// takesRest reports whether the compiler gives the hosts of a route no catch-all because of it: unless its path is an expression other than ^/.
func takesRest(r *table.Route) bool {
	path, expr := r.Path()
	return !expr || path == "^/" || path == `^\/`
}

// requests calls yield for each pair of host and path. Path, PathSubtree and PathRegexp of one text are the same path, so that
// another path mode loses nothing. A route with neither host nor path answers whatever nobody else does: it is known by its id.
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

// hash returns the member with a name of several parts.
func (d reader) hash(parts ...string) member {
	var h maphash.Hash
	h.SetSeed(d.seed)
	for _, part := range parts {
		h.WriteString(part)
		h.WriteByte(0)
	}
	return member(h.Sum64())
}

// objectKinds are the kinds of objects of the cluster.
var objectKinds = map[routeid.Kind]kind{routeid.KindIngress: ingresses, routeid.KindRouteGroup: routeGroups}

// owner returns the object that a route belongs to, as far as its id shows, and whether it is one of those that left knows. That of a
// custom route may have several names.
func (d reader) owner(r *table.Route, left func(kind, member) bool) (o member, exists bool) {
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
