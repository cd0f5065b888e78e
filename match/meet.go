package match

import (
	"cmp"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

// Contest constructs requests that two routes both match, and that the first one gets, or may get, without other routes: the
// plainest first. The requests differ in the properties that decide which other routes match, too: the depth of the path and its
// last slash, the method, and the port. They contain only what the routes require. Use [Table.Find] to see which route each one
// gets.
//
// complete means that the result is conclusive: if the first route gets any request of the second one, it also gets one of these,
// unless a route that is not [Literal] prevents it. At most most requests are tried; tried is their number.
func (t *Table) Contest(by, of *eskip.Route, most int) (requests []Request, tried int, complete bool) {
	m := &meeting{table: t, path: pathShape{tail: tailAny}, header: map[string][]string{}, query: url.Values{}, complete: true}
	if !m.add(by) || !m.add(of) || !m.expressions() {
		return nil, 0, true
	}
	o := t.options
	o.Candidates = -1
	two, _ := New([]*eskip.Route{by, of}, o)
	all := m.requests(most)
	for _, r := range all {
		possible, others := false, false
		res := two.Find(r)
		for _, out := range res.Outcomes {
			possible = possible || out.Route == by
			others = others || out.Route == of
		}
		if possible && (others || two.matches(of, r)) {
			requests = append(requests, r)
		}
	}
	return requests, len(all), m.complete
}

// Reach returns how many routes of the table may match a request for a host: [Table.Find] checks all of these.
func (t *Table) Reach(host string) int {
	return len(t.routes.hosts[hostKey(host)]) + len(t.routes.loose)
}

// Size returns the number of instructions in the compiled expressions of a route: repetitions in a short text can produce many.
// Arguments of predicates count as expressions.
func Size(r *eskip.Route) (size int) {
	add := func(exprs ...string) {
		for _, expr := range exprs {
			if rx, err := syntax.Parse(expr, syntax.Perl); err == nil {
				size += sizeOf(rx)
			}
		}
	}
	for _, expr := range r.HostRegexps {
		if plainHosts(expr) == nil {
			add(expr)
		}
	}
	add(r.PathRegexps...)
	for _, exprs := range r.HeaderRegexps {
		add(exprs...)
	}
	for _, p := range r.Predicates {
		if p.Name != "PathSubtree" && p.Name != "HostAny" {
			add(texts(p)...)
		}
	}
	return size
}

// sizeOf returns about how many instructions an expression has.
func sizeOf(rx *syntax.Regexp) int {
	size := 1 + len(rx.Rune)
	for _, sub := range rx.Sub {
		size += sizeOf(sub)
	}
	if rx.Op == syntax.OpRepeat {
		size *= max(rx.Min, rx.Max, 1)
	}
	return size
}

// matches reports whether a route of the table may match a request.
func (t *Table) matches(route *eskip.Route, in Request) bool {
	r, answer := prepare(in, t.options)
	found := false
	if answer == nil {
		t.routes.visit(r.segments, hostKey(r.host), false, func(_ string, e *entry) bool {
			if e.route == route {
				found = e.ask(r) != no
			}
			return !found
		})
	}
	return found
}

// Literal reports whether a route decides by hosts, paths, methods and headers alone, and has no expression for any of them.
func Literal(r *eskip.Route) bool {
	for _, expr := range r.HostRegexps {
		if plainHosts(expr) == nil {
			return false
		}
	}
	for _, p := range r.Predicates {
		switch p.Name {
		case "PathSubtree", "HostAny", "Methods", "Weight", "True", "False", "*", "Any":
		default:
			return false
		}
	}
	return !slices.ContainsFunc(r.PathRegexps, func(expr string) bool { return !everyPath(expr) }) && len(r.HeaderRegexps) == 0
}

// everyPath reports whether an expression matches every request path, such as the expression of an Ingress for "/".
func everyPath(expr string) bool { return expr == "^/" || expr == "/" || expr == "^" || expr == "" }

// Limits of the requests that Contest constructs for two routes.
const (
	maxMeetHosts   = 64
	maxMeetPaths   = 64
	maxMeetMethods = 32

	// Of more than maxMeetAll pairs of a path and a method, Contest tries only the pairs of the plainest maxMeetBoth paths and
	// methods, each path with the plainest method, and each method with the plainest path.
	maxMeetAll  = 1024
	maxMeetBoth = 16
)

// meeting collects the properties that a request needs to match all added routes.
type meeting struct {
	table    *Table
	complete bool

	hosts       []plainHost // nil if any
	named       bool
	hostExprs   []string
	path        pathShape
	pathExprs   []string
	methods     []string // nil if any
	header      map[string][]string
	cookies     []string
	query       url.Values
	remote, xff string
}

// add adds the conditions of a route. It returns false if no request can meet them.
func (m *meeting) add(r *eskip.Route) bool {
	for _, expr := range r.HostRegexps {
		plain := plainHosts(expr)
		if plain == nil {
			m.hostExprs = append(m.hostExprs, expr)
		} else if !m.meetHosts(plain) {
			return false
		}
	}
	for _, expr := range r.PathRegexps {
		if !everyPath(expr) {
			m.pathExprs = append(m.pathExprs, expr)
		}
	}
	if r.Method != "" && !m.meetMethods([]string{r.Method}) {
		return false
	}
	for name, val := range r.Headers {
		m.addHeader(name, val)
	}
	for name, list := range r.HeaderRegexps {
		for _, expr := range list {
			m.addHeader(name, sample(expr, 0))
			m.complete = false
		}
	}
	if r.Path != "" && !m.meetPath(r.Path, false) {
		return false
	}
	for _, p := range r.Predicates {
		if !m.predicate(p) {
			return false
		}
	}
	return true
}

// expressions compares the expressions for hosts and paths with the known hosts and paths. It returns false if no request can
// match both.
func (m *meeting) expressions() bool {
	for _, expr := range m.hostExprs {
		rx, err := regexp.Compile(expr)
		switch {
		case err != nil:
			return false // a proxy refuses the route
		case !m.named:
			m.complete = false
			continue
		}
		m.hosts = slices.DeleteFunc(m.hosts, func(h plainHost) bool { return !rx.MatchString(h.name) && !(h.port && rx.MatchString(h.name+":8080")) })
		if len(m.hosts) == 0 {
			return false
		}
	}
	if m.path.tail != tailNone && len(m.pathExprs) > 0 {
		m.complete = false
		for _, a := range m.pathExprs {
			for _, b := range m.pathExprs {
				if a, b := beginning(a), beginning(b); !strings.HasPrefix(a, b) && !strings.HasPrefix(b, a) {
					return false
				}
			}
			if !m.path.begins(beginning(a)) {
				return false
			}
		}
	}
	return true
}

// begins reports whether a path of the shape may begin with a text.
func (p *pathShape) begins(text string) bool {
	front := ""
	for _, s := range p.segments {
		if kindOf(s) == single {
			return strings.HasPrefix(front+"/", text) || strings.HasPrefix(text, front+"/")
		}
		front += "/" + s
	}
	return strings.HasPrefix(front+"/", text) || strings.HasPrefix(text, front+"/")
}

// predicate adds the condition of a predicate without a field. It ignores wrong arguments: a proxy refuses the route.
func (m *meeting) predicate(p *eskip.Predicate) bool {
	args := texts(p)
	if len(args) == 0 {
		m.complete = m.complete && (p.Name == "Weight" || p.Name == "True" || p.Name == "Any" || p.Name == "*")
		return p.Name != "False"
	}
	switch p.Name {
	case "PathSubtree":
		return args[0] == "" || m.meetPath(args[0], true)
	case "False":
		return false
	case "HostAny":
		var hosts []plainHost
		for _, h := range args {
			hosts = append(hosts, plainHost{name: h})
		}
		return m.meetHosts(hosts)
	case "Methods":
		var methods []string
		for _, a := range args {
			methods = append(methods, strings.ToUpper(a), a)
		}
		return m.meetMethods(methods)
	case "Cookie":
		if len(args) == 2 {
			m.cookies = append(m.cookies, args[0]+"="+sample(args[1], 0))
		}
	case "QueryParam":
		val := ""
		if len(args) == 2 {
			val = sample(args[1], 0)
		}
		m.query.Add(args[0], val)
	case "ClientIP":
		m.remote = addressIn(args[0])
	case "Source", "SourceFromLast":
		m.xff = addressIn(args[0])
	case "True", "Any", "*":
		return true
	}
	m.complete = false
	return true
}

// addressIn returns an address of a network, or of an address.
func addressIn(text string) string {
	if n, err := netip.ParsePrefix(text); err == nil {
		a := n.Masked().Addr()
		if next := a.Next(); n.Contains(next) {
			return next.String()
		}
		return a.String()
	}
	return text
}

func (m *meeting) addHeader(name, val string) {
	if !slices.Contains(m.header[name], val) {
		m.header[name] = append(m.header[name], val)
	}
}

func (m *meeting) meetHosts(hosts []plainHost) bool {
	if !m.named {
		m.named, m.hosts = true, slices.Clone(hosts)
		return len(hosts) > 0
	}
	var both []plainHost
	for _, mine := range m.hosts {
		for _, other := range hosts {
			if mine.match(other.name) { // other may have a port
				both = append(both, plainHost{other.name, mine.port && other.port})
			} else if other.match(mine.name) {
				both = append(both, mine)
			}
		}
	}
	m.hosts = both
	return len(both) > 0
}

func (m *meeting) meetMethods(methods []string) bool {
	if m.methods != nil {
		methods = slices.DeleteFunc(slices.Clone(methods), func(s string) bool { return !slices.Contains(m.methods, s) })
	}
	m.methods = methods
	return len(methods) > 0
}

func (m *meeting) meetPath(text string, subtree bool) bool {
	p := parsePattern(text, subtree, m.table.options.IgnoreTrailingSlash)
	if p.dead {
		return false
	}
	var ok bool
	m.path, ok = m.path.meet(shapeOf(&p))
	return ok
}

// requests returns every combination of a host, a path and a method, but at most most of them; then m is not complete.
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
		for i, path := range paths {
			target := (&url.URL{Path: path}).EscapedPath() + query
			for k, method := range methods {
				if len(paths)*len(methods) > maxMeetAll && i > 0 && k > 0 && (i > maxMeetBoth || k > maxMeetBoth) {
					continue // a route far away must not make each pair expensive
				}
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

// someHosts returns hosts with all names that the routes have in common, and with a port where that can matter.
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

// someMethods returns one method if no route of the table names any, otherwise all methods that can make a difference.
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

// somePaths returns paths of the common shape: with each number of additional segments that can make a difference, with and
// without a trailing slash.
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

// facts summarises the routes of a table for Contest.
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

// freshSegment returns a segment that no pattern has.
func (f *facts) freshSegment() string {
	fresh := "x"
	for n := 0; f.segments[fresh]; n++ {
		fresh = "x" + strconv.Itoa(n)
	}
	return fresh
}

// sample returns a short text that an expression usually matches; an expression with assertions in the middle may not match it.
// pick selects one of several texts. The result is empty for an invalid expression.
func sample(expr string, pick int) string {
	rx, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	var b strings.Builder
	writeSample(&b, rx.Simplify(), pick)
	return b.String()
}

// beginning returns a prefix of every text that an expression matches.
func beginning(expr string) string {
	rx, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return ""
	}
	rx = rx.Simplify()
	if rx.Op != syntax.OpConcat || rx.Sub[0].Op != syntax.OpBeginText || rx.Sub[1].Op != syntax.OpLiteral || rx.Sub[1].Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(rx.Sub[1].Rune)
}

// maxSample limits the length of a sample: nested repetitions can be long.
const maxSample = 1 << 10

func writeSample(b *strings.Builder, rx *syntax.Regexp, pick int) {
	if b.Len() > maxSample {
		return
	}
	switch rx.Op {
	case syntax.OpLiteral:
		for _, r := range rx.Rune {
			b.WriteRune(r)
		}
	case syntax.OpCharClass:
		b.WriteRune(letterOf(rx.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpAlternate:
		writeSample(b, rx.Sub[pick%len(rx.Sub)], pick/len(rx.Sub))
	case syntax.OpStar, syntax.OpQuest:
		if pick%2 == 1 {
			writeSample(b, rx.Sub[0], pick/2)
		}
	default: // captures, repetitions, sequences; assertions have no text
		for _, sub := range rx.Sub {
			writeSample(b, sub, pick)
		}
	}
}

// letterOf returns a letter or digit of a class of characters if it has one, else its first character.
func letterOf(ranges []rune) rune {
	for _, want := range "xab1" {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= want && want <= ranges[i+1] {
				return want
			}
		}
	}
	if len(ranges) == 0 {
		return 'x'
	}
	return ranges[0]
}
