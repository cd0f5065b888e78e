package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/routesrv/routesrv/app/program"
)

// TestEachChangeIsOneLine: a published change is one line of the log, and a read without a change is none.
func TestEachChangeIsOneLine(t *testing.T) {
	const group = `apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: web, namespace: shop}
spec: {hosts: [HOST], backends: [{name: a, type: shunt}], defaultBackends: [{backendName: a}]}
`
	path := filepath.Join(t.TempDir(), "web.yaml")
	put := func(host string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(strings.Replace(group, "HOST", host, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	put("a.example.org")
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	log, to := io.Pipe()
	ended.Go(func() {
		run(ctx, []string{
			"--manifests", path, "-address=127.0.0.1:0", "-support-listener=127.0.0.1:0", "-wait-for-healthcheck-interval=0s", "-source-poll-timeout=20",
		}, nil, program.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: to})
		to.Close()
	})
	var text strings.Builder
	buf := make([]byte, 4096)
	updates := func(n int) {
		t.Helper()
		for strings.Count(text.String(), "routes updated") < n {
			k, err := log.Read(buf)
			if text.Write(buf[:k]); err != nil {
				t.Fatalf("the log ends:\n%s", text.String())
			}
		}
	}
	updates(1)
	put("b.example.org")
	updates(2)
	cancel()
	rest, _ := io.ReadAll(log)
	ended.Wait()
	for line := range strings.Lines(text.String() + string(rest)) {
		if strings.Contains(line, "routes did not change") || strings.Contains(line, "table published") {
			t.Errorf("a line too many: %s", line)
		}
	}
}
