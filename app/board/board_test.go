package board_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/board"
	"github.com/routesrv/routesrv/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a route server with one client for each entry of clients.
type fake struct {
	routes  atomic.Int64
	clients []fleet.Client
	seen    atomic.Pointer[http.Header]
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := r.Header.Clone()
	f.seen.Store(&h)
	write := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case api.PathStatus:
		write(&api.Status{Version: "v1.2.3", Started: time.Now(), Table: &api.Table{Routes: int(f.routes.Load()), LastRead: time.Now()}, Guard: api.Guard{Held: true, KeptCount: 2}})
	case api.PathClients:
		write(&fleet.View{Counts: fleet.Counts{Current: len(f.clients)}, Clients: f.clients})
	case api.PathProblems:
		write(&api.Problems{Problems: []api.Problem{{Reason: "no_endpoints", Severity: "warning"}, {Reason: "no_endpoints", Severity: "error"}, {Reason: "x", Severity: "info"}}})
	case api.PathHistory:
		write([]api.HistoryEntry{{At: time.Now(), Count: 3}})
	case "/":
		http.SetCookie(w, &http.Cookie{Name: "secret", Value: "x"})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>console "+r.URL.RawQuery)
	case "/away":
		http.Redirect(w, r, "http://example.org/", http.StatusFound)
	default:
		http.NotFound(w, r)
	}
}

// start serves a fake.
func start(t *testing.T, f *fake) (string, http.RoundTripper) {
	t.Helper()
	s := httptest.NewServer(f)
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); s.Close() })
	return s.URL, transport
}

func one(name string, r board.Replica) board.Cluster {
	return board.Cluster{Name: name, Find: func(context.Context) ([]board.Replica, error) { return []board.Replica{r}, nil }}
}

func newBoard(t *testing.T, cfg board.Config) *board.Board {
	t.Helper()
	b, err := board.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestClean: what the data planes in Pre say, and for how long.
func TestClean(t *testing.T) {
	const day = 86400.0
	plane := func(mode string, p *fleet.Pre) fleet.Client {
		return fleet.Client{ID: "x", Mode: mode, State: fleet.Current, Pre: p}
	}
	old, young := &fleet.Pre{Seconds: 5 * day, CleanSeconds: 4 * day, Ready: true}, &fleet.Pre{Seconds: 3600, CleanSeconds: 3500}
	for name, c := range map[string]struct {
		clients []fleet.Client
		clean   bool
		reason  string
	}{
		"old":            {[]fleet.Client{plane("Pre", old)}, true, ""},
		"one is new":     {[]fleet.Client{plane("Pre", old), plane("Pre", young)}, true, ""},
		"all are new":    {[]fleet.Client{plane("Pre", young)}, false, "clean for 58m0s"},
		"differs now":    {[]fleet.Client{plane("Pre", old), plane("Pre", &fleet.Pre{Seconds: day, Differences: 2})}, false, "1 of 2 data planes in Pre show a difference"},
		"differed":       {[]fleet.Client{plane("Pre", old), plane("Pre", &fleet.Pre{Seconds: 5 * day, CleanSeconds: day})}, false, "clean for 24h0m0s"},
		"differed later": {[]fleet.Client{plane("Pre", old), plane("Pre", &fleet.Pre{Seconds: day, CleanSeconds: 3600})}, false, "clean for 1h0m0s"},
		"silent ones":    {[]fleet.Client{plane("Pre", old), {Mode: "Pre", State: fleet.Silent}}, true, ""},
		"older programs": {[]fleet.Client{plane("Pre", old), plane("Pre", nil)}, false, "1 of 2 data planes in Pre do not say"},
		"done":           {[]fleet.Client{plane("Exec", nil)}, true, ""},
		"partly done":    {[]fleet.Client{plane("Exec", nil), plane("Pre", old)}, true, ""},
		"not begun":      {[]fleet.Client{plane("Exec", nil), plane("False", nil)}, false, "no data plane is in Pre"},
		"nobody":         {nil, false, "no data plane is in Pre"},
	} {
		t.Run(name, func(t *testing.T) {
			url, transport := start(t, &fake{clients: c.clients})
			b := newBoard(t, board.Config{CleanFor: 72 * time.Hour, Clusters: []board.Cluster{one("a", board.Replica{Support: &board.Listener{URL: url, Transport: transport}})}})
			got := b.Ask(t.Context()).Clusters[0]
			if got.Pre == nil || got.Pre.Clean != c.clean || !strings.HasPrefix(got.Pre.Reason, c.reason) || (c.reason == "") != (got.Pre.Reason == "") {
				t.Errorf("got %+v, want clean %v because %q", got.Pre, c.clean, c.reason)
			}
		})
	}
}

// TestAsk: what a cluster says in brief; one that cannot be asked says why, and the next replica is asked afterwards.
func TestAsk(t *testing.T) {
	f := &fake{clients: []fleet.Client{{ID: "p", Mode: "Exec", Version: "v1", State: fleet.Rejected, Reason: "no"}}}
	f.routes.Store(7)
	url, transport := start(t, f)
	good := board.Replica{Name: "r", Support: &board.Listener{URL: url, Transport: transport}}
	b := newBoard(t, board.Config{Clusters: []board.Cluster{
		one("c-good", good),
		{Name: "b-nowhere", Find: func(context.Context) ([]board.Replica, error) { return nil, errors.New("no rights") }},
		one("a-pending", board.Replica{Name: "r", Fault: "the pod is pending"}),
		one("d-other", board.Replica{Support: &board.Listener{URL: url + "/nothing", Transport: transport}}),
	}})
	all := b.Ask(t.Context()).Clusters
	for i, want := range []string{"r: the pod is pending", "no rights", "", "/status: 404 Not Found"} {
		if all[i].Error != want || all[i].AwaySince.IsZero() != (want == "") {
			t.Errorf("%s: error %q, want %q", all[i].Name, all[i].Error, want)
		}
	}
	got := all[2]
	switch {
	case got.State != api.BoardNotice || got.Table.Routes != 7 || got.Kept != 2 || got.Version != "v1.2.3" || got.Replica != "r":
		t.Errorf("got %+v", got)
	case len(got.Reasons) != 1 || got.Reasons[0] != (api.BoardCount{Name: "no_endpoints", Count: 2}):
		t.Errorf("reasons %+v", got.Reasons)
	case len(got.Laggards) != 1 || got.Laggards[0].Reason != "no" || got.Modes["Exec"] != 1 || got.Versions[0].Name != "v1":
		t.Errorf("clients %+v", got)
	case got.Changes != 1 || got.History[0].What != "3 objects":
		t.Errorf("history %+v", got.History)
	}
}

// serve runs a board and returns its URL, and a function that ends it.
func serve(t *testing.T, b *board.Board) (url string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(nil) // for its listener
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, s.Listener) }()
	end = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return "http://" + s.Listener.Addr().String(), end
}

func get(t *testing.T, method, url, host string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Cookie", "mine=1")
	r.Header.Set("Authorization", "Bearer mine")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestPages: names are text, other hosts and methods are refused, and consoles pass without credentials and scripts.
func TestPages(t *testing.T) {
	f := &fake{}
	url, transport := start(t, f)
	b := newBoard(t, board.Config{Clusters: []board.Cluster{one("<b>arn:x/y", board.Replica{Support: &board.Listener{URL: url, Transport: transport}})}})
	at, end := serve(t, b)
	defer end()
	until(t, "an answer", func() bool { _, body := get(t, "GET", at+"/", ""); return strings.Contains(body, "keeps 2 objects") })
	resp, body := get(t, "GET", at+"/", "")
	if strings.Contains(body, "<b>") || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("page: %v\n%s", resp.Header, body)
	}
	for host, want := range map[string]int{"evil.example": 421, "10.0.0.1": 200, "localhost:1": 200, "[::1]:1": 200, "127.0.0.1": 200} {
		if resp, _ := get(t, "GET", at+"/", host); resp.StatusCode != want {
			t.Errorf("host %s: %s, want %d", host, resp.Status, want)
		}
	}
	console := at + "/c/%3Cb%3Earn:x%2Fy/"
	resp, body = get(t, "GET", console+"?q=1", "")
	seen := *f.seen.Load()
	if body != "<p>console q=1" || resp.Header.Get("Set-Cookie") != "" || seen.Get("Cookie")+seen.Get("Authorization") != "" ||
		strings.Contains(resp.Header.Get("Content-Security-Policy"), "script") {
		t.Errorf("console: %v, asked with %v\n%s", resp.Header, seen, body)
	}
	for path, want := range map[string]int{console + "away": 502, console + "nothing": 404, at + "/c/other/": 404, at + "/assets/board.html": 404, at + "/assets/board.js": 200} {
		if resp, _ := get(t, "GET", path, ""); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
	if resp, _ := get(t, "POST", console, ""); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", resp.Status)
	}
}

func TestNewRefusesClusters(t *testing.T) {
	for _, names := range [][]string{{}, {""}, {"a", "a"}} {
		var all []board.Cluster
		for _, name := range names {
			all = append(all, board.Cluster{Name: name})
		}
		if _, err := board.New(board.Config{Clusters: all}); err == nil {
			t.Errorf("no error for %q", names)
		}
	}
}
