package source_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	for _, tt := range []struct {
		name string
		cfg  cluster.Config
		want string
	}{
		{"not in a cluster", cluster.Config{InCluster: true}, "kubernetes API server URL could not be constructed from env vars"},
		{"no kubeconfig", cluster.Config{Kubeconfig: "/does/not/exist"}, "/does/not/exist"},
		{"unknown context", cluster.Config{Kubeconfig: write(t, "config", "apiVersion: v1\nkind: Config\n"), Context: "nope"}, "nope"},
		{"no token file", cluster.Config{TokenFile: "/does/not/exist"}, "token: open /does/not/exist"},
		{"empty token file", cluster.Config{TokenFile: write(t, "token", " \n")}, "is empty"},
		{"no CA file", cluster.Config{CAFile: "/does/not/exist"}, "CA: open /does/not/exist"},
		{"no certificate", cluster.Config{CAFile: write(t, "ca", "x")}, "invalid CA"},
		{"URL", cluster.Config{URL: "http://[::1"}, "API URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := cluster.New(tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
	if _, err := cluster.New(cluster.Config{InCluster: true}); !errors.Is(err, cluster.ErrNotInCluster) {
		t.Errorf("error %v, want ErrNotInCluster", err)
	}
	if _, err := cluster.New(cluster.Config{CAFile: write(t, "ca", "x")}); !errors.Is(err, cluster.ErrInvalidCA) {
		t.Errorf("error %v, want ErrInvalidCA", err)
	}
}

func TestReachesTheServerInEveryWay(t *testing.T) {
	server := newServer(t)
	tls := httptest.NewTLSServer(server)
	t.Cleanup(func() { tls.CloseClientConnections(); tls.Close() })
	ca := write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})))
	token := write(t, "token", "secret-1\n")
	kubeconfig := write(t, "config", `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "`+tls.URL+`", certificate-authority: "`+ca+`"}}]
users: [{name: u, user: {token: secret-2}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: other
`)
	for _, tt := range []struct {
		name  string
		cfg   cluster.Config
		token string
	}{
		{"URL", cluster.Config{URL: server.Start(t)}, ""},
		{"URL with a slash at the end", cluster.Config{URL: server.Start(t) + "/"}, ""},
		{"URL, token, CA", cluster.Config{URL: tls.URL, TokenFile: token, CAFile: ca}, "Bearer secret-1"},
		{"kubeconfig", cluster.Config{Kubeconfig: kubeconfig, Context: "x"}, "Bearer secret-2"},
		{"REST", cluster.Config{REST: &rest.Config{Host: tls.URL, BearerToken: "secret-3", TLSClientConfig: rest.TLSClientConfig{CAFile: ca}}}, "Bearer secret-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			read(t, newSource(t, tt.cfg))
			for _, r := range server.Requests() {
				if r.Authorization != tt.token || r.UserAgent != "routesrv" {
					t.Errorf("%s: Authorization %q, want %q; User-Agent %q", r, r.Authorization, tt.token, r.UserAgent)
				}
			}
		})
	}
}

func TestTheTokenGoesToNobodyElse(t *testing.T) {
	thief := newServer(t)
	server := newServer(t)
	url := server.Start(t)
	source := newSource(t, cluster.Config{URL: url, TokenFile: write(t, "token", "secret")})
	server.SetFault(pathIngresses, kubetest.Fault{Status: http.StatusTemporaryRedirect, Location: thief.Start(t)})
	if _, err := source.Read(t.Context(), kube.ReadOptions{}); err == nil {
		t.Error("a redirect passes for an answer")
	}
	if r := thief.Requests(); len(r) != 0 {
		t.Errorf("the redirect was followed: %v", r)
	}
}

func TestMetricsTellWhatAReadDid(t *testing.T) {
	server := newServer(t)
	reg := prometheus.NewPedanticRegistry()
	m := cluster.NewMetrics(reg)
	source := newSource(t, cluster.Config{URL: server.Start(t), Metrics: m})
	read(t, source)
	read(t, source)
	for _, tt := range []struct {
		name string
		c    prometheus.Collector
		want float64
	}{
		{"objects", m.ListObjects.WithLabelValues("Ingress"), 2},
		{"decoded", m.DecodedObjects.WithLabelValues("Ingress"), 2},
	} {
		if got := testutil.ToFloat64(tt.c); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) != 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

// Kubernetes mounts tokens and authorities as links. What is no regular file in the end, or too large, is an error at once.
func TestOnlyRegularFilesSayHowTheAPIIsReached(t *testing.T) {
	server := httptest.NewTLSServer(newServer(t))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"token": "secret", "ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, path("link-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fifo", path("link-fifo")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path("large"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.New(cluster.Config{URL: server.URL, TokenFile: path("link-token"), CAFile: path("link-ca.crt")}); err != nil {
		t.Errorf("files that are links: %v", err)
	}
	for name, want := range map[string]string{
		"fifo": "not a regular file", "link-fifo": "not a regular file", ".": "not a regular file", "large": "file is too large",
	} {
		for what, cfg := range map[string]cluster.Config{
			"token": {TokenFile: path(name)}, "CA": {CAFile: path(name)}, "kubeconfig": {Kubeconfig: path(name)},
		} {
			_, err := cluster.New(cfg)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), what) || !strings.Contains(err.Error(), path(name)) {
				t.Errorf("%s that is %s: %v, want %q", what, name, err, want)
			}
		}
	}
}
