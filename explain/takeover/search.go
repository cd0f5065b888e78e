package takeover

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Limits of a report.
const (
	maxChanged  = 2000 // changed routes of one owner that are looked at
	maxTaken    = 20   // of one takeover
	hostsAtOnce = 200  // whose routes are in memory
)

// Costs and limits of a search. A change that exceeds them is undecided.
const (
	maxSize     = 5000 // instructions of the expressions of a route
	maxContest  = 4096 // requests that are made up for a pair of routes
	allShares   = 25   // shares of namespaces that one search has
	stepOfRoute = 10   // to read a route
	stepOfHost  = 1    // and each of its hosts
	stepOfPair  = 50   // to compare two
	stepOfFind  = 5    // to find the route of a request
)

type search struct {
	report        *Report
	before, after Side
	options       Options

	diff    map[string]*eskip.Route // changed routes in their new form; nil if deleted
	changes []*change
	gone    map[string][]*eskip.Route // catch-alls of hosts, which no owner gave up
	first   map[string]cause          // the first change of a host
	pairs   map[[2]shadowdiff.Owner]*Takeover
	unknown map[[2]shadowdiff.Owner]*Unknown
	doubted map[[2]string]bool          // pairs of routes in unknown
	lost    map[[2]string]bool          // routes and the owners that take their requests
	size    func(*eskip.Route) int      // of the expressions of a route
	hostsOf func(*eskip.Route) []string // that a route names; nil if it may match others
	atOnce  int                         // hosts

	left   map[string]int // steps of each namespace that has taken any
	budget int            // of all

	// of the chunk that is being compared
	old, new *match.Table
	had, has map[string][]shadowdiff.Owner // owners of routes of a host
}

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
	before.Owner, after.Owner = remembered(before.Owner.Of), remembered(after.Owner.Of)
	return &search{
		report: &Report{Schema: Schema, Takeovers: []Takeover{}, Unknown: []Unknown{}}, before: before, after: after, options: o,
		diff: map[string]*eskip.Route{}, gone: map[string][]*eskip.Route{}, first: map[string]cause{},
		pairs: map[[2]shadowdiff.Owner]*Takeover{}, unknown: map[[2]shadowdiff.Owner]*Unknown{}, doubted: map[[2]string]bool{},
		lost: map[[2]string]bool{}, size: remembered(match.Size), hostsOf: remembered(match.Hosts), atOnce: hostsAtOnce,
		left: map[string]int{}, budget: allShares * o.Steps,
	}
}

// spend takes steps from the share of a namespace and the common budget. It returns false if nothing is left.
func (s *search) spend(namespace string, steps int) bool {
	left, known := s.left[namespace]
	if !known || namespace == "" {
		left = s.options.Steps
	}
	s.left[namespace] = left - steps
	s.budget -= steps
	return left > 0 && s.budget > 0 && !s.options.Stop()
}

func (s *search) skip(c *change, routes []*eskip.Route) {
	for _, r := range routes {
		s.report.Skipped++
		if s.report.skipped == nil {
			s.report.skipped = map[shadowdiff.Owner]string{}
		}
		s.report.skipped[c.to] = cmp.Or(c.brought[r.Id], r.Id)
	}
}

// remembered calls a function once for each argument.
func remembered[K comparable, V any](f func(K) V) func(K) V {
	known := map[K]V{}
	return func(key K) V {
		v, ok := known[key]
		if !ok {
			v = f(key)
			known[key] = v
		}
		return v
	}
}

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
		for _, h := range hosts {
			if _, known := s.first[h]; !known && to.Name != "" && brought == "" {
				s.first[h] = cause{to, r.Id}
			}
		}
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

// sameMatch ignores endpoints. Filters count: a proxy refuses a route for them.
func sameMatch(a, b *eskip.Route) bool { return withoutEndpoints(a) == withoutEndpoints(b) }

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

// compare looks at all pairs of a changed route and one of another owner, by hosts, cheap changes first.
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

// groupByHost returns routes by the hosts that they name. A route for any host loses nothing.
func (s *search) groupByHost(routes []*eskip.Route) map[string][]*eskip.Route {
	byHost := map[string][]*eskip.Route{}
	for _, r := range routes {
		for _, h := range s.hostsOf(r) {
			byHost[h] = append(byHost[h], r)
		}
	}
	return byHost
}

func distinct(routes []*eskip.Route) []*eskip.Route {
	slices.SortFunc(routes, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	return slices.Compact(routes)
}

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
