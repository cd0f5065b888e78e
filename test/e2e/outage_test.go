package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// TestRouteServerDeadForAMinute: the data plane serves its last applied table, even across its own restarts, and follows again
// when the route server is back.
func TestRouteServerDeadForAMinute(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	server := startRoutesrv(t, proxy)
	server.Ready(t)
	state := t.TempDir()
	start := func() *sidecar {
		return startSidecar(t, proxy, "Exec", []string{server.Main}, "--state-dir="+state, "--fallback=never")
	}
	s := start()
	s.Ready(t)
	want := s.get(t, "/routes", "")
	programs.Eventually(t, "the file", func() bool { _, err := os.Stat(filepath.Join(state, "table.eskip")); return err == nil })

	server.Kill(t)
	dead := time.Now()
	for round := 0; time.Since(dead) < time.Minute; round++ {
		// Restarted in both ways: killed, and asked to end.
		if round%2 == 0 {
			s.Kill(t)
		} else {
			s.Stop(t)
		}
		s = start()
		s.Ready(t)
		a := s.get(t, "/routes", "")
		if a.Body != want.Body || digestOf(a.Header.Get("Etag")) != digestOf(want.Header.Get("Etag")) {
			t.Fatalf("round %d: another table after a restart", round)
		}
		if a.Header.Get("X-Table-State") != "stale" {
			t.Errorf("round %d: the table is not marked stale", round)
		}
		// The outage continues: there is no event to wait for.
		<-time.After(min(10*time.Second, time.Until(dead.Add(time.Minute))))
	}
	host, support := strings.TrimPrefix(server.Main, "http://"), strings.TrimPrefix(server.Support, "http://")
	token, err := c.token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again := startProcess(t, binary, host, support, append(sourceArgs(t, proxy, token),
		"-address="+host, "-support-listener="+support, "-wait-for-healthcheck-interval=0s"))
	again.Ready(t)
	withObjects(t, c, counterIngress(1))
	programs.Eventually(t, "a fresh table", func() bool {
		a := s.get(t, "/routes", "")
		return a.Header.Get("X-Table-State") == "" && strings.Contains(a.Body, `setResponseHeader("N", "1")`)
	})
}

// badServer sits in front of a route server and answers as instructed.
type badServer struct {
	*httptest.Server
	how atomic.Pointer[http.HandlerFunc] // nil passes requests on
}

func newBadServer(t *testing.T, target string) *badServer {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	b := &badServer{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if how := b.how.Load(); how != nil {
			(*how)(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(b.CloseClientConnections)
	t.Cleanup(b.Close)
	return b
}

// TestBadRouteServersChangeNothing makes the route server misbehave in all observed and feared ways.
func TestBadRouteServersChangeNothing(t *testing.T) {
	c := ownCluster(t)
	for _, transport := range []string{"auto", "poll"} {
		t.Run(transport, func(t *testing.T) { badRouteServersChangeNothing(t, c, transport) })
	}
}

func badRouteServersChangeNothing(t *testing.T, c *cluster, transport string) {
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	server := startRoutesrv(t, proxy)
	server.Ready(t)
	bad := newBadServer(t, server.Main)
	s := startSidecar(t, proxy, "Exec", []string{bad.URL}, "--timing=fetch-timeout=1s", "--fallback=never", "--update-mode="+transport)
	s.Ready(t)
	want := s.get(t, "/routes", "")
	const table = "wrong: * -> <shunt>;"
	ways := map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // of a report: a server does not notice that the client is gone while there is an unread body
			<-r.Context().Done()
		},
		"500":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"404":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>it works</html>") },
		"empty":   func(w http.ResponseWriter, _ *http.Request) {},
		"a wrong digest": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"`+strings.Repeat("0", 64)+`.9"`)
			io.WriteString(w, table)
		},
		"another host": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:9/routes", http.StatusFound)
		},
		"a byte a second": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(table)))
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for i := range len(table) {
				io.WriteString(w, table[i:i+1])
				http.NewResponseController(w).Flush()
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		},
		"a cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(table)+10))
			io.WriteString(w, table)
			panic(http.ErrAbortHandler)
		},
	}
	for name, how := range ways {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				how(w, r)
			})
			bad.how.Store((*http.HandlerFunc)(&counted))
			bad.CloseClientConnections() // an open stream would continue
			programs.Eventually(t, "two requests", func() bool { return asked.Load() >= 2 })
			if a := s.get(t, "/routes", ""); a.Body != want.Body || a.Status != http.StatusOK {
				t.Errorf("the table changed: %d, %s", a.Status, a.Header.Get("Etag"))
			}
			bad.how.Store(nil)
			before := time.Now()
			programs.Eventually(t, "a good fetch", func() bool {
				read, err := time.Parse(time.RFC3339, s.get(t, "/routes", "").Header.Get("X-Source-Read"))
				return err == nil && read.After(before)
			})
		})
	}
}
