package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/test/programs"
)

// cleanupContext returns a context for cleanup after the context of a test has ended.
func cleanupContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), programs.Patience)
	t.Cleanup(cancel)
	return ctx
}

// TestFaultsOfTheAPILoseNoRoute injects one fault after another, each in one request of the read.
func TestFaultsOfTheAPILoseNoRoute(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	p := startRoutesrv(t, proxy, "--timing=max-backoff=400ms")
	p.Ready(t)
	want := p.get(t, "/routes", "")
	requests := []string{
		"/apis/zalando.org/v1", // discovery
		ingressList,
		"/apis/zalando.org/v1/routegroups",
		"/api/v1/services",
		"/apis/discovery.k8s.io/v1/endpointslices",
	}
	faults := map[string]http.HandlerFunc{
		"503":       status(http.StatusServiceUnavailable),
		"429":       status(http.StatusTooManyRequests),
		"truncated": truncated,
	}
	for _, path := range requests {
		for name, fault := range faults {
			t.Run(strings.Trim(path, "/")+" "+name, func(t *testing.T) {
				proxy.fail(path, fault)
				proxy.awaitRequests(t, path, 2)
				programs.Eventually(t, "the failure in /status", func() bool { return p.status(t).Source.Failures > 0 })
				if a := p.get(t, "/routes", ""); a.Body != want.Body || a.Header.Get("Etag") != want.Header.Get("Etag") {
					t.Errorf("the table changed: %s, want %s", a.Header.Get("Etag"), want.Header.Get("Etag"))
				}
				proxy.fail(path, nil)
				programs.Eventually(t, "reads to succeed again", func() bool { return p.status(t).Source.Failures == 0 })
				if a := p.get(t, "/routes", want.Header.Get("Etag")); a.Status != http.StatusNotModified {
					t.Errorf("after the fault: %d, want 304", a.Status)
				}
			})
		}
	}
}

// TestMissingPermissionIsNamed removes one permission from the product's role.
func TestMissingPermissionIsNamed(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	roles := c.typed.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), serviceAccount, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := startRoutesrv(t, newFaultProxy(t, c))
	p.Ready(t)
	etag := p.get(t, "/routes", "").Header.Get("Etag")

	less := role.DeepCopy()
	less.Rules = nil
	for _, rule := range role.Rules {
		if rule.Resources[0] != "routegroups" {
			less.Rules = append(less.Rules, rule)
		}
	}
	if _, err := roles.Update(t.Context(), less, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		role.ResourceVersion = ""
		if _, err := roles.Update(cleanupContext(t), role, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	})
	programs.Eventually(t, "an error that names verb and resource", func() bool {
		e := p.status(t).Source.LastError
		return strings.Contains(e, "list") && strings.Contains(e, "routegroups") && strings.Contains(e, "forbidden")
	})
	programs.Eventually(t, "the name of the resource in the log", func() bool { return strings.Contains(p.Log(), "routegroups") })
	if a := p.get(t, "/routes", etag); a.Status != http.StatusNotModified {
		t.Errorf("the table changed: %d", a.Status)
	}
}

func TestWrongTokenIsAClearError(t *testing.T) {
	c := ownCluster(t)
	p := startWithToken(t, newFaultProxy(t, c), "wrong")
	programs.Eventually(t, "the error in /status", func() bool {
		a, err := programs.Fetch(t.Context(), p.Support+"/status", "")
		return err == nil && strings.Contains(a.Body, "401")
	})
	if a := p.get(t, "/routes", ""); a.Status != http.StatusNotFound || a.Header.Get("Retry-After") == "" {
		t.Errorf("before the first table: %d, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
	}
	if a := p.get(t, "/health", ""); a.Status != http.StatusServiceUnavailable {
		t.Errorf("/health: %d", a.Status)
	}
	if strings.Contains(p.Log(), "Bearer") {
		t.Error("the log shows a token")
	}
}

// TestAPIServerKilledAndRestarted: the same table all along, even from a route server that restarts meanwhile, then fresh again.
func TestAPIServerKilledAndRestarted(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	state := t.TempDir()
	token, err := c.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxy := newFaultProxy(t, c)
	p := startWithToken(t, proxy, token, "--timing=max-backoff=500ms", "--state-dir="+state)
	p.Ready(t)
	want := p.get(t, "/routes", "")

	restartAPI := c.killAPIServer(t)
	programs.Eventually(t, "failures", func() bool { return p.status(t).Source.Failures >= 3 })
	if a := p.get(t, "/routes", ""); a.Body != want.Body {
		t.Error("the table changed while the API server was down")
	}
	stale := p.get(t, "/routes", "").Header.Get("X-Source-Read")

	p.Stop(t)
	restarted := startWithToken(t, proxy, token, "--timing=max-backoff=500ms", "--state-dir="+state)
	restarted.Ready(t)
	a := restarted.get(t, "/routes", "")
	if a.Body != want.Body || a.Header.Get("X-Table-State") != "stale" {
		t.Errorf("after a restart without an API: state %q, same table %v", a.Header.Get("X-Table-State"), a.Body == want.Body)
	}

	restartAPI()
	programs.Eventually(t, "a fresh read", func() bool {
		a := restarted.get(t, "/routes", "")
		return a.Header.Get("X-Table-State") == "" && a.Header.Get("X-Source-Read") > stale
	})
	if a := restarted.get(t, "/routes", want.Header.Get("Etag")); a.Status != http.StatusNotModified {
		t.Errorf("after the outage: %d, want 304", a.Status)
	}
	withObjects(t, c, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: after-the-outage, namespace: shop}
spec: {rules: [{host: after.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`)
	programs.Eventually(t, "a change after the outage", func() bool {
		return strings.Contains(restarted.get(t, "/routes", "").Body, "after_the_outage")
	})
}

// killAPIServer ends the process as the kernel does when memory runs out. The returned function starts the same command again and
// waits until it is ready.
func (c *cluster) killAPIServer(t *testing.T) (restart func()) {
	t.Helper()
	pid, args := c.findAPIServer(t)
	kill(t, pid)
	return func() {
		t.Helper()
		// Not with envtest, which would create new certificates.
		c.restarted = startComponent(t, args)
		programs.Within(t, 2*programs.Patience, "the API server to be ready again", func() bool {
			return c.typed.Discovery().RESTClient().Get().AbsPath("/readyz").Do(t.Context()).Error() == nil
		})
	}
}

// kill ends a component of the cluster, and waits until its ports are free.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	programs.Eventually(t, "the component to end", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// findAPIServer finds the process by the port that it serves.
func (c *cluster) findAPIServer(t *testing.T) (pid int, args []string) {
	t.Helper()
	api, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return c.findProcess(t, "kube-apiserver", "--secure-port="+api.Port())
}

// findProcess finds a component of the cluster by an argument that no other cluster has. It searches only children of this process, since
// others may run their own clusters.
func (c *cluster) findProcess(t *testing.T, name, argument string) (pid int, args []string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range procs {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if filepath.Base(args[0]) != name || !slices.Contains(args, argument) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			t.Fatal(err)
		}
		if isChild(pid) {
			return pid, args
		}
	}
	t.Fatalf("no %s to kill", name)
	return 0, nil
}

// startComponent starts a component of the cluster again with the same arguments. It shows its output if the test fails.
func startComponent(t *testing.T, args []string) *exec.Cmd {
	t.Helper()
	name := filepath.Base(args[0])
	said, err := os.CreateTemp(t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatalf("restart %s: %v", name, err)
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(said.Name()); t.Failed() && err == nil {
			t.Logf("the end of what %s has said:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return cmd
}

// isChild reports whether a process is a child of this one.
func isChild(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid())
}

func TestSIGTERMDrainsAndEndsCleanly(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	p := startRoutesrv(t, newFaultProxy(t, c), "-wait-for-healthcheck-interval=1s")
	p.Ready(t)
	start := time.Now()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	programs.Eventually(t, "the log line about the shutdown", func() bool {
		return strings.Contains(p.Log(), "shutting down the server in 1s...")
	})
	if a := p.get(t, "/health", ""); a.Status != http.StatusNoContent {
		t.Errorf("while draining: %d", a.Status)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if d := time.Since(start); d < time.Second {
		t.Errorf("ended after %v, before the interval", d)
	}
	if !strings.Contains(p.Log(), "polling stopped") {
		t.Error("the loop did not end in order")
	}
}
