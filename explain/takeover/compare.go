package takeover

import (
	"cmp"
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
)

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
	for r := range match.RoutesFor(s.before.Routes, hosts...) {
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

// lostCatchAll looks for a request that a catch-all answered for the objects of its host, and that a route of another object
// gets now. The first object with a changed route of the host caused that, or else the one that gets the request.
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
			s.doubt(owners[at], by.to, catchAll.Id, by.id, by.id)
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
	if !complete {
		s.doubt(from, to, of.Id, by.Id, cmp.Or(brought, by.Id))
	}
}

// doubt records an undecided pair of routes. shown is the one of to.
func (s *search) doubt(from, to shadowdiff.Owner, of, by, shown string) {
	if s.doubted[[2]string{of, by}] {
		return
	}
	s.doubted[[2]string{of, by}] = true
	key := [2]shadowdiff.Owner{from, to}
	if s.unknown[key] == nil {
		s.unknown[key] = &Unknown{From: from, To: to, Route: of, By: shown}
	}
	s.unknown[key].Pairs++
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

func literal(r match.Result) bool {
	return !slices.ContainsFunc(r.Outcomes, func(o match.Outcome) bool { return o.Route != nil && !match.Literal(o.Route) })
}

func requestOf(r match.Request) Request {
	return Request{Method: r.Method, URL: r.URL(), Header: r.Header, From: r.RemoteAddr}
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
