package match

import "strings"

// Narrow selects, by host expressions, the routes of a large table that can match requests for some hosts: a table of these is
// enough to find the route of such a request. It caches its last answer, and is not safe for concurrent use.
type Narrow struct {
	keys    map[string]bool // of the hosts, in the spellings that predicates may see; empty for all hosts
	escaped []string        // the same, escaped as in expressions; nil if there are too many to look for each
	last    string
	can     bool
}

// fewHosts is how many hosts Narrow looks for one by one, which is faster than to take each expression apart.
const fewHosts = 4

// NewNarrow returns a Narrow for the hosts of requests, with or without ports. Without hosts, all routes may match.
func NewNarrow(hosts ...string) *Narrow {
	n := &Narrow{keys: map[string]bool{}, can: true} // can is the answer for a route without a host
	for _, host := range hosts {
		for _, h := range []string{host, strings.ToLower(host), normalizeHost(host)} {
			n.keys[hostKey(h)] = true
		}
	}
	if len(hosts) <= fewHosts {
		for key := range n.keys {
			n.escaped = append(n.escaped, strings.ReplaceAll(key, ".", "[.]"))
		}
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
	if len(n.keys) == 0 {
		return true
	}
	for _, e := range n.escaped {
		if strings.Contains(expr, e) {
			return true
		}
	}
	if n.escaped != nil && compiledHost(expr) {
		return false
	}
	plain := plainHosts(expr)
	for _, h := range plain {
		if n.keys[hostKey(h.name)] {
			return true
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
