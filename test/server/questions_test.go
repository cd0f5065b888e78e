package server_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/explain"
)

const questioned = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: cart, namespace: shop}
spec: {rules: [{host: shop.example.org, http: {paths: [{path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {name: htp}}}}]}}]}
---
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: search, namespace: shop}
spec:
  hosts: [shop.example.org, search.example.org]
  backends: [{name: s, type: shunt}]
  routes: [{pathSubtree: /search, backends: [{backendName: s}], methods: [GET]}]
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{name: http, port: 80, targetPort: 80}]}
`

func TestExplainOverHTTP(t *testing.T) {
	f := start(t, questioned, nil)
	f.polled()
	for _, c := range []struct {
		query, first string
		status       int
	}{
		{"kind=ingress&namespace=shop&name=cart", `Ingress shop/cart: Service "cart" has no port "htp", only 80 ("http"), so requests are answered with 502.`, 200},
		{"kind=rg&namespace=shop&name=search", "RouteGroup shop/search is served: 1 route for shop.example.org, search.example.org.", 200},
		{"host=search.example.org", "Host search.example.org is served by RouteGroup shop/search.", 200},
		{"route=kube_rg__shop__search__get__0_0", "RouteGroup shop/search is served: 1 route for shop.example.org, search.example.org.", 200},
		{"kind=ingress&namespace=shop&name=carts", "There is no Ingress shop/carts among what the route server reads.", 404},
		{"kind=pod&namespace=shop&name=cart", `"pod": must be ingress or routegroup`, 400},
		{"", `"": must be ingress or routegroup`, 400},
		{"route=a%20b", `"a b": must be KIND NAMESPACE/NAME, the id of a route, or a host such as shop.example.org`, 400},
	} {
		got := f.request("GET", f.support, "/explain?"+c.query)
		if first, _, _ := strings.Cut(got.body, "\n"); got.status != c.status || first != c.first {
			t.Errorf("%s: status %d, %s\nwant %d, %s", c.query, got.status, first, c.status, c.first)
		}
	}
	for _, how := range []struct{ query, accept string }{{"&format=json", "text/plain"}, {"", "application/json"}} {
		got := f.request("GET", f.support, "/explain?kind=ingress&namespace=shop&name=cart"+how.query, "Accept: "+how.accept)
		var e explain.Explanation
		if err := json.Unmarshal([]byte(got.body), &e); err != nil || e.Schema != explain.Schema || e.Objects[0].Problems[0].Since == nil {
			t.Errorf("%+v: %v, %s", how, err, got.body)
		}
	}
}

func TestMatchOverHTTP(t *testing.T) {
	f := start(t, questioned, nil)
	f.polled()
	ask := func(parameters ...string) sent {
		q := url.Values{}
		for i := 0; i < len(parameters); i += 2 {
			q.Add(parameters[i], parameters[i+1])
		}
		return f.request("GET", f.support, "/match?"+q.Encode())
	}
	const https = "X-Forwarded-Proto: https"
	for _, c := range []struct {
		parameters []string
		status     int
		want       string
	}{
		{[]string{"url", "https://search.example.org/search/x", "header", https}, 200, "\nroute kube_rg__shop__search__get__0_0\n"},
		{[]string{"url", "/search", "header", "Host: search.example.org", "header", https}, 200, "\nroute kube_rg__shop__search__get__0_0\n"},
		{[]string{"url", "https://SEARCH.example.org/search", "normalize-host", "true"}, 200, "\nroute kube_rg__shop__search__get__0_0\n"},
		{[]string{"url", "https://search.example.org/search", "method", "POST"}, 200, "lost: Method(\"GET\")"},
		{[]string{"url", "https://other.example.org/search"}, 404, "\nno route: the proxy answers 404"},
		{[]string{"url", "https://shop.example.org/cart"}, 200, "status(502)"},
		{[]string{"url", "https://search.example.org/search", "format", "json"}, 200, `"result": "match"`},
		{nil, 400, "url= must be set"},
		{[]string{"url", "search"}, 400, `url="search": must be the URL of a request`},
		{[]string{"url", "https://a/", "header", "x"}, 400, `header="x": must be a header`},
		{[]string{"url", "https://a/", "from", "me"}, 400, `from="me": must be the IP address`},
		{[]string{"url", "https://a/", "at", "noon"}, 400, `at="noon": must be a time`},
		{[]string{"url", "https://a/", "method", "A B"}, 400, `must be a method`},
		{[]string{"url", "https://a/", "rfc-patch-path", "maybe"}, 400, `rfc-patch-path="maybe": must be true or false`},
	} {
		if got := ask(c.parameters...); got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%q: status %d, %s\nwant %d, %s", c.parameters, got.status, got.body, c.status, c.want)
		}
	}
	many := []string{"url", "https://a/"}
	for range 65 {
		many = append(many, "header", "a: b")
	}
	if got := ask(many...); got.status != 400 {
		t.Errorf("65 headers: status %d, want 400", got.status)
	}
}

// TestQuestionsBeforeTheFirstTable: the answer is that nothing is known yet.
func TestQuestionsBeforeTheFirstTable(t *testing.T) {
	f := start(t, "", nil)
	f.polled()
	if got := f.request("GET", f.support, "/match?url=http://a/"); got.status != 503 && got.status != 404 {
		t.Errorf("/match: status %d %s", got.status, got.body)
	}
	if got := f.request("GET", f.support, "/explain?host=a.example.org"); got.status != 404 {
		t.Errorf("/explain: status %d %s", got.status, got.body)
	}
}
