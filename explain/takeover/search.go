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
	maxChanged  = 2000 // changed routes of one owner that are looked at
	maxTaken    = 20   // of one takeover
	maxUnknown  = 100  // pairs of routes that are listed
	hostsAtOnce = 200  // whose routes are in memory
)

// What is too expensive: a change with that is unknown.
const (
	maxSize     = 5000 // instructions of the expressions of a route
	maxContest  = 4096 // requests that are made up for a pair of routes
	allShares   = 25   // shares of namespaces that one search has
	stepOfRoute = 10   // to read a route
	stepOfHost  = 1    // and each of its hosts
	stepOfPair  = 50   // to compare two
	stepOfFind  = 5    // to find the route of a request
)

// search is one comparison of two tables.
type search struct {
	report        *Report
	before, after Side
	options       Options

	diff    map[string]*eskip.Route // changed routes as they are afterwards; nil if they are gone
	changes []*change
	gone    map[string][]*eskip.Route // catch-alls of hosts, which nobody gave up
	first   map[string]cause          // the first change of a host
	pairs   map[[2]shadowdiff.Owner]*Takeover
	unknown map[[2]string]bool // pairs of routes in report.Unknown
	lost    map[[2]string]bool // routes and who takes their requests
	sizes   map[*eskip.Route]int
	hosts   map[*eskip.Route][]string
	atOnce  int // hosts

	left   map[string]int // steps of each namespace that has taken any
	budget int            // of all

	// of the chunk that is being compared
	old, new *match.Table
	had, has map[string][]shadowdiff.Owner // who has routes of a host
}

// cause is a change of a host, and one of its routes for it.
type cause struct {
	to shadowdiff.Owner
	id string
}

// change is what one owner changes: the routes that may get requests they did not get before.
type change struct {
	to      shadowdiff.Owner
	routes  []*eskip.Route
	hosts   []string          // of all routes, sorted
	anyHost bool              // a route may match any host
	brought map[string]string // routes of no object, such as the catch-all of a host, with the route of the owner that brings them
}

func newSearch(before, after Side, o Options) *search {
	o.Proxy.Candidates = -1
	o.Steps = cmp.Or(o.Steps, DefaultSteps)
	if o.Stop == nil {
		o.Stop = func() bool { return false }
	}
	before.Owner, after.Owner = remembered(before.Owner), remembered(after.Owner)
	return &search{
		report: &Report{Schema: Schema, Takeovers: []Takeover{}, Unknown: []Unknown{}}, before: before, after: after, options: o,
		diff: map[string]*eskip.Route{}, gone: map[string][]*eskip.Route{}, first: map[string]cause{}, pairs: map[[2]shadowdiff.Owner]*Takeover{}, unknown: map[[2]string]bool{},
		lost: map[[2]string]bool{}, sizes: map[*eskip.Route]int{}, hosts: map[*eskip.Route][]string{}, atOnce: hostsAtOnce, left: map[string]int{}, budget: allShares * o.Steps,
	}
}

// spend takes steps from the share of a namespace, or only from what there is for all if that is empty. It returns false if nothing is left.
func (s *search) spend(namespace string, steps int) bool {
	left, known := s.left[namespace]
	if !known || namespace == "" {
		left = s.options.Steps
	}
	s.left[namespace] = left - steps
	s.budget -= steps
	return left > 0 && s.budget > 0 && !s.options.Stop()
}

// skip notes that nobody knows what some routes of a change take.
func (s *search) skip(c *change, routes []*eskip.Route) {
	for _, r := range routes {
		s.report.Skipped++
		if s.report.skipped == nil {
			s.report.skipped = map[shadowdiff.Owner]string{}
		}
		s.report.skipped[c.to] = cmp.Or(c.brought[r.Id], r.Id)
	}
}

// hostsOf returns the hosts that a route names; nil if it may match others.
func (s *search) hostsOf(r *eskip.Route) []string {
	hosts, known := s.hosts[r]
	if !known {
		hosts = match.Hosts(r)
		s.hosts[r] = hosts
	}
	return hosts
}

// size returns the size of the expressions of a route.
func (s *search) size(r *eskip.Route) int {
	n, known := s.sizes[r]
	if !known {
		n = match.Size(r)
		s.sizes[r] = n
	}
	return n
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

// find finds the routes that are new or match other requests than before, by owner.
func (s *search) find() {
	byOwner := map[shadowdiff.Owner]*change{}
	var nobodys []*eskip.Route
	add := func(to shadowdiff.Owner, r *eskip.Route, brought string) {
		c := byOwner[to]
		if c == nil {
			c = &change{to: to, brought: map[string]string{}}
			byOwner[to] = c
			s.changes = append(s.changes, c)
		}
		if brought != "" {
			c.brought[r.Id] = brought
		}
		hosts := s.hostsOf(r)
		if len(c.routes) == maxChanged || s.size(r) > maxSize || !s.spend(to.Namespace, stepOfRoute+stepOfHost*len(hosts)) {
			s.skip(c, []*eskip.Route{r})
			return
		}
		c.routes = append(c.routes, r)
		c.hosts, c.anyHost = append(c.hosts, hosts...), c.anyHost || hosts == nil
	}
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
		if before != nil && routeid.IsCatchAll(before.Id) && (now == nil || !samePredicates(before, now)) {
			for _, h := range match.Hosts(before) {
				s.gone[h] = append(s.gone[h], before)
			}
		}
		if now == nil || before != nil && sameMatch(before, now) {
			continue
		}
		if to := s.after.Owner.Of(now.Id); to.Name != "" {
			add(to, now, "")
		} else {
			nobodys = append(nobodys, now)
		}
	}
	// A route of no object, such as the catch-all of a host, is the doing of the first object with a changed route of that host.
	for _, c := range s.changes {
		for _, r := range c.routes {
			for _, h := range s.hostsOf(r) {
				if _, known := s.first[h]; !known {
					s.first[h] = cause{c.to, r.Id}
				}
			}
		}
	}
	for _, r := range nobodys {
		by := cause{to: s.after.Owner.Of(r.Id)}
		for _, h := range s.hostsOf(r) {
			if first, ok := s.first[h]; ok {
				by = first
				break
			}
		}
		add(by.to, r, by.id)
	}
	lost := &change{} // hosts that lose their catch-all because of changes elsewhere
	for h := range s.gone {
		if _, known := s.first[h]; !known {
			lost.hosts = append(lost.hosts, h)
		}
	}
	s.changes = append(s.changes, lost)
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
// of these. Small changes come first, so that a large one cannot use up what they need.
func (s *search) compare() {
	for _, c := range s.changes {
		if slices.Sort(c.hosts); c.anyHost {
			c.hosts = s.allHosts()
		}
		c.hosts = slices.Compact(c.hosts)
	}
	slices.SortStableFunc(s.changes, func(a, b *change) int {
		return cmp.Or(cmp.Compare(len(a.hosts)*len(a.routes), len(b.hosts)*len(b.routes)), strings.Compare(a.to.String(), b.to.String()))
	})
	var together []*change
	var hosts []string
	flush := func() {
		s.chunk(hosts, together)
		together, hosts = nil, nil
	}
	for _, c := range s.changes {
		if len(hosts)+len(c.hosts) > s.atOnce && len(together) > 0 {
			flush()
		}
		if len(c.hosts) <= s.atOnce {
			together, hosts = append(together, c), append(hosts, c.hosts...)
			continue
		}
		for part := range slices.Chunk(c.hosts, s.atOnce) {
			s.chunk(part, []*change{c})
		}
	}
	flush()
}

// groupByHost returns routes by the hosts that they name. An object owns these: a route for any host owns none, and loses nothing.
func (s *search) groupByHost(routes []*eskip.Route) map[string][]*eskip.Route {
	byHost := map[string][]*eskip.Route{}
	for _, r := range routes {
		for _, h := range s.hostsOf(r) {
			byHost[h] = append(byHost[h], r)
		}
	}
	return byHost
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

// chunk compares changes with all other routes that share some hosts.
func (s *search) chunk(hosts []string, changes []*change) {
	payer := ""
	if len(changes) == 1 {
		payer = changes[0].to.Namespace
	}
	in := map[string]bool{}
	for _, h := range hosts {
		in[h] = true
	}
	has := func(r *eskip.Route) bool { // whether a changed route is to be compared
		names := s.hostsOf(r)
		return names == nil || slices.ContainsFunc(names, func(h string) bool { return in[h] })
	}
	var old, now, others []*eskip.Route
	seen := map[string]bool{}
	for r := range s.before.Routes.OfHosts(match.ForHosts(hosts...)) {
		if !s.spend(payer, stepOfRoute+len(r.Text)/100) {
			break
		}
		route, err := r.Parse()
		if err != nil {
			continue
		}
		if s.size(route) <= maxSize {
			old = append(old, route)
		}
		next, differs := s.diff[r.ID]
		if !differs {
			next = route
		}
		if seen[r.ID] = true; next != nil && s.size(next) <= maxSize {
			now = append(now, next)
		}
		if next != nil && (next == route || samePredicates(route, next)) {
			others = append(others, next) // with new filters, it loses requests only if the proxy still accepts it
		}
	}
	for id, r := range s.diff {
		if r != nil && !seen[id] && has(r) && s.size(r) <= maxSize {
			now = append(now, r)
		}
	}
	s.had, s.has = s.ownersByHost(old, s.before.Owner), s.ownersByHost(now, s.after.Owner)
	s.old, _ = match.New(old, s.options.Proxy)
	s.new, _ = match.New(distinct(now), s.options.Proxy)
	for _, h := range hosts {
		for _, catchAll := range s.gone[h] {
			s.lostCatchAll(h, catchAll)
		}
		delete(s.gone, h)
	}
	byHost := s.groupByHost(others)
	for _, c := range changes {
		for n, by := range c.routes {
			if !has(by) {
				continue
			}
			if !s.spend(c.to.Namespace, stepOfRoute) {
				s.skip(c, c.routes[n:])
				break
			}
			names := s.hostsOf(by)
			if names == nil {
				names = hosts
			}
			var rivals []*eskip.Route
			for _, h := range names {
				rivals = append(rivals, byHost[h]...)
			}
			for _, of := range distinct(rivals) {
				from := s.before.Owner.Of(of.Id)
				if from != c.to && from.Kind != string(routeid.KindGenerated) && from.Kind != string(routeid.KindOther) {
					s.pair(from, c.to, of, by, c.brought[by.Id])
				}
			}
		}
	}
}

// ownersByHost returns the objects with routes of each host.
func (s *search) ownersByHost(routes []*eskip.Route, owner shadowdiff.OwnerFunc) map[string][]shadowdiff.Owner {
	of := map[string][]shadowdiff.Owner{}
	for _, r := range routes {
		if o := owner.Of(r.Id); o.Name != "" {
			for _, h := range s.hostsOf(r) {
				of[h] = append(of[h], o)
			}
		}
	}
	return of
}

// lostCatchAll looks for a request that a catch-all answered for the objects of its host, and that a route of another object gets now. The first object
// with a changed route of the host caused that, or else the one that gets the request. An object that no longer has the host loses nothing.
func (s *search) lostCatchAll(host string, catchAll *eskip.Route) {
	owners := s.had[host]
	at := slices.IndexFunc(owners, func(o shadowdiff.Owner) bool { return slices.Contains(s.has[host], o) })
	if at < 0 {
		return
	}
	by := s.first[host]
	requests, tried, _ := s.old.Contest(catchAll, catchAll, maxContest)
	s.spend(by.to.Namespace, stepOfPair+tried*stepOfFind)
	for _, r := range requests {
		if !s.spend(by.to.Namespace, 2*stepOfFind+(s.old.Reach(r.Host)+s.new.Reach(r.Host))/4) {
			s.report.add(Unknown{From: owners[at], To: by.to, Route: catchAll.Id, By: by.id})
			return
		}
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
			if by.to.Name != "" && by.to != to {
				to, taken.Brought = by.to, by.id
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
	if s.size(of) <= maxSize && s.spend(to.Namespace, stepOfPair+(s.size(by)+s.size(of))/10+2*stepOfHost*(len(s.hostsOf(by))+len(s.hostsOf(of)))) {
		var tried int
		requests, tried, complete = s.new.Contest(by, of, maxContest)
		s.spend(to.Namespace, tried*stepOfFind)
	}
	for _, r := range requests {
		if !s.spend(to.Namespace, 2*stepOfFind+(s.old.Reach(r.Host)+s.new.Reach(r.Host))/4) {
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
	if key := [2]string{of.Id, by.Id}; !complete && !s.unknown[key] {
		s.unknown[key] = true
		s.report.add(Unknown{From: from, To: to, Route: of.Id, By: cmp.Or(brought, by.Id)})
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
