package match

import (
	"iter"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/table"
)

type expression struct {
	plain []plainHost // if not nil, the meaning of the expression, which then is never compiled
	hosts []string    // keys of plain
	rx    func() *regexp.Regexp
}

func (x *expression) match(s string) bool {
	if x.plain != nil {
		return slices.ContainsFunc(x.plain, func(h plainHost) bool { return h.match(s) })
	}
	return x.rx().MatchString(s)
}

type expressions map[string]*expression

func (all expressions) get(text string) (*expression, error) {
	if x := all[text]; x != nil {
		return x, nil
	}
	x := &expression{plain: plainHosts(text), rx: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
	if x.plain == nil {
		if _, err := syntax.Parse(text, syntax.Perl); err != nil {
			return nil, err
		}
	}
	x.hosts = keysOf(x.plain)
	all[text] = x
	return x, nil
}

// Hosts returns all hosts for which a route can match requests, without ports; nil if an expression or nothing decides that.
func Hosts(r *eskip.Route) []string {
	for _, expr := range r.HostRegexps {
		if keys := keysOf(plainHosts(expr)); keys != nil {
			return keys // all expressions must hold
		}
	}
	return nil
}

func keysOf(hosts []plainHost) (keys []string) {
	for _, h := range hosts {
		if key := hostKey(h.name); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

type plainHost struct {
	name string
	port bool // a dot and a port may follow
}

func (h plainHost) match(s string) bool {
	rest, ok := strings.CutPrefix(s, h.name)
	if !ok || rest == "" {
		return ok
	}
	if !h.port {
		return false
	}
	rest = strings.TrimPrefix(rest, ".")
	return rest == "" || rest[0] == ':' && len(rest) > 1 && strings.Trim(rest[1:], "0123456789") == ""
}

// portExpr is what the compilers of this project and of the reference append to a host.
const portExpr = "[.]?(:[0-9]+)?"

// plainHosts parses expressions of the form ^(a[.]b[.]?(:[0-9]+)?|c)$ and ^a[.]b$; nil for any other.
func plainHosts(expr string) []plainHost {
	body, ok := strings.CutPrefix(expr, "^")
	body, end := strings.CutSuffix(body, "$")
	if !ok || !end {
		return nil
	}
	alternatives := []string{body}
	if inner, ok := strings.CutPrefix(body, "("); ok {
		if inner, ok = strings.CutSuffix(inner, ")"); !ok {
			return nil
		}
		alternatives = strings.Split(inner, "|")
	}
	hosts := make([]plainHost, 0, len(alternatives))
	for _, text := range alternatives {
		text, port := strings.CutSuffix(text, portExpr)
		name := strings.ReplaceAll(text, "[.]", ".")
		if strings.Count(text, ".") != strings.Count(text, "[.]") || !catalogue.IsName(name) {
			return nil
		}
		hosts = append(hosts, plainHost{name, port})
	}
	return hosts
}

// hostKey returns the host without a port and trailing dot: all that a plainHost matches has the same key.
func hostKey(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// RoutesFor yields the routes of a large table that can match requests for some hosts: a table of these is enough to find the
// route of such a request. It unpacks only blocks with such routes.
func RoutesFor(list table.List, hosts ...string) iter.Seq[*table.Route] {
	keys := keysFor(hosts)
	return func(yield func(*table.Route) bool) {
		for _, b := range list.Blocks() {
			if !indexOf(b).mayHave(keys) {
				continue
			}
			for _, r := range b.OfHosts(forHosts(keys)) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

type blockIndex struct {
	any  bool // some routes are not limited to plain hosts
	keys map[string]bool
}

func (x *blockIndex) mayHave(keys map[string]bool) bool {
	for key := range keys {
		if x.keys[key] {
			return true
		}
	}
	return x.any
}

type blockIndexMemo struct{}

func indexOf(b *table.Block) *blockIndex {
	return b.Memo(blockIndexMemo{}, func() any {
		x := &blockIndex{keys: make(map[string]bool)}
		for _, expressions := range b.Hosts() {
			var accepted []string
			for expr := range strings.SplitSeq(expressions, "\n") {
				if accepted = keysOf(plainHosts(expr)); accepted != nil {
					break // all expressions must hold
				}
			}
			x.any = x.any || accepted == nil
			for _, key := range accepted {
				x.keys[key] = true
			}
		}
		return x
	}).(*blockIndex)
}

func keysFor(hosts []string) map[string]bool {
	keys := map[string]bool{}
	for _, host := range hosts {
		for _, h := range []string{host, strings.ToLower(host), normalizeHost(host)} {
			keys[hostKey(h)] = true
		}
	}
	return keys
}

// forHosts returns a function that selects routes by their host expressions, in the form of table.Route.
func forHosts(keys map[string]bool) func(expressions string) bool {
	may := func(expr string) bool {
		accepted := keysOf(plainHosts(expr))
		return accepted == nil || slices.ContainsFunc(accepted, func(key string) bool { return keys[key] })
	}
	return func(expressions string) bool {
		for expr := range strings.SplitSeq(expressions, "\n") {
			if expressions != "" && !may(expr) {
				return false // all of them must hold
			}
		}
		return true
	}
}
