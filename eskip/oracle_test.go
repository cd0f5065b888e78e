package eskip

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// This file is a second implementation of lexer, grammar and meaning, with which tests compare the real one. It is written to be
// obviously right: all tokens are cut first, the grammar is a table of states, and it shares nothing with the package but the
// types of the result and newLBEndpoint.

// oracleToken is a token, the end of the input, or text that cannot be a token.
type oracleToken struct {
	kind  string // "symbol", "number", "string", "regexp", "incomplete" (number), "end", "error", or the text of a fixed token
	text  string // as an error message shows it
	end   int    // offset after it; of an error its position
	cause string // of an error
}

var (
	oracleSpace  = regexp.MustCompile("^(?:[ \n\t\v\f\r]|//[^\n]*)")
	oracleSymbol = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	oracleNumber = regexp.MustCompile(`^-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]*)`)
	oracleFixed  = []string{
		"<shunt>", "<loopback>", "<dynamic>", "<forward>", "&&", "*", "->", ")", ":", ",", "(", ";", "<", ">",
	}
)

// oracleTokens returns all tokens of s up to its end or to the first error.
func oracleTokens(s string) []oracleToken {
	var tokens []oracleToken
	pos := 0
	for {
		for {
			if pos < len(s) && (s[pos] == 0x85 || s[pos] == 0xa0) {
				pos++
			} else if m := oracleSpace.FindString(s[pos:]); m != "" {
				pos += len(m)
			} else {
				break
			}
		}
		t := oracleNext(s, pos)
		tokens = append(tokens, t)
		if t.kind == "end" || t.kind == "error" {
			return tokens
		}
		pos = t.end
	}
}

func oracleNext(s string, pos int) oracleToken {
	rest := s[pos:]
	if rest == "" {
		return oracleToken{kind: "end", end: pos}
	}
	for _, f := range oracleFixed {
		if strings.HasPrefix(rest, f) {
			return oracleToken{kind: f, text: f, end: pos + len(f)}
		}
	}
	if m := oracleSymbol.FindString(rest); m != "" {
		return oracleToken{kind: "symbol", text: m, end: pos + len(m)}
	}
	if m := oracleNumber.FindString(rest); m != "" {
		if strings.HasSuffix(m, ".") {
			return oracleToken{kind: "incomplete", end: pos + len(m)}
		}
		return oracleToken{kind: "number", text: m, end: pos + len(m)}
	}
	switch {
	case rest == "/":
		return oracleToken{kind: "error", end: pos, cause: "invalid character"}
	case rest[0] == '/' || rest[0] == '"' || rest[0] == '`':
		return oracleLiteral(s, pos)
	default:
		return oracleToken{kind: "error", end: pos, cause: "unexpected token"}
	}
}

// oracleLiteral reads a string or regexp, byte by byte.
func oracleLiteral(s string, pos int) oracleToken {
	delimiter, kind := s[pos], "string"
	if delimiter == '/' {
		kind = "regexp"
	}
	control := map[byte]string{'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}
	var value strings.Builder
	inClass := false
	for i := pos + 1; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			switch e, ok := control[s[i]]; {
			case s[i] == '\\' || s[i] == delimiter:
				value.WriteByte(s[i])
			case ok && kind == "string":
				value.WriteString(e)
			default:
				value.WriteString(s[i-1 : i+1])
			}
			continue
		}
		if c == delimiter && !inClass {
			return oracleToken{kind: kind, text: value.String(), end: i + 1}
		}
		if kind == "regexp" {
			inClass = c == '[' || inClass && c != ']'
		}
		value.WriteByte(c)
	}
	return oracleToken{kind: "error", end: len(s), cause: "incomplete token"}
}

// oracleGrammar has for each state the tokens that may follow, and the states that they lead to. A list of arguments returns to
// "predicate" or "filter", depending on what it belongs to.
var oracleGrammar = map[string]map[string]string{
	"document":   {";": "routes", "symbol": "name", "*": "predicate"},
	"routes":     {";": "routes", "symbol": "id"},
	"name":       {":": "route", "(": "args"},
	"id":         {":": "route"},
	"route":      {"symbol": "call", "*": "predicate"},
	"predicates": {"symbol": "call", "*": "predicate"},
	"filters":    {"symbol": "call"},
	"call":       {"(": "args"},
	"args":       {")": "called", ",": "arg", "string": "argEnd", "regexp": "argEnd", "number": "argEnd"},
	"arg":        {"string": "argEnd", "regexp": "argEnd", "number": "argEnd"},
	"argEnd":     {",": "arg", ")": "called"},
	"predicate":  {"&&": "route", "->": "target"},
	"filter":     {"->": "target"},
	"target": {"symbol": "call", "string": "end", "<shunt>": "end", "<loopback>": "end", "<dynamic>": "end",
		"<forward>": "end", "<": "lb"},
	"lb":          {"symbol": "algorithm", "string": "endpointEnd"},
	"algorithm":   {",": "endpoint"},
	"endpoint":    {"string": "endpointEnd"},
	"endpointEnd": {",": "endpoint", ">": "end"},
}

// parsedRoute is a route as written.
type parsedRoute struct {
	id                                           string
	predicates                                   []*Predicate
	filters                                      []*Filter
	shunt, loopback, dynamic, lbBackend, forward bool
	backend                                      string
	lbAlgorithm                                  string
	lbEndpoints                                  []*LBEndpoint

	endpointTexts []string
}

// oracle runs the table over the tokens of s. The kind of text decides what may end, and where.
func oracle(s, start string) ([]*parsedRoute, error) {
	var (
		routes       []*parsedRoute
		r            *parsedRoute
		state        = start
		inFilter     = start == "filters"
		bare         = true
		last, lastID string
		name         string
		args         []interface{}
		passed       error // of an incomplete number
	)
	failure := func(last, id string, pos int, reason string) error {
		if id != "" {
			id = ", last route id: " + id
		}
		return fmt.Errorf("parse failed after token %s%s, position %d: %s", last, id, pos, reason)
	}
	if start != "document" {
		r = &parsedRoute{}
		routes = append(routes, r)
	}
	for _, t := range oracleTokens(s) {
		mayEnd := state == start || state == "routes" || state == "end" ||
			start == "predicates" && state == "predicate" || start == "filters" && state == "filter"
		if t.kind == "incomplete" { // what follows is read as if it were not there
			passed = failure(last, lastID, t.end, "incomplete token")
			continue
		}
		if t.kind == "end" && mayEnd {
			if passed != nil {
				return nil, passed
			}
			return routes, nil
		}
		if t.kind != "end" && t.kind != "error" {
			last = t.text
		}
		next := oracleGrammar[state][t.kind]
		switch {
		case state == "end" && t.kind == ";" && !bare:
			next = "routes"
		case start == "predicates" && state == "predicate" && t.kind == "->":
			next = ""
		case start == "predicates" && next == "route":
			next = "predicates2"
		case start == "filters" && next == "target":
			next = "filters2"
		case state == "predicates2":
			next = oracleGrammar["predicates"][t.kind]
		case state == "filters2":
			next = oracleGrammar["filters"][t.kind]
		}
		if next == "" {
			reason := "syntax error"
			if t.kind == "error" && mayEnd {
				reason = t.cause
			}
			return nil, failure(last, lastID, t.end, reason)
		}

		// The meaning of the token.
		if start == "document" && (state == "document" || state == "routes") && t.kind != ";" {
			r = &parsedRoute{}
			routes = append(routes, r)
			inFilter = false
		}
		switch t.kind {
		case "symbol":
			name, args = t.text, nil
			if state == "lb" {
				r.lbAlgorithm = t.text
			}
		case ":":
			r.id, lastID, bare = name, name, false
		case "*":
			r.predicates = append(r.predicates, &Predicate{Name: "*"})
		case "number":
			v, _ := strconv.ParseFloat(t.text, 64)
			args = append(args, v)
		case "regexp":
			args = append(args, t.text)
		case "string":
			switch {
			case next == "argEnd":
				args = append(args, t.text)
			case next == "endpointEnd":
				r.lbBackend = true
				r.endpointTexts = append(r.endpointTexts, t.text)
				r.lbEndpoints = append(r.lbEndpoints, NewLBEndpoints([]string{t.text})[0])
			default:
				r.backend = t.text
			}
		case ")":
			if inFilter {
				r.filters = append(r.filters, &Filter{Name: name, Args: args})
				next = "filter"
			} else {
				r.predicates = append(r.predicates, &Predicate{Name: name, Args: args})
				next = "predicate"
			}
		case "->":
			inFilter = true
		case "<shunt>":
			r.shunt = true
		case "<loopback>":
			r.loopback = true
		case "<dynamic>":
			r.dynamic = true
		case "<forward>":
			r.forward = true
		}
		state = next
	}
	panic("unreachable: the last token is the end or an error")
}

func parseDocument(code string) ([]*parsedRoute, error) { return oracle(code, "document") }

// oracleParse mirrors Parse.
func oracleParse(code string) ([]*Route, error) {
	parsed, err := parseDocument(code)
	if err != nil {
		return nil, err
	}
	routes := []*Route{}
	for _, p := range parsed {
		r, err := p.route()
		if err != nil {
			return nil, err
		}
		routes = append(routes, r)
	}
	return routes, nil
}

// oraclePredicates mirrors ParsePredicates.
func oraclePredicates(text string) ([]*Predicate, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	parsed, err := oracle(text, "predicates")
	if err != nil {
		return nil, err
	}
	var out []*Predicate
	for _, p := range parsed[0].predicates {
		if p.Name != "*" {
			out = append(out, p)
		}
	}
	return out, nil
}

// oracleFilters mirrors ParseFilters.
func oracleFilters(text string) ([]*Filter, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	parsed, err := oracle(text, "filters")
	if err != nil {
		return nil, err
	}
	return parsed[0].filters, nil
}

// route derives the route from what was written.
func (p *parsedRoute) route() (*Route, error) {
	r := &Route{Id: p.id, Filters: p.filters, Shunt: p.shunt, Backend: p.backend, LBAlgorithm: p.lbAlgorithm}
	switch {
	case p.shunt:
		r.BackendType = ShuntBackend
	case p.loopback:
		r.BackendType = LoopBackend
	case p.dynamic:
		r.BackendType = DynamicBackend
	case p.forward:
		r.BackendType = ForwardBackend
	case p.lbBackend:
		r.BackendType = LBBackend
		r.LBEndpoints = p.lbEndpoints
	}
	scheme := "" // endpoints without one may come first
	for _, text := range p.endpointTexts {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return nil, err
		}
		if scheme != "" && u.Scheme != scheme {
			return nil, fmt.Errorf("loadbalancer endpoints cannot have mixed protocols")
		}
		scheme = u.Scheme
	}
	paths, methods := 0, 0
	for _, q := range p.predicates {
		var strs []string
		for _, a := range q.Args {
			if s, ok := a.(string); ok {
				strs = append(strs, s)
			}
		}
		one, two := len(strs) == 1 && len(q.Args) == 1, len(strs) == 2 && len(q.Args) == 2
		switch q.Name {
		case "Path":
			if paths++; paths > 1 {
				return nil, fmt.Errorf("duplicate path tree predicate")
			}
		case "Method":
			if methods++; methods > 1 {
				return nil, fmt.Errorf("duplicate method predicate")
			}
		}
		switch q.Name {
		case "Path", "Host", "PathRegexp", "Method":
			if !one {
				return nil, fmt.Errorf("invalid route %q: %s predicate expects 1 string argument", p.id, q.Name)
			}
		case "Header", "HeaderRegexp":
			if !two {
				return nil, fmt.Errorf("invalid route %q: %s predicate expects 2 string arguments", p.id, q.Name)
			}
		}
		switch q.Name {
		case "*", "Any":
		case "Path":
			r.Path = strs[0]
		case "Host":
			r.HostRegexps = append(r.HostRegexps, strs[0])
		case "PathRegexp":
			r.PathRegexps = append(r.PathRegexps, strs[0])
		case "Method":
			r.Method = strs[0]
		case "Header":
			if _, ok := r.Headers[strs[0]]; ok {
				return nil, fmt.Errorf("duplicate header predicate: %s", strs[0])
			}
			if r.Headers == nil {
				r.Headers = map[string]string{}
			}
			r.Headers[strs[0]] = strs[1]
		case "HeaderRegexp":
			if r.HeaderRegexps == nil {
				r.HeaderRegexps = map[string][]string{}
			}
			r.HeaderRegexps[strs[0]] = append(r.HeaderRegexps[strs[0]], strs[1])
		default:
			r.Predicates = append(r.Predicates, q)
		}
	}
	return r, nil
}
