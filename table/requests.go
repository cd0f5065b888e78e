package table

import (
	"iter"
	"strings"
)

// HostsOf yields the hosts of a route as [Table.Hosts] lists them, possibly more than once; nothing for a route that answers every
// host. The strings belong to the route.
func (r *Route) HostsOf() iter.Seq[string] {
	return func(yield func(string) bool) {
		if r.Hosts == "" {
			return
		}
		for expr := range strings.SplitSeq(r.Hosts, "\n") {
			for host := range alternatives(expr) {
				if !yield(host) {
					return
				}
			}
		}
	}
}

// Path returns the argument of the first predicate Path, PathSubtree or PathRegexp, as it is spelled between the quotes in the
// route's text; empty if there is none. expr means that it is a regular expression. It searches only the text before the filters,
// without parsing it, because a table has more than 100,000 routes.
func (r *Route) Path() (path string, expr bool) {
	text := r.Text
	for i := len(r.ID); i >= 0 && i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '`':
			if i = closingQuote(text, i+1, c); i < 0 {
				return "", false
			}
		case c == '/':
			if i = closingSlash(text, i+1); i < 0 {
				return "", false
			}
		case c == '<', c == '-' && strings.HasPrefix(text[i:], "->"):
			return "", false
		case c == 'P':
			end := i
			for end < len(text) && isLetter(text[end]) {
				end++
			}
			name := text[i:end]
			i = end - 1
			if name == "Path" || name == "PathSubtree" || name == "PathRegexp" {
				return literal(text[end:]), name == "PathRegexp"
			}
		case isLetter(c): // the middle of another name
			for i+1 < len(text) && isLetter(text[i+1]) {
				i++
			}
		}
	}
	return "", false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// literal returns the content of the first literal of an argument list, which begins with a parenthesis.
func literal(args string) string {
	args = strings.TrimLeft(args, " \t")
	args = strings.TrimLeft(strings.TrimPrefix(args, "("), " \t")
	if args == "" {
		return ""
	}
	end := -1
	switch args[0] {
	case '"', '`':
		end = closingQuote(args, 1, args[0])
	case '/':
		end = closingSlash(args, 1)
	}
	if end < 0 {
		return ""
	}
	return args[1:end]
}
