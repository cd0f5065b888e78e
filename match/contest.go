package match

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Contest constructs requests that two routes both match, and that the first one may get without other routes, the plainest
// first. They differ in the properties that decide which other routes match, too: the depth of the path and its last slash, the
// method, and the port.
//
// complete means that the result is conclusive: if the first route gets any request of the second one, it also gets one of
// these, unless a route that is not [Literal] prevents it. At most most requests are tried; tried is their number.
func (t *Table) Contest(by, of *eskip.Route, most int) (requests []Request, tried int, complete bool) {
	m := &meeting{table: t, path: pathShape{tail: tailAny}, header: map[string][]string{}, query: url.Values{}, complete: true}
	if !m.add(by) || !m.add(of) || !m.expressions() {
		return nil, 0, true
	}
	o := t.options
	o.Candidates = -1
	both, _ := New([]*eskip.Route{by, of}, o)
	alone, _ := New([]*eskip.Route{of}, o)
	all := m.requests(most)
	for _, r := range all {
		if both.gets(by, r) && alone.gets(of, r) {
			requests = append(requests, r)
		}
	}
	return requests, len(all), m.complete
}

func (t *Table) gets(route *eskip.Route, in Request) bool {
	res := t.Find(in)
	return slices.ContainsFunc(res.Outcomes, func(o Outcome) bool { return o.Route == route })
}

// Reach returns how many routes [Table.Find] checks for a host.
func (t *Table) Reach(host string) int {
	return len(t.routes.hosts[hostKey(host)]) + len(t.routes.loose)
}

// Limits of the requests that Contest constructs for two routes.
const (
	maxMeetHosts   = 64
	maxMeetPaths   = 64
	maxMeetMethods = 16
)

// requests returns every combination of a host, a path and a method, but at most most of them.
func (m *meeting) requests(most int) []Request {
	facts := m.table.facts()
	if len(m.cookies) > 0 {
		m.header["Cookie"] = []string{strings.Join(m.cookies, "; ")}
	}
	if m.xff != "" {
		m.header["X-Forwarded-For"] = []string{m.xff}
	}
	query := ""
	if len(m.query) > 0 {
		query = "?" + m.query.Encode()
	}
	var all []Request
	paths, methods := m.somePaths(facts), m.someMethods(facts)
	for _, host := range m.someHosts(facts) {
		for _, path := range paths {
			target := (&url.URL{Path: path}).EscapedPath() + query
			for _, method := range methods {
				if len(all) >= most {
					m.complete = false
					return all
				}
				all = append(all, Request{Method: method, Target: target, Host: host, Header: m.header, RemoteAddr: m.remote})
			}
		}
	}
	return all
}

func (m *meeting) someHosts(f *facts) []string {
	var hosts []string
	switch {
	case m.named:
		for _, h := range m.hosts {
			hosts = append(hosts, h.name)
			if h.port && f.ports && !m.table.options.NormalizeHost {
				hosts = append(hosts, h.name+":8080", h.name+".")
			}
		}
	case len(m.hostExprs) > 0:
		for pick := range 4 {
			for _, expr := range m.hostExprs {
				hosts = append(hosts, sample(expr, pick))
			}
		}
	default:
		hosts = []string{"any-host.invalid"}
	}
	m.complete = m.complete && len(hosts) <= maxMeetHosts
	return hosts[:min(len(hosts), maxMeetHosts)]
}

func (m *meeting) someMethods(f *facts) []string {
	if m.methods != nil {
		return slices.Compact(slices.Sorted(slices.Values(m.methods)))
	}
	if len(f.methods) == 0 {
		return []string{"GET"}
	}
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE"}
	for _, other := range slices.Sorted(maps.Keys(f.methods)) {
		if len(methods) < maxMeetMethods && !slices.Contains(methods, other) {
			methods = append(methods, other)
		}
	}
	for n := 0; ; n++ { // find a method that no route names
		if other := "METHOD" + strings.Repeat("X", n); !f.methods[other] {
			return append(methods, other)
		}
	}
}

// somePaths returns paths with each number of additional segments that can matter, with and without a trailing slash.
func (m *meeting) somePaths(f *facts) []string {
	fresh := f.freshSegment()
	var base []string
	for _, s := range m.path.segments {
		if kindOf(s) == single {
			s = fresh
		}
		base = append(base, s)
	}
	front := "/" + strings.Join(base, "/")
	paths := []string{front}
	if m.path.tail == tailFree {
		paths = nil
	}
	if m.path.tail != tailNone {
		end := strings.TrimSuffix(front, "/")
		if m.path.tail != tailFree {
			paths = append(paths, end+"/")
		}
		for range max(1, f.depth-len(base)+1) {
			end += "/" + fresh
			paths = append(paths, end, end+"/")
		}
		for pick := range 4 {
			for _, expr := range m.pathExprs {
				paths = append(paths, "/"+strings.TrimPrefix(sample(expr, pick), "/"))
			}
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	paths = slices.Compact(paths)
	return paths[:min(len(paths), maxMeetPaths)]
}

type facts struct {
	depth    int             // of the longest pattern, in segments
	methods  map[string]bool // that routes name
	segments map[string]bool // of all patterns
	ports    bool            // whether a port in the host can make a difference
}

func factsOf(routes []*entry) *facts {
	f := &facts{methods: map[string]bool{}, segments: map[string]bool{}}
	for _, e := range routes {
		for _, p := range e.patterns {
			f.depth = max(f.depth, len(p.segments))
			for _, s := range p.segments {
				f.segments[s] = true
			}
		}
		if e.route.Method != "" {
			f.methods[e.route.Method] = true
		}
		for _, p := range e.route.Predicates {
			switch p.Name {
			case "Methods":
				for _, a := range texts(p) {
					f.methods[strings.ToUpper(a)] = true
				}
			case "HostAny":
				f.ports = true
			}
		}
		for _, expr := range e.route.HostRegexps {
			plain := plainHosts(expr)
			f.ports = f.ports || plain == nil || slices.ContainsFunc(plain, func(h plainHost) bool { return !h.port })
		}
	}
	return f
}

func (f *facts) freshSegment() string {
	fresh := "x"
	for n := 0; f.segments[fresh]; n++ {
		fresh = "x" + strconv.Itoa(n)
	}
	return fresh
}
