package match

import (
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
)

func trimSlash(p string) string {
	if len(p) > 1 {
		return strings.TrimSuffix(p, "/")
	}
	return p
}

// segments splits a clean path. A trailing slash is an empty last segment.
func segments(clean string) []string { return strings.Split(clean[1:], "/") }

// Kinds of segments, in the order of the search: see [pattern.rank].
const (
	literal byte = iota
	single       // :name
	free         // *name, the rest of the path
)

func kindOf(segment string) byte {
	switch {
	case strings.HasPrefix(segment, ":"):
		return single
	case strings.HasPrefix(segment, "*"):
		return free
	}
	return literal
}

type pattern struct {
	segments []string // without the free wildcard at the end of a subtree
	subtree  bool
	rest     string // name of the rest of the path, for a subtree or a free wildcard
	dead     bool   // has : or * inside a segment: the route is valid but matches nothing
}

func parsePattern(text string, subtree, ignoreSlash bool) pattern {
	clean := catalogue.CleanPath(text)
	if ignoreSlash && !subtree {
		clean = trimSlash(clean)
	}
	p := pattern{segments: segments(clean), subtree: subtree, rest: "*"}
	for i, s := range p.segments {
		if kindOf(s) == free {
			p.segments = p.segments[:i+1]
			if name := strings.TrimLeft(s, "*"); name != "" {
				p.rest = name
			}
			break
		}
		p.dead = p.dead || kindOf(s) == literal && strings.ContainsAny(s, ":*")
	}
	if subtree {
		if last := len(p.segments) - 1; kindOf(p.segments[last]) == free || p.segments[last] == "" {
			p.segments = p.segments[:last]
		}
	}
	return p
}

// rank returns how specific the pattern is for a path, one byte for each segment, and whether it matches. A literal segment
// sorts before a wildcard for one, and that before the rest of the path.
func (p *pattern) rank(path []string) (rank string, ok bool) {
	shape := shapeOf(p)
	if len(path) < len(shape.segments) {
		return "", false
	}
	kinds := make([]byte, 0, 16)
	for i, s := range shape.segments {
		kind := kindOf(s)
		if kind == literal && s != path[i] || kind == single && path[i] == "" {
			return "", false
		}
		kinds = append(kinds, kind)
	}
	switch rest := path[len(shape.segments):]; {
	case len(rest) == 0:
		return string(kinds), shape.tail != tailFree
	case rest[0] != "":
		return string(append(kinds, free)), shape.tail != tailNone
	default: // the slash at the end of the path
		return string(append(kinds, literal)), shape.tail == tailAny
	}
}

// params returns the values of the wildcards. Of those with the same name the first one counts.
func (p *pattern) params(path []string) map[string]string {
	found := map[string]string{}
	set := func(name, val string) {
		if _, again := found[name]; again || name == "" {
			return
		}
		// Unescape again, although the path is decoded: the reference returns parameters in this form.
		if plain, err := url.QueryUnescape(val); err == nil {
			val = plain
		}
		found[name] = val
	}
	depth := min(len(p.segments), len(path))
	for i, s := range p.segments[:depth] {
		switch kindOf(s) {
		case single:
			set(s[1:], path[i])
		case free:
			set(p.rest, "/"+strings.Join(path[i:], "/"))
		}
	}
	if p.subtree {
		set(p.rest, "/"+strings.Join(path[depth:], "/"))
	}
	if len(found) == 0 {
		return nil
	}
	return found
}

func (p *pattern) shared(path []string) int {
	for i, s := range p.segments {
		if i == len(path) {
			return i << 8
		}
		if kindOf(s) == literal && s != path[i] {
			n := 0
			for n < min(len(s), len(path[i]), 1<<8-1) && s[n] == path[i][n] {
				n++
			}
			return i<<8 + n
		}
	}
	return len(p.segments) << 8
}

type pathShape struct {
	segments []string // a single wildcard matches any segment except the empty one, which is a trailing slash
	tail     byte     // what may follow them
}

// Kinds of tails.
const (
	tailNone byte = iota // nothing
	tailFree             // a slash and at least one letter
	tailAny              // nothing, a slash, or segments
)

func shapeOf(p *pattern) pathShape {
	s := pathShape{segments: p.segments}
	last := len(p.segments) - 1
	switch {
	case p.subtree:
		s.tail = tailAny
	case kindOf(p.segments[last]) == free:
		s.segments, s.tail = p.segments[:last], tailFree
	}
	return s
}

func (s pathShape) meet(o pathShape) (pathShape, bool) {
	if len(s.segments) < len(o.segments) {
		s, o = o, s
	}
	// s has more segments, or as many
	if len(s.segments) == len(o.segments) && min(s.tail, o.tail) == tailNone && max(s.tail, o.tail) == tailFree {
		return pathShape{}, false
	}
	both := pathShape{tail: min(s.tail, o.tail)}
	for i, a := range s.segments {
		if i >= len(o.segments) {
			if o.tail == tailNone || o.tail == tailFree && i == len(o.segments) && a == "" {
				return pathShape{}, false
			}
			both.segments = append(both.segments, a)
			continue
		}
		b := o.segments[i]
		switch {
		case a == b:
		case kindOf(a) == single && b != "":
			a = b
		case kindOf(b) == single && a != "":
		default:
			return pathShape{}, false
		}
		both.segments = append(both.segments, a)
	}
	if len(s.segments) > len(o.segments) {
		both.tail = s.tail // the shorter shape's tail covers the longer shape's segments and tail
	}
	if n := len(both.segments); n > 0 && both.segments[n-1] == "" && both.tail != tailNone {
		return pathShape{}, false // only the root has such a pattern
	}
	return both, true
}
