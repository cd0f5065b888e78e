package eskip_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

// generator makes routes that a program can build and that the language can express, with values of all bytes.
type generator struct{ *rand.Rand }

func (g generator) one(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) text() string {
	if g.IntN(2) == 0 {
		return g.one("", "/a/b", "^a[.]b$", `\[`, `[/]`, `a\nb`, "[[", "]", "é", `\`, `\\`, `"`, "`", "//", "/", "\n", "a -> b;", "*", "\x00", "\xff")
	}
	var b strings.Builder
	for range g.IntN(8) {
		b.WriteString(g.one("a", "B", "/", `\`, `"`, "`", "[", "]", "\n", "\v", "\a", "$", ".", "é", "\xc3", " ", ";"))
	}
	return b.String()
}

func (g generator) args() []interface{} {
	var args []interface{}
	for range g.IntN(4) {
		if g.IntN(2) == 0 {
			args = append(args, g.text())
			continue
		}
		args = append(args, []float64{
			0, 1, -1, 308, 511, 512, 0.5, 1e-9, 1234567.5, 1e21, 1 << 53, 1<<53 + 2, -0.1, g.Float64(), g.NormFloat64() * 1e9, float64(g.Int64()),
		}[g.IntN(16)])
	}
	return args
}

func (g generator) route(id string) *eskip.Route {
	r := &eskip.Route{Id: id}
	if g.IntN(3) == 0 {
		r.Path = g.text()
	}
	if g.IntN(3) == 0 {
		r.Method = g.text()
	}
	for range g.IntN(3) {
		r.HostRegexps = append(r.HostRegexps, g.text())
	}
	for range g.IntN(2) {
		r.PathRegexps = append(r.PathRegexps, g.text())
	}
	for range g.IntN(3) {
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers[g.text()] = g.text()
	}
	for range g.IntN(4) {
		if r.HeaderRegexps == nil {
			r.HeaderRegexps = map[string][]string{}
		}
		k := g.text()
		r.HeaderRegexps[k] = append(r.HeaderRegexps[k], g.text())
	}
	for range g.IntN(3) {
		r.Predicates = append(r.Predicates, &eskip.Predicate{Name: g.one("Weight", "PathSubtree", "_", "x9"), Args: g.args()})
	}
	for range g.IntN(4) {
		r.Filters = append(r.Filters, &eskip.Filter{Name: g.one("setPath", "status", "Path", "Any", "f_1"), Args: g.args()})
	}
	g.backend(r)
	return r
}

func (g generator) backend(r *eskip.Route) {
	r.BackendType = eskip.BackendType(g.IntN(6))
	switch r.BackendType {
	case eskip.NetworkBackend:
		r.Backend = g.text()
	case eskip.ShuntBackend:
		r.Shunt = true
	case eskip.LBBackend:
		r.LBAlgorithm = g.one("", "random", "shunt", "roundRobin")
		scheme := g.one("http", "https", "fastcgi")
		for range 1 + g.IntN(4) {
			address := scheme + "://" + g.one("a", "10.0.0.1:80", "[::1]:80", "a/b\"c", `a/b\c`, "a/%2f", "a?b=c", "a/?", "é")
			r.LBEndpoints = append(r.LBEndpoints, &eskip.LBEndpoint{Address: address, Zone: g.one("", "eu-1a", "a b", "a&b", "ü")})
			if strings.HasSuffix(address, "/?") || strings.Contains(address, `"`) || strings.Contains(address, `\`) {
				r.LBEndpoints[len(r.LBEndpoints)-1].Zone = "" // a parsed URL would print differently
			}
			if strings.Contains(address, "é") {
				r.LBEndpoints[len(r.LBEndpoints)-1].Zone = ""
			}
		}
	}
}

func TestRoutesOfProgramsSurvivePrintingAndParsing(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(7, 8))}
	for range 1_000 {
		var routes []*eskip.Route
		for _, id := range []string{"a", "b", "c"}[:1+g.IntN(3)] {
			routes = append(routes, g.route(id))
		}
		text := eskip.String(routes...)
		parsed, err := eskip.Parse(text)
		if err != nil {
			t.Fatalf("%s\ndoes not parse: %v", text, err)
		}
		if !slices.EqualFunc(routes, parsed, func(a, b *eskip.Route) bool { return eskip.Equivalent(a, b) && eskip.Equivalent(b, a) }) {
			t.Fatalf("%s\nreads as something else:\n%s", text, eskip.String(parsed...))
		}
		// A second pass changes nothing at all, except where printing has sorted.
		for _, r := range parsed {
			for _, v := range r.HeaderRegexps {
				slices.Sort(v)
			}
		}
		again := eskip.MustParse(eskip.String(parsed...))
		for _, r := range again {
			for _, v := range r.HeaderRegexps {
				slices.Sort(v)
			}
		}
		if !reflect.DeepEqual(parsed, again) {
			t.Fatalf("%s\nis not the identity on what was parsed", text)
		}
	}
}

func TestTextWithZonesAndRegexpsSurvivesByteForByte(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(9, 10))}
	for range 1_000 {
		first := eskip.String(eskip.MustParse(g.route("r").String())...)
		if second := eskip.String(eskip.MustParse(first)...); first != second {
			t.Fatalf("printing is no fixed point:\n%s\n%s", first, second)
		}
	}
}
