package server_test

import (
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/eskip"
)

func chain(t *testing.T, text string) []*eskip.Filter {
	t.Helper()
	filters, err := eskip.ParseFilters(text)
	if err != nil {
		t.Fatal(err)
	}
	return filters
}

func TestRequestFilterThatCannotBeMadeEndsTheStart(t *testing.T) {
	const create, get = "failed to create filter chain: failed to create filter ", "failed to create filter chain: failed to get filter for routeserver "
	for _, tt := range []struct{ filters, want string }{
		{`oauthTokeninfoAnyScope("uid")`, get + `"oauthTokeninfoAnyScope"`},
		{`setResponseHeader("X-A", "b") -> unknown()`, get + `"unknown"`},
		{`status()`, create + `"status" for routeserver: the arguments must be one integer from 200 to 599`},
		{`status("200")`, create + `"status" for routeserver: the arguments must be one integer from 200 to 599`},
		{`status(200.5)`, create + `"status" for routeserver: `},
		{`status(99)`, create + `"status" for routeserver: `},
		{`status(101)`, create + `"status" for routeserver: `},
		{`status(600)`, create + `"status" for routeserver: `},
		{`status(200, 201)`, create + `"status" for routeserver: `},
		{`inlineContent()`, create + `"inlineContent" for routeserver: the arguments must be one or two strings`},
		{`inlineContent(1)`, create + `"inlineContent" for routeserver: the arguments must be one or two strings`},
		{`inlineContent("a", "b", "c")`, create + `"inlineContent" for routeserver: `},
		{`setResponseHeader("X-A")`, create + `"setResponseHeader" for routeserver: the arguments must be two strings`},
		{`appendResponseHeader("X-A", 1)`, create + `"appendResponseHeader" for routeserver: the arguments must be two strings`},
		{`dropResponseHeader()`, create + `"dropResponseHeader" for routeserver: `},
		{`mtlsAuthn("x")`, create + `"mtlsAuthn" for routeserver: the arguments must be none`},
		{`mtlsCN()`, create + `"mtlsCN" for routeserver: the arguments must be at least one string`},
		{`mtlsCN(1)`, create + `"mtlsCN" for routeserver: the arguments must be`},
	} {
		t.Run(tt.filters, func(t *testing.T) {
			f := &fixture{}
			cfg := f.config(t, service)
			cfg.RequestFilters = chain(t, tt.filters)
			_, err := server.New(cfg)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || !strings.Contains(err.Error(), "-route-server-filters") {
				t.Errorf("error %v, want one that begins with %q and names the flag", err, tt.want)
			}
		})
	}
}

func TestRequestFilters(t *testing.T) {
	const table = "<table>"
	for _, tt := range []struct {
		name, filters, path string
		status              int
		body                string
		header              map[string][]string // nil values expect none
	}{
		{"none", ``, "/routes", 200, table, nil},
		{"header of a table", `setResponseHeader("X-Foo", "bar")`, "/routes", 200, table, map[string][]string{"X-Foo": {"bar"}}},
		{"header of a 404", `setResponseHeader("X-Foo", "bar")`, "/nothing", 404, notFoundBody, map[string][]string{"X-Foo": {"bar"}}},
		{"responses are handled from the last filter to the first",
			`setResponseHeader("X-Foo", "1") -> setResponseHeader("X-Foo", "2")`, "/routes", 200, table,
			map[string][]string{"X-Foo": {"1"}}},
		{"append", `appendResponseHeader("X-Foo", "1") -> appendResponseHeader("X-Foo", "2")`, "/routes", 200, table,
			map[string][]string{"X-Foo": {"2", "1"}}},
		{"drop", `dropResponseHeader("X-Foo") -> setResponseHeader("X-Foo", "1")`, "/routes", 200, table,
			map[string][]string{"X-Foo": nil}},
		{"status alone serves nothing", `status(401)`, "/routes", 200, table, nil},
		{"served", `inlineContent("blocked")`, "/routes", 200, "blocked",
			map[string][]string{"Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"7"}, "Etag": nil}},
		{"served with its type", `inlineContent("{}", "application/json")`, "/routes", 200, "{}",
			map[string][]string{"Content-Type": {"application/json"}}},
		{"status of what is served", `status(401) -> inlineContent("blocked")`, "/routes", 401, "blocked", nil},
		{"a filter behind the one that serves does not run", `inlineContent("blocked") -> status(401) -> setResponseHeader("X-Foo", "1")`,
			"/routes", 200, "blocked", map[string][]string{"X-Foo": nil}},
		{"headers of what is served are added", `setResponseHeader("Content-Type", "text/html") -> inlineContent("x", "text/css")`,
			"/routes", 200, "x", map[string][]string{"Content-Type": {"text/html", "text/css"}}},
		{"every path", `inlineContent("blocked")`, "/swarm/redis/shards", 200, "blocked", nil},
		{"paths that are not there", `inlineContent("blocked")`, "/nothing", 200, "blocked", nil},
		{"health is exempt", `setResponseHeader("X-Foo", "1") -> status(401) -> inlineContent("blocked")`, "/health", 204, "",
			map[string][]string{"X-Foo": nil}},
		{"only exactly health", `status(401) -> inlineContent("blocked")`, "/health/", 401, "blocked", nil},
		{"only exactly health, however it is written", `status(401) -> inlineContent("blocked")`, "//health", 401, "blocked", nil},
		{"no certificate", `mtlsAuthn()`, "/routes", 401, "no verified client certificate\n", map[string][]string{"Etag": nil}},
		{"no name", `mtlsCN("trusted")`, "/routes", 403, "client certificate has another common name\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, service+ingress("a"), func(cfg *server.Config) {
				shards(cfg)
				if tt.filters != "" {
					cfg.RequestFilters = chain(t, tt.filters)
				}
			})
			f.ready()
			got := f.get(tt.path)
			want := tt.body
			if want == table {
				want = string(got.body) // as its status and ETag say
				if got.header.Get("Etag") == "" {
					t.Error("no ETag: not a table")
				}
			}
			if got.status != tt.status || got.body != want {
				t.Errorf("%d %q, want %d %q", got.status, got.body, tt.status, want)
			}
			for name, values := range tt.header {
				if v := got.header.Values(name); strings.Join(v, "|") != strings.Join(values, "|") {
					t.Errorf("header %s is %q, want %q", name, v, values)
				}
			}
		})
	}
}

func TestHeadOfWhatAFilterServesHasNoBody(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.RequestFilters = chain(t, `inlineContent("blocked")`) })
	got := f.request("HEAD", f.main, "/routes")
	if got.status != 200 || got.body != "" || got.header.Get("Content-Length") != "7" {
		t.Errorf("%d %q with headers %v", got.status, got.body, got.header)
	}
}

// The cache hands out header values that all responses share.
func TestHeaderOfOneResponseIsNotThatOfAnother(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) {
		cfg.RequestFilters = chain(t, `appendResponseHeader("Vary", "X-Foo")`)
	})
	f.ready()
	first := f.get("/routes").header.Values("Vary")
	for range 3 {
		if got := f.get("/routes").header.Values("Vary"); strings.Join(got, "|") != strings.Join(first, "|") {
			t.Errorf("Vary is %q, was %q", got, first)
		}
	}
}

func TestRefusedRequestsAreNoResponsesOfRoutes(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.RequestFilters = chain(t, `mtlsAuthn()`) })
	f.ready()
	f.get("/routes")
	if metrics := f.metrics(); strings.Contains(metrics, `routesrv_custom_total{key="401"}`) {
		t.Error("what a filter answers is counted as an answer of /routes")
	}
}
