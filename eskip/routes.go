package eskip

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	errMixedProtocols  = errors.New("loadbalancer endpoints cannot have mixed protocols")
	errDuplicatePath   = errors.New("duplicate path tree predicate")
	errDuplicateMethod = errors.New("duplicate method predicate")
)

// meaning collects what is needed to check the meaning of a route after parsing it.
type meaning struct {
	path, method bool   // the predicate is present, possibly with an empty argument
	scheme       string // of the previous endpoint
	endpointErr  error  // the first one
	predicateErr error  // the first one
}

// err returns the error to report for the route. Errors of endpoints come first, although endpoints are last in the text.
func (m *meaning) err() error {
	if m.endpointErr != nil {
		return m.endpointErr
	}
	return m.predicateErr
}

// addRoutePredicate stores the predicate with the arguments p.args in r.
func (p *parser) addRoutePredicate(r *Route, called token, m *meaning) {
	var err error
	switch name := p.raw(called); name {
	case "Any":
	case "Path":
		if m.path {
			err = errDuplicatePath
		} else if err = p.wantStrings(r, name, 1); err == nil {
			r.Path, m.path = p.text(p.args[0]), true
		}
	case "Host":
		if err = p.wantStrings(r, name, 1); err == nil {
			r.HostRegexps = append(r.HostRegexps, p.text(p.args[0]))
		}
	case "PathRegexp":
		if err = p.wantStrings(r, name, 1); err == nil {
			r.PathRegexps = append(r.PathRegexps, p.text(p.args[0]))
		}
	case "Method":
		if m.method {
			err = errDuplicateMethod
		} else if err = p.wantStrings(r, name, 1); err == nil {
			r.Method, m.method = p.text(p.args[0]), true
		}
	case "Header":
		if err = p.wantStrings(r, name, 2); err == nil {
			err = p.addHeader(r)
		}
	case "HeaderRegexp":
		if err = p.wantStrings(r, name, 2); err == nil {
			p.addHeaderRegexp(r)
		}
	default:
		r.Predicates = append(r.Predicates, &Predicate{Name: p.text(called), Args: p.arguments()})
	}
	if m.predicateErr == nil {
		m.predicateErr = err
	}
}

// wantStrings returns an error unless p.args are n string or regexp literals.
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

func (p *parser) addHeader(r *Route) error {
	key, value := p.text(p.args[0]), p.text(p.args[1])
	if _, ok := r.Headers[key]; ok {
		return fmt.Errorf("duplicate header predicate: %s", key)
	}
	if r.Headers == nil {
		r.Headers = make(map[string]string)
	}
	r.Headers[key] = value
	return nil
}

func (p *parser) addHeaderRegexp(r *Route) {
	key := p.text(p.args[0])
	if r.HeaderRegexps == nil {
		r.HeaderRegexps = make(map[string][]string)
	}
	r.HeaderRegexps[key] = append(r.HeaderRegexps[key], p.text(p.args[1]))
}

// addEndpoint validates an endpoint and adds it to r.
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
	r.LBEndpoints = append(r.LBEndpoints, newLBEndpoint(text))
}

// arguments returns the values of p.args, nil if there are none.
func (p *parser) arguments() []interface{} {
	if len(p.args) == 0 {
		return nil
	}
	out := make([]interface{}, len(p.args))
	for i, t := range p.args {
		if t.kind == tokNumber {
			// The only possible error is out of range, for which the value is an infinity.
			out[i], _ = strconv.ParseFloat(p.raw(t), 64)
		} else {
			out[i] = p.text(t)
		}
	}
	return out
}

// text returns the text of a symbol, or the value of a string or regexp literal.
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
