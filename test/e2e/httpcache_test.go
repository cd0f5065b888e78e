package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// httpCache is an HTTP cache between route servers and clients, configured as in docs/grow/relays.md.
type httpCache struct {
	name            string
	program, debian string
	start           func(t *testing.T, address string, servers []string) *exec.Cmd
}

var httpCaches = []httpCache{{"nginx", "nginx", "nginx-light", startNginx}, {"varnish", "varnishd", "varnish", startVarnish}}

// nginxConfig is examples/caches/nginx.conf with the addresses of a test.
func startNginx(t *testing.T, address string, servers []string) *exec.Cmd {
	dir := t.TempDir()
	var upstream strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&upstream, "        server %s;\n", s)
	}
	text := example(t, "nginx.conf")
	text = replaced(t, text, "listen 9090;", "listen "+address+";")
	text = replaced(t, text, "        server routesrv.ingress:80;\n", upstream.String())
	text = replaced(t, text, "/var/cache/nginx", filepath.Join(dir, "cache"))
	if os.Getuid() == 0 { // nginx would drop root, and the folder of the test belongs to root
		text = "user root;\n" + text
	}
	text = "daemon off;\npid " + filepath.Join(dir, "pid") + ";\nerror_log stderr;\n" + text
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("nginx", "-p", dir, "-c", file, "-e", "stderr")
}

func startVarnish(t *testing.T, address string, servers []string) *exec.Cmd {
	text := example(t, "varnish.vcl")
	var backends, members strings.Builder
	for i, s := range servers {
		host, port, _ := strings.Cut(s, ":")
		fmt.Fprintf(&backends, "backend s%d {\n    .host = %q;\n    .port = %q;\n    .probe = ready;\n}\n", i, host, port)
		fmt.Fprintf(&members, "    servers.add_backend(s%d);\n", i)
	}
	text = replaced(t, text, "backend s0 {\n    .host = \"routesrv.ingress\";\n    .port = \"80\";\n    .probe = ready;\n}\n", backends.String())
	text = replaced(t, text, "    servers.add_backend(s0);\n", members.String())
	dir := t.TempDir()
	file := filepath.Join(dir, "routesrv.vcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("varnishd", "-F", "-j", "none", "-n", filepath.Join(dir, "work"), "-f", file, "-a", address, "-s", "malloc,64m",
		"-p", "http_gzip_support=off")
}

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/caches", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func replaced(t *testing.T, text, old, with string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is %d times in the example, want once", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, with, 1)
}

// TestHTTPCachesStandInForARelay: two route servers behind an unmodified nginx, and a Varnish. Clients behind the cache get whole
// tables, in order, each in the requested encoding and zone; a current table costs a 304; and while no route server answers, the
// cache serves the last table.
func TestHTTPCachesStandInForARelay(t *testing.T) {
	c := ownCluster(t)
	for _, cache := range httpCaches {
		t.Run(cache.name, func(t *testing.T) {
			programs.Tool(t, cache.debian, cache.program)
			behindCache(t, c, cache)
		})
	}
}

func behindCache(t *testing.T, c *cluster, cache httpCache) {
	withShop(t, c)
	withObjects(t, c, counterIngress(0))
	api := newFaultProxy(t, c)
	servers := []*process{startRoutesrv(t, api, "--cache-max-age=1s"), startRoutesrv(t, api, "--cache-max-age=1s")}
	var addresses []string
	for _, s := range servers {
		s.Ready(t)
		addresses = append(addresses, strings.TrimPrefix(s.Main, "http://"))
	}
	address := programs.FreeAddress(t)
	cmd := cache.start(t, address, addresses)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the cache:\n%s", log.String())
		}
	})
	url := "http://" + address + "/routes"
	programs.Eventually(t, "a table through the cache", func() bool {
		a, err := programs.Fetch(t.Context(), url, "")
		return err == nil && a.Status == http.StatusOK
	})

	// A table is complete and has the headers of a route server; each form is cached separately.
	asked := func(path, encoding, etag string) programs.Answer {
		t.Helper()
		a, err := fetchEncoded(t.Context(), "http://"+address+path, encoding, etag)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 2 { // the second time from the cache
		plain, packed, zone := asked("/routes", "identity", ""), asked("/routes", "gzip", ""), asked("/routes/eu-central-1a", "identity", "")
		if digestOf(plain.Header.Get("Etag")) != digestOf(packed.Header.Get("Etag")) || plain.Header.Get("Etag") == packed.Header.Get("Etag") {
			t.Errorf("plain has ETag %s, gzip %s", plain.Header.Get("Etag"), packed.Header.Get("Etag"))
		}
		if packed.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("encodings are %q and %q", plain.Header.Get("Content-Encoding"), packed.Header.Get("Content-Encoding"))
		}
		if zone.Status != http.StatusOK || plain.Header.Get("X-Count") == "" {
			t.Errorf("zone: %d, X-Count %q", zone.Status, plain.Header.Get("X-Count"))
		}
		if at, err := time.Parse(time.RFC3339Nano, plain.Header.Get("X-Source-Read")); err != nil || time.Since(at) > programs.Patience {
			t.Errorf("X-Source-Read is %q", plain.Header.Get("X-Source-Read"))
		}
		if a := asked("/routes", "gzip", packed.Header.Get("Etag")); a.Status != http.StatusNotModified {
			t.Errorf("the current table is asked for again: %d", a.Status)
		}
	}

	// Changes arrive, and no client goes back in time.
	w := watchOrder(url)
	const changes = 6
	for n := 1; n <= changes; n++ {
		withObjects(t, c, counterIngress(n))
		programs.Eventually(t, fmt.Sprintf("change %d behind the cache", n), func() bool {
			a, err := programs.Fetch(t.Context(), url, "")
			return err == nil && countOf(a.Body) == n
		})
	}
	w.stop(t, cache.name)

	// An unchanged table is not sent again.
	programs.Eventually(t, "a request of the cache that is answered with 304", func() bool {
		asked("/routes", "gzip", "")
		return servers[0].metric(t, `routesrv_custom_total{key="304"}`)+servers[1].metric(t, `routesrv_custom_total{key="304"}`) > 0
	})

	// Both servers die: the cache keeps serving.
	var last programs.Answer
	programs.Eventually(t, "the last table in plain text", func() bool {
		last = asked("/routes", "identity", "")
		return countOf(last.Body) == changes
	})
	for _, s := range servers {
		s.Kill(t)
	}
	dead := 5 * time.Second
	if d, err := time.ParseDuration(os.Getenv("ROUTESRV_CACHE_OUTAGE")); err == nil {
		dead = d
	}
	for begin := time.Now(); time.Since(begin) < dead; {
		a := asked("/routes", "identity", "")
		if a.Status != http.StatusOK || a.Body != last.Body {
			t.Fatalf("%v after the route servers have died: %d, %d bytes", time.Since(begin).Round(time.Millisecond), a.Status, len(a.Body))
		}
		time.Sleep(200 * time.Millisecond) // like a proxy, but more often
	}
	if a := asked("/routes", "identity", last.Header.Get("Etag")); a.Status != http.StatusNotModified {
		t.Errorf("without route servers, a client with the last table: %d, want 304", a.Status)
	}
}

// fetchEncoded requests a table in one encoding, and does not decode it.
func fetchEncoded(ctx context.Context, url, encoding, etag string) (programs.Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return programs.Answer{}, err
	}
	r.Header.Set("Accept-Encoding", encoding)
	return programs.Do(r, etag)
}
