package match

import (
	"errors"
	"net/url"
	"strings"
)

// cleanPath normalises a path of a request or a pattern as the reference does first: a leading slash, and no empty, "." or ".."
// segments. It keeps a trailing slash if the input has more than two bytes and ends with a slash or a "." segment.
func cleanPath(p string) string {
	if isClean(p) {
		return p
	}
	slash := len(p) > 2 && p[len(p)-1] == '/'
	var kept []string
	segments := strings.Split(p, "/")
	for i, s := range segments {
		switch s {
		case "":
		case ".":
			slash = slash || i == len(segments)-1
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return "/"
	}
	clean := "/" + strings.Join(kept, "/")
	if slash {
		clean += "/"
	}
	return clean
}

// isClean avoids the work for most paths.
func isClean(p string) bool {
	return p != "" && p[0] == '/' && !strings.Contains(p, "//") && !strings.Contains(p, "/.")
}

// trimSlash removes one trailing slash, except from the root.
func trimSlash(p string) string {
	if len(p) > 1 {
		return strings.TrimSuffix(p, "/")
	}
	return p
}

// segments splits a clean path. A trailing slash is an empty last segment; the root is that segment alone.
func segments(clean string) []string { return strings.Split(clean[1:], "/") }

// Kinds of segments, in the order of the search.
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

// pattern is the parsed argument of Path or PathSubtree.
type pattern struct {
	segments []string // without the free wildcard at the end of a subtree
	subtree  bool
	rest     string // name of the rest of the path, for a subtree or a free wildcard
	dead     bool   // has : or * inside a segment: the route is valid but matches nothing
	wrong    error  // nil, or errFreeNotLast
}

var errFreeNotLast = errors.New("free wildcard param should be last")

// parsePattern parses a pattern. An invalid one ends at its free wildcard.
func parsePattern(text string, subtree, ignoreSlash bool) pattern {
	clean := cleanPath(text)
	if ignoreSlash && !subtree {
		clean = trimSlash(clean)
	}
	p := pattern{segments: segments(clean), subtree: subtree, rest: "*"}
	for i, s := range p.segments {
		switch {
		case kindOf(s) == free:
			if i < len(p.segments)-1 {
				p.segments, p.wrong = p.segments[:i+1], errFreeNotLast
			}
			if name := strings.TrimLeft(s, "*"); name != "" {
				p.rest = name
			}
		case kindOf(s) == literal && strings.ContainsAny(s, ":*"):
			p.dead = true
		}
		if p.wrong != nil {
			break
		}
	}
	if subtree {
		if last := len(p.segments) - 1; kindOf(p.segments[last]) == free || p.segments[last] == "" {
			p.segments = p.segments[:last]
		}
	}
	return p
}

// params returns the values of the wildcards for a path that the pattern matches. Of wildcards with the same name the first one
// counts.
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

// shared says how much of a path agrees with the pattern: leading segments, then letters of the next one.
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
