package httpserve_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/httpserve"
)

// listenControl opens the socket of a state folder for the test.
func listenControl(t *testing.T, state string) net.Listener {
	t.Helper()
	l, err := httpserve.ListenControl(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// reaches fails the test unless a connection to the state folder arrives at the listener.
func reaches(t *testing.T, state string, l net.Listener) {
	t.Helper()
	c, err := httpserve.DialControl(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
}

// TestControlSocketIsForItsUser: by its mode and that of its folder, also where the state folder is open to all and its path is longer
// than the address of a socket may be.
func TestControlSocketIsForItsUser(t *testing.T) {
	state := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	l := listenControl(t, state)
	for path, want := range map[string]fs.FileMode{"control": fs.ModeDir | 0o700, "control/socket": fs.ModeSocket | 0o600} {
		if info, err := os.Stat(filepath.Join(state, path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	reaches(t, state, l)
}

// TestSocketOfACrashedProcessIsReplaced: by the next one, in which every later connection arrives.
func TestSocketOfACrashedProcessIsReplaced(t *testing.T) {
	state := t.TempDir()
	if _, err := httpserve.DialControl(t.Context(), state); !errors.Is(err, httpserve.ErrNoControl) {
		t.Errorf("before a start: %v", err)
	}
	first := listenControl(t, state)
	first.Close() // leaves the socket, as a process that was killed
	if _, err := httpserve.DialControl(t.Context(), state); !errors.Is(err, httpserve.ErrNoControl) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("after a crash: %v", err)
	}
	reaches(t, state, listenControl(t, state))
	if err := os.WriteFile(filepath.Join(state, "control", "socket.new"), nil, 0o600); err != nil { // a crash before the rename
		t.Fatal(err)
	}
	reaches(t, state, listenControl(t, state))
}

// TestControlKnowsItsPeer: from the kernel. Requests over TCP have none, and get nothing.
func TestControlKnowsItsPeer(t *testing.T) {
	endpoints := []httpserve.Endpoint{{Listener: httpserve.ControlListener, Path: "/who", Methods: []string{"POST"}, Does: "says who",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, _ := httpserve.PeerOf(r.Context())
			if p.PID != os.Getpid() {
				t.Errorf("the peer is process %d, want this one, %d", p.PID, os.Getpid())
			}
			io.WriteString(w, p.String())
		})}}
	state := t.TempDir()
	listeners, addresses := newListeners(&diary{}, func(cfg *httpserve.ListenersConfig) {
		cfg.StateDir, cfg.Drain = state, 0
		cfg.Endpoints = append(endpoints, httpserve.Endpoint{Listener: httpserve.SupportListener, Path: "/page", Does: "page",
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") })})
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- listeners.Run(ctx, func(ctx context.Context) { <-ctx.Done() }) }()
	<-addresses
	support := <-addresses
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		for { // until the socket is open
			if c, err := httpserve.DialControl(ctx, state); err == nil || ctx.Err() != nil {
				return c, err
			}
		}
	}}
	client := &http.Client{Transport: transport}
	for path, want := range map[string]string{"/who": httpserve.Peer{UID: os.Geteuid()}.String(), "/page": "page"} {
		resp, err := client.Post("http://pod"+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != want {
			t.Errorf("%s: %d %q, want %q", path, resp.StatusCode, body, want)
		}
	}
	resp, err := http.Post("http://"+support+"/who", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("over TCP: %d, want 404", resp.StatusCode)
	}
	transport.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/who", nil)
	httpserve.Control(endpoints, http.NotFoundHandler()).ServeHTTP(w, r.WithContext(httpserve.Peer{UID: os.Geteuid() + 1}.Attach(t.Context())))
	if w.Code != http.StatusForbidden {
		t.Errorf("another user: %d, want 403", w.Code)
	}
}

// TestPagesAreNotForRequestsFromThisMachine: a proxy in the same pod sends requests of others from these addresses, whatever their
// headers say.
func TestPagesAreNotForRequestsFromThisMachine(t *testing.T) {
	h := httpserve.InPod(false, "dataplane-client get", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") }))
	own := []string{"127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1", "@", ""}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		ip, _, _ := strings.Cut(a.String(), "/")
		own = append(own, net.JoinHostPort(ip, "40000"))
		if strings.Contains(ip, ":") {
			own = append(own, net.JoinHostPort(ip+"%eth0", "40000"))
		}
	}
	get := func(remote string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/status", nil)
		r.RemoteAddr, r.Host = remote, "localhost"
		r.Header.Set("X-Forwarded-For", "192.0.2.7")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, remote := range own {
		if w := get(remote); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "dataplane-client get /status") {
			t.Errorf("from %q: %d %s", remote, w.Code, w.Body)
		}
	}
	for _, remote := range []string{"192.0.2.7:1", "[2001:db8::7]:1"} {
		if w := get(remote); w.Code != http.StatusOK {
			t.Errorf("from %q: %d %s", remote, w.Code, w.Body)
		}
	}
}
