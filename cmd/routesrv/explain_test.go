package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/explain"
)

const wrongPort = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: cart, namespace: shop}
spec: {rules: [{host: shop.example.org, http: {paths: [{path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {name: htp}}}}]}}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{name: http, port: 80, targetPort: 80}]}
`

func TestExplainOfManifests(t *testing.T) {
	broken := tempFile(t, "broken.yaml", wrongPort)
	fine := tempFile(t, "fine.yaml", strings.Replace(wrongPort, "htp}", "http}", 1))
	for _, c := range []struct {
		args   []string
		status int
		first  string
	}{
		{[]string{"ingress", "shop/cart", broken}, 1, `Ingress shop/cart: Service "cart" has no port "htp", only 80 ("http"), so requests are answered with 502.`},
		{[]string{"shop.example.org", broken}, 1, `Ingress shop/cart: Service "cart" has no port "htp", only 80 ("http"), so requests are answered with 502.`},
		{[]string{"ing", "shop/cart", fine}, 0, `Ingress shop/cart is served: 1 route for shop.example.org.`}, // nothing is known about pods
		{[]string{"ing", "shop/card", fine}, 1, `There is no Ingress shop/card among what the route server reads.`},
		{[]string{"-kubernetes-ingress-class=^x$", "ing", "shop/cart", fine}, 0, `Ingress shop/cart is served: 1 route for shop.example.org.`},
	} {
		r := runWith(t, "", append([]string{"explain"}, c.args...)...)
		if first, _, _ := strings.Cut(r.out, "\n"); r.status != c.status || first != c.first {
			t.Errorf("%q: status %d, %s%s, want %d, %s", c.args, r.status, r.err, first, c.status, c.first)
		}
	}
	r := runWith(t, "", "explain", "-o", "json", "ingress", "shop/cart", broken)
	var e explain.Explanation
	if err := json.Unmarshal([]byte(r.out), &e); err != nil || e.Schema != explain.Schema || e.Result != "error" {
		t.Errorf("%v: %s", err, r.out)
	}
}

// TestExplainAsksAServer: the answer of a server is printed as if it had been computed here; any response that is not an
// explanation is an error.
func TestExplainAsksAServer(t *testing.T) {
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String() + " " + r.Header.Get("Accept")
		switch r.URL.Query().Get("name") {
		case "cart":
			json.NewEncoder(w).Encode(explain.Explanation{Schema: explain.Schema, Result: "fine", Cause: "All is well.\x1b[31m"})
		case "gone":
			w.WriteHeader(http.StatusNotFound)
			json.NewEncoder(w).Encode(explain.Explanation{Schema: explain.Schema, Result: explain.NotFound, Cause: "There is none."})
		case "new":
			json.NewEncoder(w).Encode(explain.Explanation{Schema: "routesrv.explain/v9"})
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, c := range []struct {
		name   string
		status int
		out    string
		err    string
	}{
		{"cart", 0, "All is well.\\x1b[31m\n", ""},
		{"gone", 1, "There is none.\n", ""},
		{"new", 2, "", "by the schema routesrv.explain/v9"},
		{"old", 2, "", "404 Not Found .*support listener of a route server"},
	} {
		r := runWith(t, "", "explain", "rg", "shop/"+c.name, s.URL+"/")
		if r.status != c.status || r.out != c.out || !regexp.MustCompile(c.err).MatchString(r.err) {
			t.Errorf("%s: %+v", c.name, r)
		}
		if want := "/explain?kind=RouteGroup&name=" + c.name + "&namespace=shop application/json"; asked != want {
			t.Errorf("asked %s, want %s", asked, want)
		}
	}
	s.Close()
	if r := runWith(t, "", "explain", "shop.example.org", s.URL); r.status != 2 {
		t.Errorf("a server that is gone: %+v", r)
	}
}

func TestExplainRefusesWhatItDoesNotUnderstand(t *testing.T) {
	table := tempFile(t, "a.yaml", wrongPort)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pod", "shop/cart", table}, `"pod": must be ingress or routegroup`},
		{[]string{"ingress", "a/b/c", table}, `must be NAMESPACE/NAME`},
		{[]string{"a b", table}, `"a b": must be KIND NAMESPACE/NAME`},
		{[]string{"shop.example.org"}, `PLACE`},
		{[]string{"shop.example.org", "nowhere"}, `nowhere`},
		{[]string{"-o", "yaml", "shop.example.org", table}, `must be one of text, json`},
	} {
		r := runWith(t, "", append([]string{"explain"}, c.args...)...)
		if r.status != 2 || !strings.Contains(r.err, c.want) {
			t.Errorf("%q: status %d, %s, want %s", c.args, r.status, r.err, c.want)
		}
	}
	if r := runWith(t, "", "explain", "--help"); r.status != 0 || !strings.Contains(r.out, "Usage:\n  routesrv explain [flags] WHAT... PLACE\n") {
		t.Errorf("help: %+v", r)
	}
}
