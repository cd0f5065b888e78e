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
func (p *parser) addRoutePredicate(r *Route, name string, m *meaning) {
	var err error
	switch name {
	case "Any":
	case "Path":
		if m.path {
			err = errDuplicatePath
		} else if err = p.wantStrings(r, name, 1); err == nil {
			r.Path, m.path = p.literalText(p.args[0]), true
		}
	case "Host":
		if err = p.wantStrings(r, name, 1); err == nil {
			r.HostRegexps = p.addText(r.HostRegexps, p.args[0])
		}
	case "PathRegexp":
		if err = p.wantStrings(r, name, 1); err == nil {
			r.PathRegexps = p.addText(r.PathRegexps, p.args[0])
		}
	case "Method":
		if m.method {
			err = errDuplicateMethod
		} else if err = p.wantStrings(r, name, 1); err == nil {
			r.Method, m.method = p.literalText(p.args[0]), true
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
		p.addPredicate(name)
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
	key, value := p.literalText(p.args[0]), p.literalText(p.args[1])
	if _, ok := r.Headers[key]; ok {
		return fmt.Errorf("duplicate header predicate: %s", key)
	}
	if r.Headers == nil {
		r.Headers, p.headers = p.headers, nil
		if r.Headers == nil {
			r.Headers = make(map[string]string)
		}
	}
	r.Headers[key] = value
	return nil
}

func (p *parser) addHeaderRegexp(r *Route) {
	key := p.literalText(p.args[0])
	if r.HeaderRegexps == nil {
		r.HeaderRegexps = make(map[string][]string)
	}
	r.HeaderRegexps[key] = p.addText(r.HeaderRegexps[key], p.args[1])
}

// addText appends the value of a literal to a list, which has one element in nearly all routes.
func (p *parser) addText(list []string, t token) []string {
	s := p.literalText(t)
	if list == nil {
		return p.texts.one(s)
	}
	return append(list, s)
}

// addPredicate adds the predicate with the arguments p.args to p.preds.
func (p *parser) addPredicate(name string) {
	p.preds = append(p.preds, Predicate{Name: p.text(name), Args: p.takeArgs()})
}

// addEndpoint validates an endpoint and adds it to p.eps.
func (p *parser) addEndpoint(t token, m *meaning) {
	raw := p.raw(t)
	if t.escaped {
		raw = p.literalText(t)
	}
	scheme, err := endpointScheme(raw)
	if err == nil && m.scheme != "" && scheme != m.scheme {
		err = errMixedProtocols
	}
	m.scheme = scheme // endpoints without a scheme may come first, as in the reference
	if m.endpointErr == nil {
		m.endpointErr = err
	}
	address, zone := splitZone(raw)
	p.eps = append(p.eps, LBEndpoint{Address: p.text(address), Zone: p.text(zone)})
}

// takePredicates moves p.preds to their final place. It returns nil if there are none.
func (p *parser) takePredicates() []*Predicate {
	return moved(p.preds, &p.predicateItems, &p.predicateLists)
}

// takeFilters moves p.filts to their final place. It returns nil if there are none.
func (p *parser) takeFilters() []*Filter {
	return moved(p.filts, &p.filterItems, &p.filterLists)
}

// takeEndpoints moves p.eps to their final place.
func (p *parser) takeEndpoints() []*LBEndpoint {
	return moved(p.eps, &p.endpointItems, &p.endpointLists)
}

func moved[T any](from []T, items *slab[T], lists *slab[*T]) []*T {
	if len(from) == 0 {
		return nil
	}
	to, list := items.next(len(from)), lists.next(len(from))
	copy(to, from)
	for i := range to {
		list[i] = &to[i]
	}
	return list
}

// takeArgs returns the values of p.args, nil if there are none.
func (p *parser) takeArgs() []interface{} {
	if len(p.args) == 0 {
		return nil
	}
	out := p.arguments.next(len(p.args))
	for i, t := range p.args {
		switch {
		case t.kind == tokNumber:
			out[i] = number(p.raw(t))
		case t.escaped:
			out[i] = p.literalText(t)
		default:
			out[i] = p.boxed(p.raw(t))
		}
	}
	return out
}

// number returns the value of a number as an argument.
func number(s string) interface{} {
	if len(s) <= 3 && s[0] != '-' && strings.IndexByte(s, '.') < 0 {
		n := 0
		for i := range len(s) {
			n = 10*n + int(s[i]-'0')
		}
		if n < len(smallNumbers) {
			return smallNumbers[n]
		}
	}
	v, _ := strconv.ParseFloat(s, 64) // the only possible error is out of range, for which the value is an infinity
	return v
}

// literalText returns the value of a string or regexp literal.
func (p *parser) literalText(t token) string {
	if !t.escaped {
		return p.text(p.raw(t))
	}
	b := p.room(t.end - t.start)
	n := b.Len()
	unescape(b, t.kind, p.src[t.start-1], p.raw(t))
	return b.String()[n:]
}
