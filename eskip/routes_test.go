package eskip_test

import (
	"reflect"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestPredicatesGoToTheirFields(t *testing.T) {
	got := eskip.MustParse(`r: Weight(5) && Host(/a/) && Path("/p") && Host("b") && PathRegexp(/c/) && PathRegexp("d") && Method("GET")` +
		` && Header("K", "v") && Header("k", "v") && HeaderRegexp("K", /y/) && HeaderRegexp("K", "x") && * && Any() && PathSubtree("/")` +
		` && path("/x") -> f() -> g(1, "a", /b/) -> "http://x"`)
	want := []*eskip.Route{{
		Id:            "r",
		Path:          "/p",
		HostRegexps:   []string{"a", "b"},
		PathRegexps:   []string{"c", "d"},
		Method:        "GET",
		Headers:       map[string]string{"K": "v", "k": "v"},
		HeaderRegexps: map[string][]string{"K": {"y", "x"}},
		Predicates: []*eskip.Predicate{
			{Name: "Weight", Args: []interface{}{5.0}},
			{Name: "PathSubtree", Args: []interface{}{"/"}},
			{Name: "path", Args: []interface{}{"/x"}},
		},
		Filters: []*eskip.Filter{{Name: "f"}, {Name: "g", Args: []interface{}{1.0, "a", "b"}}},
		Backend: "http://x",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got[0], want[0])
	}
}

func TestBackendsHaveTheirFields(t *testing.T) {
	for text, want := range map[string]eskip.Route{
		`<shunt>`:       {BackendType: eskip.ShuntBackend, Shunt: true},
		`<loopback>`:    {BackendType: eskip.LoopBackend},
		`<dynamic>`:     {BackendType: eskip.DynamicBackend},
		`<forward>`:     {BackendType: eskip.ForwardBackend},
		`"not checked"`: {BackendType: eskip.NetworkBackend, Backend: "not checked"},
		`<roundRobin, "http://a?zone=z", "http://b">`: {
			BackendType: eskip.LBBackend,
			LBAlgorithm: "roundRobin",
			LBEndpoints: []*eskip.LBEndpoint{{Address: "http://a", Zone: "z"}, {Address: "http://b"}},
		},
		`<"http://a">`: {BackendType: eskip.LBBackend, LBEndpoints: []*eskip.LBEndpoint{{Address: "http://a"}}},
	} {
		if got := eskip.MustParse("* -> " + text)[0]; !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: got %+v, want %+v", text, *got, want)
		}
	}
}

func TestWhatIsNotThereIsNil(t *testing.T) {
	if got, want := eskip.MustParse("* && Any() -> <dynamic>")[0], (eskip.Route{BackendType: eskip.DynamicBackend}); !reflect.DeepEqual(*got, want) {
		t.Errorf("got %#v, want %#v", *got, want)
	}
	f := eskip.MustParseFilters("f()")[0]
	if f.Args != nil {
		t.Errorf("no arguments: got %#v, want nil", f.Args)
	}
}

func TestMeaninglessRoutesAreErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`* -> <"x">`, `parse "x": invalid URI for request`},
		{`* -> <"">`, `parse "": empty url`},
		{`* -> <"10.0.0.1:80">`, `parse "10.0.0.1:80": invalid URI for request`},
		{`* -> <"http://a", "https://b">`, `loadbalancer endpoints cannot have mixed protocols`},
		{`* -> <"http://b", "/a">`, `loadbalancer endpoints cannot have mixed protocols`},
		{`* -> <"//a", "http://b", "/c">`, `loadbalancer endpoints cannot have mixed protocols`},
		{`* -> <"//a", "http://b", "https://c">`, `loadbalancer endpoints cannot have mixed protocols`},
		{`* -> <"http://a", "https://b", "x">`, `loadbalancer endpoints cannot have mixed protocols`},
		{`* -> <"http://a", "x", "https://b">`, `parse "x": invalid URI for request`},
		{`Path("/a") && Path("/b") -> <shunt>`, `duplicate path tree predicate`},
		{`Path("") && Path("/b") -> <shunt>`, `duplicate path tree predicate`},
		{`Method("GET") && Method("PUT") -> <shunt>`, `duplicate method predicate`},
		{`Method("") && Method("PUT") -> <shunt>`, `duplicate method predicate`},
		{`Header("a", "b") && Header("a", "c") -> <shunt>`, `duplicate header predicate: a`},
		{`Path() -> <shunt>`, `invalid route "": Path predicate expects 1 string argument`},
		{`r: Path("a", "b") -> <shunt>`, `invalid route "r": Path predicate expects 1 string argument`},
		{`r: Path(1) -> <shunt>`, `invalid route "r": Path predicate expects 1 string argument`},
		{`r: Host(1) -> <shunt>`, `invalid route "r": Host predicate expects 1 string argument`},
		{`r: PathRegexp() -> <shunt>`, `invalid route "r": PathRegexp predicate expects 1 string argument`},
		{`r: Method("a", 1) -> <shunt>`, `invalid route "r": Method predicate expects 1 string argument`},
		{`r: Header("a") -> <shunt>`, `invalid route "r": Header predicate expects 2 string arguments`},
		{`r: HeaderRegexp("a", 1) -> <shunt>`, `invalid route "r": HeaderRegexp predicate expects 2 string arguments`},

		// the first error wins: routes in order, endpoints before predicates
		{`r: Path() && Method() -> <"x">`, `parse "x": invalid URI for request`},
		{`r: Method() && Path() -> <shunt>`, `invalid route "r": Method predicate expects 1 string argument`},
		{`r: Path() -> <shunt>; s: * -> <"x">`, `invalid route "r": Path predicate expects 1 string argument`},
		// and a syntax error takes precedence over all
		{`r: Path() -> <"x">; s: #`, `parse failed after token :, last route id: s, position 23: syntax error`},
	} {
		routes, err := eskip.Parse(c.text)
		if err == nil || err.Error() != c.want || routes != nil {
			t.Errorf("%s:\n got %v, %v\nwant nil, %s", c.text, routes, err, c.want)
		}
	}
}
