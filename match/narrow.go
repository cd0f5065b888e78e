package match

import "strings"

// Narrow selects, by host expressions, the routes of a large table that can match requests for one host: a table of these is
// enough to find the route of one request. It caches its last answer, and is not safe for concurrent use.
type Narrow struct {
	keys    []string // of the host, in the spellings that predicates may see
	escaped []string // the same, escaped as in expressions
	last    string
	can     bool
}

// NewNarrow returns a Narrow for the host of a request, with or without a port.
func NewNarrow(host string) *Narrow {
	n := &Narrow{can: true} // the answer for a route without a host
	for _, h := range []string{host, strings.ToLower(host), normalizeHost(host)} {
		key := hostKey(h)
		n.keys = append(n.keys, key)
		n.escaped = append(n.escaped, strings.ReplaceAll(key, ".", "[.]"))
	}
	return n
}

// May reports whether a route may match. hosts are its host expressions separated by line feeds, as in table.Route.
func (n *Narrow) May(hosts string) bool {
	if hosts == n.last {
		return n.can
	}
	n.last, n.can = hosts, true
	for expr := range strings.SplitSeq(hosts, "\n") {
		if hosts != "" && !n.mayMatch(expr) {
			n.can = false // all of them must hold
		}
	}
	return n.can
}

func (n *Narrow) mayMatch(expr string) bool {
	for _, e := range n.escaped {
		if strings.Contains(expr, e) {
			return true
		}
	}
	if compiledHost(expr) {
		return false
	}
	plain := plainHosts(expr)
	for _, h := range plain {
		for _, key := range n.keys {
			if hostKey(h.name) == key {
				return true
			}
		}
	}
	return plain == nil
}

// compiledHost reports whether an expression has the form that compilers give to hosts, which contains the escaped host. Nearly
// all have it.
func compiledHost(expr string) bool {
	inner, ok := strings.CutPrefix(expr, "^(")
	if !ok {
		return false
	}
	if inner, ok = strings.CutSuffix(inner, portExpr+")$"); !ok {
		return false
	}
	for i := 0; i < len(inner); {
		switch c := inner[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
			i++
		case strings.HasPrefix(inner[i:], portExpr+"|"):
			i += len(portExpr) + 1
		case strings.HasPrefix(inner[i:], "[.]"):
			i += len("[.]")
		default:
			return false
		}
	}
	return true
}
