package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Builder compiles snapshots in which some objects are kept. It is used only during an offer or a command. Package poller
// implements it.
type Builder interface {
	// CompileBeside returns the routes of a snapshot other than the newest one; see [compile.Compiler.CompileBeside].
	CompileBeside(s *kube.Snapshot) table.List
	// RoutesOf returns the routes of an object of one of the last snapshots, and ServicesOf the services that it referenced.
	RoutesOf(o kube.Object) []*table.Route
	ServicesOf(o kube.Object) []kube.ServiceKey
	// OwnersOf returns the objects that own routes of the last snapshot, except routes that belong only to the server.
	OwnersOf(ids []string) map[string]kube.Ref
	// LostServices returns the services that had endpoints and have lost them.
	LostServices(before, now *kube.Backends) []kube.ServiceKey
	// Signature tells versions of an object apart, as far as they can have different routes.
	Signature(o kube.Object) string
	// Forget frees what CompileBeside keeps for its next call.
	Forget()
}

// situation is everything that a decision depends on.
type situation struct {
	newest Candidate
	// served is what the newest table is compared with; Table is nil if there is none, and Snapshot is nil if unknown.
	served Candidate
	canary *table.Table // served to the canary
	first  bool         // nothing is served yet: served is the table of another replica
	aged   bool         // served comes from a file, and was read last more than a hold ago
	list   keptList
	lost   losses
	peers  keptList             // what other replicas keep
	theirs map[kube.Ref][]*Kept // what soaks on other replicas
	// recalled means that an earlier process served the table: only the list and the history describe it.
	recalled bool
	verdict  Verdict
	// released are the objects that an operator has accepted; nil for none.
	released func(kube.Ref) bool
	now      time.Time
}

func (s *situation) accepts(r kube.Ref) bool { return s.released != nil && s.released(r) }

// decision is what of a read is served, and why.
type decision struct {
	newest Candidate // as it was read
	wanted Candidate // the same with freezes and pins
	// list has the entries from now on. If it has any for the whole table, the served table stays.
	list     keptList
	snapshot *kube.Snapshot
	table    *table.Table
	canary   *table.Table // as table, with the newest versions of what soaks

	promoted keptList // entries of the canary that have ended, because of the soak time or an acceptance

	fresh keptList // new entries for the whole table
	due   keptList // entries that time or an acceptance has ended
	over  keptList // freezes and pins that have ended
	lost  losses
}

// candidate returns the part of the read that can be served.
func (d *decision) candidate() Candidate {
	c := d.newest
	c.Table, c.Snapshot = d.table, d.snapshot
	if d.canary != d.table { // another replica may have promoted it a moment ago
		c.Read.Candidate = d.canary
	}
	if kept := d.list.others(); len(kept.objects()) > 0 { // also if all of them only wait for their review: the newest table is another one
		// Another replica may serve what operators want, once it is accepted there. A frozen or pinned version must be withdrawn from
		// clients that still have it.
		c.Read.Held, c.Read.Live, c.Read.Candidate = true, true, d.wanted.Table
		c.Read.Backends = !slices.ContainsFunc(kept, func(k *Kept) bool { return k.Service == nil })
	}
	return c
}

// ofCanary returns the part of the read that the canary is served: nothing soaks there.
func (d *decision) ofCanary() Candidate {
	c := *d
	c.table, c.list = d.canary, d.list.others()
	return c.candidate()
}

// policy decides what is served. Its guard remembers what was lost within the window; otherwise a decision depends on the situation alone.
type policy struct {
	holder
	builder Builder // nil where only tables are known
	review  Review  // nil for none
	canary  CanaryConfig
}

// build compiles a snapshot with kept objects. The table is the served one if it is equal.
func (p *policy) build(s *situation, c Candidate, list keptList) decision {
	if len(list.objects()) == 0 {
		return decision{newest: c, wanted: c, list: list, snapshot: c.Snapshot, table: c.Table, canary: c.Table}
	}
	snapshot, list := list.apply(c.Snapshot)
	t := s.tableOf(c, s.withRoutes(p.builder.CompileBeside(snapshot), list))
	return decision{newest: c, wanted: c, list: list, snapshot: snapshot, table: t, canary: t}
}

// tableOf returns a table of a read, which is the served one if they are equal.
func (s *situation) tableOf(c Candidate, routes table.List) *table.Table {
	served := s.served.Table
	if served == nil || s.first {
		return c.Table.Next(routes, c.Table.Revision(), c.Read.At)
	}
	if next := served.NextBeside(routes, c.Read.Newest, c.Read.At, c.Table); !next.Equal(served) {
		return next
	}
	return served
}

// withRoutes returns the routes of a build, with kept routes as they are served, or removed. A route that the build lacks has
// lost its service.
func (s *situation) withRoutes(routes table.List, list keptList) table.List {
	list = list.where(func(k *Kept) bool { return len(k.Routes) > 0 })
	if len(list) == 0 {
		return routes
	}
	var served table.List
	if s.served.Table != nil {
		served = s.served.Table.Routes()
	}
	was, is := served.Lookup(), routes.Lookup()
	var upserts []*table.Route
	var deletes []string
	for _, k := range list {
		for _, id := range k.Routes {
			switch old, now := was.Get(id), is.Get(id); {
			case now == nil:
			case old == nil:
				deletes = append(deletes, id)
			default:
				upserts = append(upserts, asServed(old, now))
			}
		}
	}
	routes, err := routes.With(upserts, deletes)
	if err != nil {
		panic(fmt.Sprintf("publish: a served route is refused: %v", err))
	}
	return routes
}

// asServed returns a route with its served predicates and filters and its current backend. Without endpoints, the filters
// produce the response and stay with the backend.
func asServed(was, is *table.Route) *table.Route {
	old, oldErr := was.Parse()
	now, nowErr := is.Parse()
	if oldErr != nil || nowErr != nil || old.BackendType == eskip.ShuntBackend {
		return was
	}
	next := *old
	next.BackendType, next.Shunt, next.Backend, next.LBAlgorithm, next.LBEndpoints = now.BackendType, now.Shunt, now.Backend, now.LBAlgorithm, now.LBEndpoints
	if now.BackendType == eskip.ShuntBackend {
		next.Filters = now.Filters
	}
	route := table.NewRoute(&next)
	return &route
}

// ownersOf returns the owners of routes of a snapshot that was compiled.
func (p *policy) ownersOf(s *kube.Snapshot, ids []string) map[string]kube.Ref {
	p.builder.CompileBeside(s) // so that it is the last one
	return p.builder.OwnersOf(ids)
}

// otherFilters returns an entry with the fleet's default filters if the next ones differ; otherwise, or if they are unknown,
// nil.
func (s *situation) otherFilters(next *kube.DefaultFilters) *Kept {
	k := &Kept{Ref: filtersRef}
	if served := s.served.Snapshot; served != nil {
		k.DefaultFilters = served.DefaultFilters
	} else if was := s.list.find(filtersRef); was != nil {
		k.DefaultFilters = was.DefaultFilters
	} else {
		return nil
	}
	if k.DefaultFilters == next || SignatureOf(k.DefaultFilters) == SignatureOf(next) {
		return nil
	}
	return k
}

// SignatureOf tells values apart by their JSON form.
func SignatureOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("publish: %v", err)) // objects have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// objectsOf returns the Ingresses and RouteGroups of a snapshot; none if it is nil.
func objectsOf(s *kube.Snapshot) map[kube.Ref]kube.Object {
	all := make(map[kube.Ref]kube.Object)
	if s != nil {
		for o := range s.Objects() {
			all[o.Ref()] = o
		}
	}
	return all
}

// found returns the objects of a list that a snapshot has.
func found(list keptList, s *kube.Snapshot) map[kube.Ref]kube.Object {
	all := make(map[kube.Ref]kube.Object)
	for o := range s.Objects() {
		if ref := o.Ref(); list.has(ref) {
			all[ref] = o
		}
	}
	for _, o := range s.Services {
		if ref := serviceRef(kube.ServiceKeyOf(o.Namespace, o.Name)); list.has(ref) {
			all[ref] = o
		}
	}
	return all
}

func serviceRef(key kube.ServiceKey) kube.Ref {
	return kube.Ref{Kind: kube.KindService, Namespace: key.Namespace, Name: key.Name}
}

// sameVersion reports whether two versions of an object, which may be nil, are the same.
func sameVersion(a, b kube.Object) bool {
	return a == b || a != nil && b != nil && reflect.DeepEqual(a, b)
}
