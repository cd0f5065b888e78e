package eskip_test

import (
	"fmt"
	"regexp"

	"github.com/routesrv/routesrv/eskip"
)

func ExampleParse() {
	routes, err := eskip.Parse(`
		// all that is not taken by another route
		rest: * -> status(404) -> <shunt>;

		shop: Host(/^shop[.]example[.]org$/) && PathSubtree("/")
			-> setRequestHeader("X-Shop", "1")
			-> <roundRobin, "http://10.2.0.7:8080?zone=a", "http://10.2.0.8:8080?zone=b">;
	`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range routes {
		fmt.Println(r.Id, r.HostRegexps, r.Predicates, r.Filters, r.BackendType)
	}
	fmt.Println(routes[1].LBEndpoints[0].Address, "in zone", routes[1].LBEndpoints[0].Zone)
	// Output:
	// rest [] [] [status(404)] shunt
	// shop [^shop[.]example[.]org$] [PathSubtree("/")] [setRequestHeader("X-Shop", "1")] lb
	// http://10.2.0.7:8080 in zone a
}

func ExampleParse_error() {
	_, err := eskip.Parse(`r1: Path("/foo") -> <shunt>; r2: Path("/bar") -> #`)
	fmt.Println(err)
	// Output:
	// parse failed after token ->, last route id: r2, position 49: syntax error
}

func ExampleString() {
	routes := eskip.MustParse("b : * -> f( 007, .50 )-> <shunt> ; a:Any()->`http://x`")
	fmt.Println(eskip.String(routes...))
	// Output:
	// b: * -> f(7, 0.5) -> <shunt>;
	// a: * -> "http://x";
}

func ExamplePrint() {
	routes := eskip.MustParse(`
		route1: Method("GET") -> filter("expression") -> <shunt>;
		route2: Path("/some/path") -> "https://www.example.org";
	`)
	fmt.Println(eskip.Print(eskip.PrettyPrintInfo{Pretty: true, IndentStr: "  "}, routes...))
	// Output:
	// route1: Method("GET")
	//   -> filter("expression")
	//   -> <shunt>;
	//
	// route2: Path("/some/path")
	//   -> "https://www.example.org";
}

func ExampleEq() {
	x := eskip.MustParse(`Path("/x") && Host(/y/) -> <random, "http://a", "http://b">`)[0]
	y := eskip.MustParse(`Host(/y/) && Path("/x") -> <random, "http://b", "http://a">`)[0]
	z := eskip.MustParse(`Host(/y/) -> <random, "http://a", "http://b">`)[0]
	fmt.Println(eskip.Eq(x, y), eskip.Eq(x, z))
	// Output:
	// true false
}

func ExampleAppendExpr() {
	r := eskip.MustParse(`shop: Path("/") -> f() -> <random, "http://10.2.0.7", "http://10.2.0.8">`)[0]
	text, backend := eskip.AppendExpr(nil, r)
	fmt.Println("expression:", string(text))
	fmt.Println("backend:", string(text[backend:]))
	// Output:
	// expression: Path("/") -> f() -> <random, "http://10.2.0.7", "http://10.2.0.8">
	// backend: <random, "http://10.2.0.7", "http://10.2.0.8">
}

func ExampleEditor() {
	routes := eskip.MustParse(`z: Z() && Host(/^(a[.]b\/x)$/) && Path("/p") -> f() -> <shunt>`)
	editor := eskip.NewEditor(regexp.MustCompile(`Host[(](.*)[)]`), `HostAny($1)`)
	fmt.Println(eskip.String(editor.Do(routes)...))
	// Output:
	// z: HostAny("^(a[.]b/x)$") && Path("/p") && Z() -> f() -> <shunt>;
}

func ExampleTemplate_Apply() {
	page := eskip.NewTemplate("/${lang}/index.html")
	fmt.Println(page.Apply(func(key string) string {
		return map[string]string{"lang": "en"}[key]
	}))
	// Output:
	// /en/index.html
}

func ExampleRoute_MarshalJSON() {
	r := eskip.MustParse(`shop: PathSubtree("/") -> setPath("/x") -> <random, "http://10.2.0.7?zone=a">`)[0]
	text, err := r.MarshalJSON()
	fmt.Println(string(text), err)
	// Output:
	// {"id":"shop","backend":{"type":"lb","algorithm":"random","endpoints":["http://10.2.0.7?zone=a"]},"predicates":[{"name":"PathSubtree","args":["/"]}],"filters":[{"name":"setPath","args":["/x"]}]} <nil>
}
