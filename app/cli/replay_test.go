package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain/takeover"
)

func fileWith(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// said runs a command of routesrv about tables.
func said(t *testing.T, stdin string, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	p := cli.Program{Name: "routesrv", Places: query.NewURLs}
	status = p.Run(t.Context(), args, program.Stdio{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr})
	return status, stdout.String(), stderr.String()
}

// loader is a proxy as far as a trial sees it: it fetches the table and refuses a filter.
type loader struct {
	mu     sync.Mutex
	routes []*eskip.Route
}

func (l *loader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.URL.Path == "/metrics":
		fmt.Fprint(w, "process_start_time_seconds 1000\n")
	case r.URL.Query().Has("invalid"):
		list := []map[string]string{}
		for _, route := range l.routes {
			if len(route.Filters) > 0 && route.Filters[0].Name == "noSuchFilter" {
				list = append(list, map[string]string{"id": route.Id, "error": "unknown_filter: noSuchFilter"})
			}
		}
		_ = json.NewEncoder(w).Encode(list)
	case len(l.routes) > 0:
		ids := make([]string, len(l.routes))
		for i, route := range l.routes {
			ids[i] = route.Id
		}
		fmt.Fprint(w, slices.Min(ids)+": * -> <shunt>;")
	}
}

// follow fetches the table from an address until the test ends.
func (l *loader) follow(ctx context.Context, address string) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // its polls are what time brings
		answer, err := http.Get("http://" + address + "/trial/routes")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if routes, parseErr := eskip.Parse(string(text)); err == nil && parseErr == nil {
			l.mu.Lock()
			l.routes = routes
			l.mu.Unlock()
		}
	}
}

func TestTrialCommand(t *testing.T) {
	proxy := &loader{}
	support := httptest.NewServer(proxy)
	defer support.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { proxy.follow(ctx, address) })
	defer following.Wait()
	defer cancel()

	table := fileWith(t, "table.eskip", `a: Path("/a") -> setPath("/x") -> <shunt>; b: Path("/b") -> noSuchFilter(1) -> setPath("/x") -> <shunt>;`)
	status, out, errs := said(t, "", "trial", "--proxy", support.URL, "--listen", address, table)
	if want := "1 texts accepted, 1 failed\n  refused  noSuchFilter(1): unknown_filter: noSuchFilter\n"; status != cli.Unhealthy || !strings.HasSuffix(out, want) {
		t.Errorf("status %d\n%s%s\nwant %s", status, out, errs, want)
	}
	for _, c := range []struct {
		args []string
		errs string
	}{
		{[]string{table}, "set --proxy"},
		{[]string{"--proxy", "nonsense", table}, "must be the URL of a listener"},
		{[]string{"--proxy", "http://127.0.0.1:1", "--listen", address, "--timeout", "200ms", table}, "connection refused"},
	} {
		if status, out, errs := said(t, "", append([]string{"trial"}, c.args...)...); status != cli.Trouble || !strings.Contains(errs, c.errs) {
			t.Errorf("%q: status %d, %s%s", c.args, status, out, errs)
		}
	}
}

// TestAgainstSendsOnlyRoutes: the other objects of manifests, such as Secrets, stay here.
func TestAgainstSendsOnlyRoutes(t *testing.T) {
	var got string
	found := takeover.Report{Schema: takeover.Schema, Takeovers: []takeover.Takeover{{Lost: 1, Taken: []takeover.Taken{{Route: "a", By: "b"}}}}}
	answer := func(w http.ResponseWriter) { _ = found.WriteJSON(w) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/takeovers" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got = string(text)
		answer(w)
	}))
	defer server.Close()
	folder := filepath.Dir(fileWith(t, "a.yaml", `
kind: Secret
metadata: {name: cart}
data: {password: c2VjcmV0}
---
kind: Ingress
metadata: {name: cart}
---
kind: List
items: [{kind: RouteGroup, metadata: {name: in-a-list}}, {kind: Secret, data: {password: c2VjcmV0}}]
`))
	var out strings.Builder
	std := program.Stdio{Out: &out}
	if status, err := cli.Against(t.Context(), server.URL, []string{folder}, "text", std); err != nil || status != cli.Unhealthy || !strings.Contains(out.String(), "1 object takes") {
		t.Errorf("status %d, %v, %s", status, err, out.String())
	}
	if strings.Contains(got, "c2VjcmV0") || !strings.Contains(got, `"cart"`) || !strings.Contains(got, "in-a-list") {
		t.Errorf("sent was\n%s", got)
	}
	found.Takeovers = nil
	if status, err := cli.Against(t.Context(), server.URL+"/", []string{folder}, "markdown", std); err != nil || status != cli.Healthy {
		t.Errorf("status %d, %v", status, err)
	}
	answer = func(w http.ResponseWriter) { http.Error(w, "nothing was read yet", http.StatusServiceUnavailable) }
	if status, err := cli.Against(t.Context(), server.URL, []string{folder}, "text", std); err == nil || status != cli.Trouble || !strings.Contains(err.Error(), "nothing was read yet") {
		t.Errorf("status %d, %v", status, err)
	}
	for path, want := range map[string]string{
		fileWith(t, "b.yaml", "kind: Service\n"): "no Ingress and no RouteGroup", fileWith(t, "c.yaml", "a: ["): "line 1", folder + "/gone": "no such file",
	} {
		if _, err := cli.Against(t.Context(), server.URL, []string{path}, "text", std); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
