package match

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
)

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

// expressions compares expressions with the known hosts and paths. It returns false if no request can match both.
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
