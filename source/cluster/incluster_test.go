package cluster

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestInClusterReadsTheServiceAccount(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
	if _, err := inCluster(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a token: %v", err)
	}
	put("token", "t\n")
	put("ca.crt", "no certificate")
	if _, err := inCluster(dir); !errors.Is(err, ErrInvalidCA) {
		t.Errorf("with a bad CA: %v", err)
	}
	put("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	rc, err := inCluster(dir)
	if err != nil || rc.Host != "https://[::1]:6443" || rc.BearerToken != "t" || rc.BearerTokenFile != filepath.Join(dir, "token") {
		t.Errorf("got %v, %v", rc, err)
	}
	if via, err := rc.Proxy(httptest.NewRequest("GET", rc.Host, nil)); via != nil || err != nil {
		t.Errorf("the API is reached via %v, %v", via, err)
	}
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	if _, err := inCluster(dir); !errors.Is(err, ErrNotInCluster) {
		t.Errorf("without a port: %v", err)
	}
}
