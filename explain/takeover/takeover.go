// Package takeover finds the requests that a change of objects takes from routes of others.
//
// A proxy gives a request to the most specific route that matches it, whoever owns that route. So an object that one team adds or edits
// can get requests that routes of another team got before, and neither team sees it. [Find] compares two tables: it looks at each
// route that is new, or matches other requests than before, and makes up requests that this route and a route of somebody else both match.
// Package match then says who gets them, before and after.
//
// A request that is reported is a proof. Where hosts, paths, methods and headers are literal, no report is a proof as well: see
// [match.Table.Contest]. Where an expression decides and no request is found, the pair is reported as unknown, and never as free of
// takeovers.
//
// The package does no I/O, reads no clock and does not log.
package takeover

import (
	"cmp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Schema names the JSON form of a [Report]. Within one version fields are only added.
const Schema = "routesrv.takeovers/v1"

// Side is a table before or after a change.
type Side struct {
	Routes table.List
	// Owner returns the objects of routes; nil means what their ids show.
	Owner shadowdiff.OwnerFunc
}

// Report says what a change takes.
type Report struct {
	Schema string `json:"schema"`
	// Takeovers are sorted: those between namespaces first, then those of the most routes.
	Takeovers []Takeover `json:"takeovers"`
	// Unknown are pairs of routes that may be takeovers: an expression decides, and no request was found that proves it.
	Unknown []Unknown `json:"unknown"`
	// Skipped is how many changed routes nobody has looked at, because there are too many.
	Skipped int `json:"skipped"`
}

// Takeover is what one owner takes from another.
type Takeover struct {
	From shadowdiff.Owner `json:"from"`
	To   shadowdiff.Owner `json:"to"`
	// Lost is the number of routes of From that lose requests. Taken has the first of them.
	Lost  int     `json:"lost"`
	Taken []Taken `json:"taken"`
}

// BetweenNamespaces reports whether the owners are in different namespaces.
func (t *Takeover) BetweenNamespaces() bool { return t.From.Namespace != t.To.Namespace }

// Taken is one route that loses requests, with an example.
type Taken struct {
	Route string `json:"route"`
	By    string `json:"by"`
	// Shared means that the route may still get the request: both routes come first, and which of them gets a request is arbitrary, or
	// depends on chance or on what nobody knows before.
	Shared  bool    `json:"shared,omitempty"`
	Request Request `json:"request"`
}

// Request is a request that changes its route.
type Request struct {
	Method string              `json:"method"`
	URL    string              `json:"url"`
	Header map[string][]string `json:"header,omitempty"`
	From   string              `json:"from,omitempty"` // address of the client, if it matters
}

// Unknown is a pair of routes of which nobody knows whether one takes requests of the other.
type Unknown struct {
	From  shadowdiff.Owner `json:"from"`
	To    shadowdiff.Owner `json:"to"`
	Route string           `json:"route"`
	By    string           `json:"by"`
}

// Limits of a report.
const (
	maxChanged  = 2000    // changed routes that are looked at
	maxRelevant = 60_000  // other routes that are compared with them
	maxLookups  = 400_000 // requests that are made up
	maxTaken    = 20      // of one takeover
	maxUnknown  = 100
)

// Find returns the takeovers between two tables of proxies with the given settings. It costs one look at the hosts of all routes, and
// then as much as the routes that share a host with a changed one.
func Find(before, after Side, proxy match.Options) *Report {
	s := &search{report: &Report{Schema: Schema, Takeovers: []Takeover{}, Unknown: []Unknown{}}, before: before, after: after, proxy: proxy}
	s.proxy.Candidates = -1
	s.changes()
	if len(s.changed) > 0 {
		s.relevant()
		s.compare()
	}
	return s.sorted()
}

// search is one comparison of two tables.
type search struct {
	report        *Report
	before, after Side
	proxy         match.Options

	diff    map[string]*eskip.Route // changed routes as they are afterwards; nil if they are gone
	changed []*eskip.Route          // those that may get requests they did not get before

	old, new *match.Table
	others   []*eskip.Route // routes that match the same before and after
	lookups  int
	pairs    map[[2]shadowdiff.Owner]*Takeover
}

// changes finds the routes that are new or match other requests than before.
func (s *search) changes() {
	s.diff = map[string]*eskip.Route{}
	for was, is := range table.Changes(s.before.Routes, s.after.Routes) {
		if is == nil {
			s.diff[was.ID] = nil
			continue
		}
		now := parse(is)
		s.diff[is.ID] = now
		if now == nil || was != nil && sameMatch(parse(was), now) {
			continue
		}
		if len(s.changed) == maxChanged {
			s.report.Skipped++
			continue
		}
		s.changed = append(s.changed, now)
	}
}

// parse returns the route of a line, or nil if there is none in it, which no table of a compiler has.
func parse(r *table.Route) *eskip.Route {
	routes, err := eskip.Parse(r.Text)
	if err != nil || len(routes) != 1 {
		return nil
	}
	return routes[0]
}

// sameMatch reports whether two versions of a route differ at most in the endpoints of their backend. Filters count, because a proxy
// refuses a route for them.
func sameMatch(a, b *eskip.Route) bool { return a != nil && withoutEndpoints(a) == withoutEndpoints(b) }

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

// relevant builds the tables of all routes that can match requests of changed routes.
func (s *search) relevant() {
	near := match.NewNarrow(hostsOf(s.changed)...)
	var old, now []*eskip.Route
	for r := range s.before.Routes.OfHosts(near.May) {
		if len(old) == maxRelevant {
			s.report.Skipped++
			break
		}
		route := parse(r)
		if route == nil {
			continue
		}
		old = append(old, route)
		next, differs := s.diff[r.ID]
		switch {
		case !differs:
			now = append(now, route)
			s.others = append(s.others, route)
		case next != nil && sameMatch(route, next):
			now = append(now, next)
			s.others = append(s.others, route)
		}
	}
	known := map[string]bool{}
	for _, r := range now {
		known[r.Id] = true
	}
	for id, r := range s.diff {
		if r != nil && !known[id] {
			now = append(now, r)
		}
	}
	slices.SortFunc(now, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	s.old, _ = match.New(old, s.proxy)
	s.new, _ = match.New(now, s.proxy)
}

// hostsOf returns the hosts of routes; nil if one of them matches hosts that are not listed.
func hostsOf(routes []*eskip.Route) []string {
	var hosts []string
	for _, r := range routes {
		names := match.Hosts(r)
		if names == nil {
			return nil
		}
		hosts = append(hosts, names...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// compare looks at all pairs of a changed route and a route of another owner.
func (s *search) compare() {
	s.pairs = map[[2]shadowdiff.Owner]*Takeover{}
	byHost := map[string][]*eskip.Route{}
	var anyHost []*eskip.Route
	for _, r := range s.others {
		hosts := match.Hosts(r)
		if hosts == nil {
			anyHost = append(anyHost, r)
		}
		for _, h := range hosts {
			byHost[h] = append(byHost[h], r)
		}
	}
	for _, by := range s.changed {
		others := s.others
		if hosts := match.Hosts(by); hosts != nil {
			others = slices.Clone(anyHost)
			for _, h := range hosts {
				others = append(others, byHost[h]...)
			}
			if len(hosts) > 1 {
				slices.SortFunc(others, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
				others = slices.Compact(others)
			}
		}
		owner := s.after.Owner.Of(by.Id)
		for _, of := range others {
			if from := s.before.Owner.Of(of.Id); from != owner && from.Kind != string(routeid.KindGenerated) && from.Kind != string(routeid.KindOther) {
				s.pair(from, owner, of, by)
			}
		}
	}
}

// pair looks for a request that the changed route takes from the other one.
func (s *search) pair(from, to shadowdiff.Owner, of, by *eskip.Route) {
	requests, complete := s.new.Contest(by, of)
	for _, r := range requests {
		if s.lookups++; s.lookups > maxLookups {
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
		s.add(from, to, Taken{Route: of.Id, By: by.Id, Shared: still != nil, Request: requestOf(r)})
		return
	}
	if !complete && len(s.report.Unknown) < maxUnknown {
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
	if slices.ContainsFunc(known.Taken, func(o Taken) bool { return o.Route == t.Route }) {
		return
	}
	if known.Lost++; len(known.Taken) < maxTaken {
		known.Taken = append(known.Taken, t)
	}
}

func (s *search) sorted() *Report {
	for _, t := range s.pairs {
		s.report.Takeovers = append(s.report.Takeovers, *t)
	}
	worse := func(b bool) int {
		if b {
			return 0
		}
		return 1
	}
	slices.SortFunc(s.report.Takeovers, func(a, b Takeover) int {
		return cmp.Or(cmp.Compare(worse(a.BetweenNamespaces()), worse(b.BetweenNamespaces())), cmp.Compare(b.Lost, a.Lost),
			strings.Compare(a.From.String(), b.From.String()), strings.Compare(a.To.String(), b.To.String()))
	})
	return s.report
}
