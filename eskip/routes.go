package eskip

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	errMixedProtocols  = errors.New("loadbalancer endpoints cannot have mixed protocols")
	errDuplicatePath   = errors.New("duplicate path tree predicate")
	errDuplicateMethod = errors.New("duplicate method predicate")
)

type meaning struct {
	path, method bool   // the predicate is present, possibly with an empty argument
	scheme       string // of the previous endpoint
	endpointErr  error  // the first one
	predicateErr error  // the first one
}

func (p *parser) addRoutePredicate(r *Route, called token, m *meaning) error {
	name, args := p.raw(called), 1
	switch name {
	case "Any":
		return nil
	case "Path", "Host", "PathRegexp", "Method":
	case "Header", "HeaderRegexp":
		args = 2
	default:
		r.Predicates = append(r.Predicates, p.call(called))
		return nil
	}
	switch {
	case name == "Path" && m.path:
		return errDuplicatePath
	case name == "Method" && m.method:
		return errDuplicateMethod
	}
	if err := p.wantStrings(r, name, args); err != nil {
		return err
	}
	switch text := p.text(p.args[0]); name {
	case "Path":
		r.Path, m.path = text, true
	case "Host":
		r.HostRegexps = append(r.HostRegexps, text)
	case "PathRegexp":
		r.PathRegexps = append(r.PathRegexps, text)
	case "Method":
		r.Method, m.method = text, true
	case "Header":
		return addHeader(r, text, p.text(p.args[1]))
	case "HeaderRegexp":
		if r.HeaderRegexps == nil {
			r.HeaderRegexps = make(map[string][]string)
		}
		r.HeaderRegexps[text] = append(r.HeaderRegexps[text], p.text(p.args[1]))
	}
	return nil
}

func (p *parser) wantStrings(r *Route, name string, n int) error {
	ok := len(p.args) == n
	for _, a := range p.args {
		ok = ok && a.kind != tokNumber
	}
	if ok {
		return nil
	}
	plural := ""
	if n != 1 {
		plural = "s"
	}
	return fmt.Errorf("invalid route %q: %s predicate expects %d string argument%s", r.Id, name, n, plural)
}

func addHeader(r *Route, key, value string) error {
	if _, ok := r.Headers[key]; ok {
		return fmt.Errorf("duplicate header predicate: %s", key)
	}
	if r.Headers == nil {
		r.Headers = make(map[string]string)
	}
	r.Headers[key] = value
	return nil
}

func (p *parser) addEndpoint(r *Route, t token, m *meaning) {
	text := p.text(t)
	scheme, err := endpointScheme(text)
	if err == nil && m.scheme != "" && scheme != m.scheme {
		err = errMixedProtocols
	}
	m.scheme = scheme // endpoints without a scheme may come first, as in the reference
	if m.endpointErr == nil {
		m.endpointErr = err
	}
	ep := p.memory.endpoints.next()
	ep.Address, ep.Zone = splitZone(text)
	r.LBEndpoints = append(r.LBEndpoints, ep)
}

func (p *parser) arguments(to []interface{}) []interface{} {
	to = slices.Grow(to, len(p.args))
	for _, t := range p.args {
		if t.kind == tokNumber {
			n, _ := strconv.ParseFloat(p.raw(t), 64) // the only possible error is out of range, for which the value is an infinity
			to = append(to, n)
		} else {
			to = append(to, p.text(t))
		}
	}
	return to
}

func (p *parser) text(t token) string {
	switch raw := p.raw(t); {
	case t.escaped:
		return unescape(t.kind, p.src[t.start-1], raw)
	case p.copies:
		return strings.Clone(raw)
	default:
		return raw
	}
}
