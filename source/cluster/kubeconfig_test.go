package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// TestInlineTokensAreReadAgain: a token that is replaced in a kubeconfig is used without a restart, and a file that cannot be used changes nothing.
func TestInlineTokensAreReadAgain(t *testing.T) {
	var sent string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "config")
	modified := time.Now().Add(-time.Hour)
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		modified = modified.Add(time.Second) // a clock of the file system may be coarse
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	config := func(token string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: %s}}],
			contexts: [{name: x, context: {cluster: c, user: u}}], current-context: x}`, server.URL, token)
	}
	put(config("first"))
	s, err := New(Config{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ text, want string }{
		{config("first"), "Bearer first"}, {config("other"), "Bearer other"}, {"no: [kubeconfig", "Bearer other"}, {config(`""`), "Bearer other"},
		{config("third"), "Bearer third"},
	} {
		put(step.text)
		if _, err := s.Read(t.Context(), kube.ReadOptions{}); err == nil || sent != step.want {
			t.Errorf("%.20s: %q was sent, want %q, error %v", step.text, sent, step.want, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), kube.ReadOptions{}); err == nil || sent != "Bearer third" {
		t.Errorf("without the file %q was sent, error %v", sent, err)
	}
}
