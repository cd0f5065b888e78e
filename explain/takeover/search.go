package takeover

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Limits of a report.
const (
	maxChanged   = 2000 // changed routes that are looked at
	maxTakeovers = 500  // a change that takes from more is known well enough
	maxTaken     = 20   // of one takeover
	maxUnknown   = 100
	hostsAtOnce  = 200 // whose routes are in memory
)

// search is one comparison of two tables.
type search struct {
	report        *Report
	before, after Side
	options       Options

	diff    map[string]*eskip.Route // changed routes as they are afterwards; nil if they are gone
	changed []*eskip.Route          // those that may get requests they did not get before
	gone    []*eskip.Route          // catch-alls of hosts, which nobody gave up
	pairs   map[[2]shadowdiff.Owner]*Takeover
	unknown map[[2]string]bool   // pairs of routes in report.Unknown
	lost    map[[2]string]bool   // routes and who takes their requests
	brought map[string]broughtBy // by host; nil until a catch-all asks
	atOnce  int                  // hosts
	looked  int                  // other routes so far
	lookups int

	// of the chunk that is being compared
	old, new *match.Table
	had, has map[string][]shadowdiff.Owner // who has routes of a host
}

func newSearch(before, after Side, o Options) *search {
	o.Proxy.Candidates = -1
	o.MaxRoutes, o.MaxRequests = cmp.Or(o.MaxRoutes, DefaultMaxRoutes), cmp.Or(o.MaxRequests, DefaultMaxRequests)
	before.Owner, after.Owner = remembered(before.Owner), remembered(after.Owner)
	return &search{
		report: &Report{Schema: Schema, Takeovers: []Takeover{}, Unknown: []Unknown{}}, before: before, after: after, options: o,
		diff: map[string]*eskip.Route{}, pairs: map[[2]shadowdiff.Owner]*Takeover{}, unknown: map[[2]string]bool{},
		lost: map[[2]string]bool{}, atOnce: hostsAtOnce,
	}
}

// remembered asks for the owner of each route once.
func remembered(owner shadowdiff.OwnerFunc) shadowdiff.OwnerFunc {
	known := map[string]shadowdiff.Owner{}
	return func(id string) shadowdiff.Owner {
		of, ok := known[id]
		if !ok {
			of = owner.Of(id)
			known[id] = of
		}
		return of
	}
}

// changes finds the routes that are new or match other requests than before.
func (s *search) changes() {
	for was, is := range table.Changes(s.before.Routes, s.after.Routes) {
		var before, now *eskip.Route
		if was != nil {
			before, _ = was.Parse()
			s.diff[was.ID] = nil
		}
		if is != nil {
			now, _ = is.Parse()
			s.diff[is.ID] = now
		}
		if before != nil && routeid.IsCatchAll(before.Id) && (now == nil || !samePredicates(before, now)) && len(s.gone) < maxChanged {
			s.gone = append(s.gone, before)
		}
		if now == nil || before != nil && sameMatch(before, now) {
			continue
		}
		if len(s.changed) == maxChanged {
			s.report.Skipped++
			continue
		}
		s.changed = append(s.changed, now)
	}
}

// sameMatch reports whether two versions of a route differ at most in the endpoints of their backend. Filters count, because a proxy
// refuses a route for them.
func sameMatch(a, b *eskip.Route) bool { return withoutEndpoints(a) == withoutEndpoints(b) }

// samePredicates reports whether two versions of a route want the same requests.
func samePredicates(a, b *eskip.Route) bool {
	bare := func(r *eskip.Route) *eskip.Route {
		c := *r
		c.Filters, c.BackendType = nil, eskip.ShuntBackend
		return &c
	}
	return sameMatch(bare(a), bare(b))
}

func withoutEndpoints(r *eskip.Route) string {
	c := *r
	if len(c.LBEndpoints) > 0 {
		c.LBEndpoints = []*eskip.LBEndpoint{{Address: "http://192.0.2.1"}}
	}
	if strings.HasPrefix(c.Backend, "http://") {
		c.Backend = "http://192.0.2.1"
	}
	text, _ := eskip.AppendExpr(nil, &c)
	return string(text)
}

// compare looks at all pairs of a changed route and a route of another owner: by hosts, and those that accept hosts that no list names with each
// of these.
func (s *search) compare() {
	byHost, anyHost := groupByHost(s.changed)
	gone, _ := groupByHost(s.gone)
	all := maps.Clone(byHost)
	maps.Copy(all, gone)
	hosts := slices.Sorted(maps.Keys(all))
	if len(anyHost) > 0 {
		hosts = s.allHosts()
	}
	for chunk := range slices.Chunk(hosts, s.atOnce) {
		by := slices.Clone(anyHost)
		for _, h := range chunk {
			by = append(by, byHost[h]...)
		}
		if s.looked >= s.options.MaxRoutes || len(s.pairs) >= maxTakeovers {
			s.report.Skipped += len(distinct(by))
			if len(anyHost) > 0 {
				return
			}
			continue
		}
		s.chunk(chunk, distinct(by))
		for _, h := range chunk {
			for _, catchAll := range gone[h] {
				s.lostCatchAll(h, catchAll)
			}
		}
	}
}

// groupByHost returns routes by their hosts, and those that may match any.
func groupByHost(routes []*eskip.Route) (byHost map[string][]*eskip.Route, anyHost []*eskip.Route) {
	byHost = map[string][]*eskip.Route{}
	for _, r := range routes {
		hosts := match.Hosts(r)
		if hosts == nil {
			anyHost = append(anyHost, r)
		}
		for _, h := range hosts {
			byHost[h] = append(byHost[h], r)
		}
	}
	return byHost, anyHost
}

// distinct returns the routes without repetition, by id.
func distinct(routes []*eskip.Route) []*eskip.Route {
	slices.SortFunc(routes, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	return slices.Compact(routes)
}

// allHosts returns the hosts of all routes, and one that none has.
func (s *search) allHosts() []string {
	hosts := map[string]bool{"any-host.invalid": true}
	for range s.before.Routes.OfHosts(func(exprs string) bool {
		for expr := range strings.SplitSeq(exprs, "\n") {
			for _, h := range match.Hosts(&eskip.Route{HostRegexps: []string{expr}}) {
				hosts[h] = true
			}
		}
		return false // no route is needed
	}) {
	}
	return slices.Sorted(maps.Keys(hosts))
}

// chunk compares changed routes with all others that share some hosts.
func (s *search) chunk(hosts []string, changed []*eskip.Route) {
	var old, now, others []*eskip.Route
	seen := map[string]bool{}
	for r := range s.before.Routes.OfHosts(match.ForHosts(hosts...)) {
		route, err := r.Parse()
		if err != nil {
			continue
		}
		old = append(old, route)
		next, differs := s.diff[r.ID]
		if !differs {
			next = route
		}
		if next != nil {
			now, seen[r.ID] = append(now, next), true
		}
		if next != nil && (next == route || samePredicates(route, next)) {
			others = append(others, next) // with new filters, it loses requests only if the proxy still accepts it
		}
	}
	for id, r := range s.diff {
		if r != nil && !seen[id] {
			now = append(now, r)
		}
	}
	s.looked += len(old)
	s.had, s.has = ownersByHost(old, s.before.Owner), ownersByHost(now, s.after.Owner)
	s.old, _ = match.New(old, s.options.Proxy)
	s.new, _ = match.New(distinct(now), s.options.Proxy)
	byHost, anyHost := groupByHost(others)
	for _, by := range changed {
		rivals := slices.Clone(others)
		if names := match.Hosts(by); names != nil {
			rivals = slices.Clone(anyHost)
			for _, h := range names {
				rivals = append(rivals, byHost[h]...)
			}
		}
		to, brought := s.taker(by)
		for _, of := range distinct(rivals) {
			from := s.before.Owner.Of(of.Id)
			if from != to && from.Kind != string(routeid.KindGenerated) && from.Kind != string(routeid.KindOther) {
				s.pair(from, to, of, by, brought)
			}
		}
	}
}

// ownersByHost returns the objects with routes of each host.
func ownersByHost(routes []*eskip.Route, owner shadowdiff.OwnerFunc) map[string][]shadowdiff.Owner {
	of := map[string][]shadowdiff.Owner{}
	for _, r := range routes {
		if o := owner.Of(r.Id); o.Name != "" {
			for _, h := range match.Hosts(r) {
				of[h] = append(of[h], o)
			}
		}
	}
	return of
}

// broughtBy is who brought a host, with the id of one of its routes.
type broughtBy struct {
	owner shadowdiff.Owner
	id    string
}

// taker returns the owner of a changed route. A route of no object, such as the catch-all of a host, is the doing of the first object with a changed
// route of that host, whose id is then the second result.
func (s *search) taker(by *eskip.Route) (to shadowdiff.Owner, brought string) {
	if to = s.after.Owner.Of(by.Id); to.Name != "" {
		return to, ""
	}
	if s.brought == nil {
		s.brought = map[string]broughtBy{}
		for _, r := range s.changed {
			owner := s.after.Owner.Of(r.Id)
			for _, h := range match.Hosts(r) {
				if _, known := s.brought[h]; !known && owner.Name != "" {
					s.brought[h] = broughtBy{owner, r.Id}
				}
			}
		}
	}
	for _, h := range match.Hosts(by) {
		if found, ok := s.brought[h]; ok {
			return found.owner, found.id
		}
	}
	return to, ""
}

// lostCatchAll looks for a request that a catch-all answered for the objects of its host, and that a route of another object gets now. The first object
// with a changed route of the host caused that, or else the one that gets the request. An object that no longer has the host loses nothing.
func (s *search) lostCatchAll(host string, catchAll *eskip.Route) {
	owners := s.had[host]
	at := slices.IndexFunc(owners, func(o shadowdiff.Owner) bool { return slices.Contains(s.has[host], o) })
	if at < 0 || s.lookups > s.options.MaxRequests {
		return
	}
	requests, _ := s.old.Contest(catchAll, catchAll)
	for _, r := range requests {
		s.lookups++
		if before, _ := outcome(s.old.Find(r), catchAll.Id); before == nil {
			continue
		}
		for _, o := range s.new.Find(r).Outcomes {
			if o.Route == nil {
				continue
			}
			to, taken := s.after.Owner.Of(o.Route.Id), Taken{Route: catchAll.Id, By: o.Route.Id, Request: requestOf(r)}
			if to.Name == "" {
				continue
			}
			if by, id := s.taker(catchAll); by.Name != "" && by != to {
				to, taken.Brought = by, id
			}
			if !slices.Contains(owners, to) {
				s.add(owners[at], to, taken)
				return
			}
		}
	}
}

// pair looks for a request that the changed route takes from the other one.
func (s *search) pair(from, to shadowdiff.Owner, of, by *eskip.Route, brought string) {
	var requests []match.Request
	complete := false
	if s.lookups++; s.lookups <= s.options.MaxRequests { // a pair costs as much as a request, also if there is none
		requests, complete = s.new.Contest(by, of)
	}
	for _, r := range requests {
		if s.lookups++; s.lookups > s.options.MaxRequests {
			complete = false
			break
		}
		was := s.old.Find(r)
		before, ok := outcome(was, of.Id)
		if !ok || before == nil {
			complete = complete && literal(was)
			continue
		}
		is := s.new.Find(r)
		got, _ := outcome(is, by.Id)
		if got == nil {
			complete = complete && literal(is)
			continue
		}
		still, _ := outcome(is, of.Id)
		if earlier, _ := outcome(was, by.Id); earlier != nil && still != nil {
			continue // both got it before, and both get it now
		}
		s.add(from, to, Taken{Route: of.Id, By: by.Id, Brought: brought, Shared: still != nil, Request: requestOf(r)})
		return
	}
	if key := [2]string{of.Id, by.Id}; !complete && !s.unknown[key] && len(s.report.Unknown) < maxUnknown {
		s.unknown[key] = true
		s.report.Unknown = append(s.report.Unknown, Unknown{From: from, To: to, Route: of.Id, By: by.Id})
	}
}

// outcome returns the outcome with a route. ok is false if the proxy answers itself.
func outcome(r match.Result, id string) (o *match.Outcome, ok bool) {
	for i := range r.Outcomes {
		if route := r.Outcomes[i].Route; route != nil && route.Id == id {
			return &r.Outcomes[i], true
		}
	}
	return nil, r.Answer == nil
}

// literal reports whether only routes without expressions get a request.
func literal(r match.Result) bool {
	return !slices.ContainsFunc(r.Outcomes, func(o match.Outcome) bool { return o.Route != nil && !match.Literal(o.Route) })
}

func requestOf(r match.Request) Request {
	scheme := "https"
	for name, lines := range r.Header {
		if strings.EqualFold(name, "X-Forwarded-Proto") && len(lines) == 1 {
			scheme = lines[0]
		}
	}
	return Request{Method: r.Method, URL: scheme + "://" + r.Host + r.Target, Header: r.Header, From: r.RemoteAddr}
}

func (s *search) add(from, to shadowdiff.Owner, t Taken) {
	key := [2]shadowdiff.Owner{from, to}
	known := s.pairs[key]
	if known == nil {
		known = &Takeover{From: from, To: to, Taken: []Taken{}}
		s.pairs[key] = known
	}
	route := [2]string{t.Route, to.String()}
	if s.lost[route] {
		return
	}
	s.lost[route] = true
	if known.Lost++; len(known.Taken) < maxTaken {
		known.Taken = append(known.Taken, t)
	}
}

// Tried is an object that was compiled on trial.
type Tried struct {
	kube.Ref
	compile.Trial
}

// Try returns what objects would take from others if they were in the snapshot of the result that they were tried with, in place of those with
// their names. owner returns the objects of the routes of the result, as in [Side]. It costs as much as the objects, and then as [Find].
func Try(result *compile.Result, objects []Tried, owner shadowdiff.OwnerFunc, options Options) (*Report, error) {
	owners := map[string]shadowdiff.Owner{}
	upserts := map[string]*table.Route{}
	deletes := map[string]bool{}
	for _, o := range objects {
		before, _ := result.Inspect(o.Ref)
		for _, r := range rows(before.Routes) {
			deletes[r.ID] = true
		}
		for _, r := range o.ReplacedCatchAlls {
			deletes[r.ID] = true
		}
		for _, r := range append(rows(o.Routes), o.CatchAlls...) {
			upserts[r.ID] = r
			if !deletes[r.ID] || !routeid.IsCatchAll(r.ID) { // the catch-all of a host that it brings is its doing
				owners[r.ID] = shadowdiff.Owner{Kind: string(o.Kind), Namespace: o.Namespace, Name: o.Name}
			}
		}
	}
	for id := range upserts {
		delete(deletes, id)
	}
	list, err := result.Routes.With(slices.Collect(maps.Values(upserts)), slices.Collect(maps.Keys(deletes)))
	if err != nil {
		return nil, err
	}
	after := func(id string) shadowdiff.Owner {
		if o, ok := owners[id]; ok {
			return o
		}
		return owner.Of(id)
	}
	return Find(Side{Routes: result.Routes, Owner: owner}, Side{Routes: list, Owner: after}, options), nil
}

// rows returns what the table has of the routes that an object requests.
func rows(routes []compile.InspectedRoute) (all []*table.Route) {
	for _, r := range routes {
		if r.Wins && r.Route != nil {
			all = append(all, r.Route)
		}
		if r.Wins {
			all = append(all, r.Clones...)
		}
	}
	return all
}
