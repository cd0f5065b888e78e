package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/explain/takeover"
)

// takeovers posts manifests to /takeovers.
func (f *fixture) takeovers(query, manifests string) (status int, body string) {
	f.t.Helper()
	answer, err := f.client.Post("http://"+f.support+"/takeovers"+query, "application/yaml", strings.NewReader(manifests))
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

const greedy = `
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: all-of-it, namespace: other-team}
spec:
  hosts: [search.example.org]
  backends: [{name: s, type: shunt}]
  routes: [{pathSubtree: /search/deep, backends: [{backendName: s}]}]
`

// TestTakeoversOverHTTP: what manifests would take is told with the names of objects, and nothing of them is stored.
func TestTakeoversOverHTTP(t *testing.T) {
	f := start(t, questioned, nil)
	f.polled()
	status, text := f.takeovers("", greedy)
	want := "GET https://search.example.org/search/deep: RouteGroup shop/search -> RouteGroup other-team/all-of-it"
	if status != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("status %d, %s\nwant %s", status, text, want)
	}
	status, text = f.takeovers("?format=json", greedy)
	var r takeover.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || r.Schema != takeover.Schema || len(r.Takeovers) != 1 {
		t.Errorf("status %d, %v, %s", status, err, text)
	}
	if _, text = f.takeovers("", strings.ReplaceAll(greedy, "search.example.org", "nobody.example.org")); text != "no request of another owner changes its route\n" {
		t.Errorf("a host that nobody has: %s", text)
	}
	if got := f.request("GET", f.main, "/routes"); strings.Contains(got.body, "all_of_it") {
		t.Error("the object of a question is served")
	}
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{"", "must be Ingresses or RouteGroups", 400},
		{"a: [", "read the manifests", 400},
		{"kind: RouteGroup\nmetadata: {name: x, namespace: team}\nspec: 3\n", "RouteGroup team/x", 400},
		{strings.Repeat("# nothing\n", 500_000), "limit 4194304", 413},
	} {
		if status, text := f.takeovers("", c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%.40q: status %d, %.200s, want %d, %s", c.body, status, text, c.status, c.want)
		}
	}
}
