package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/program"
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
	if status, err := cli.Against(t.Context(), server.URL+"/", []string{folder}, "json", std); err != nil || status != cli.Healthy {
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
