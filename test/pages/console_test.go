package pages_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/console"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what the pages of a test show.
type world struct {
	mu       sync.Mutex
	state    console.Server
	problems []poller.Problem
	view     fleet.Clients
	viewErr  error
	asked    []string // states of the fleet
}

func newWorld() *world {
	now := time.Now()
	return &world{state: console.Server{
		Origin: "cluster", Since: now.Add(-time.Minute),
		Status: api.Status{
			Started: now.Add(-time.Hour),
			Table:   &api.Table{Digest: table.Digest{0, 0xff}, Revision: 100, Routes: 12408, Bytes: 4_200_000, Zones: []string{"a", "b"}, LastRead: now},
		},
	}}
}

func (w *world) config() console.Config {
	return console.Config{
		Name: "routesrv-0", Version: "v1.2.3",
		State: func() console.Server { w.mu.Lock(); defer w.mu.Unlock(); return w.state },
		Problems: func() []poller.Problem {
			w.mu.Lock()
			defer w.mu.Unlock()
			return append([]poller.Problem(nil), w.problems...)
		},
		AcceptCommand: "routesrv accept",
		Fleet: func(_ context.Context, q fleet.Query) (fleet.Clients, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, string(q.State))
			return w.view, w.viewErr
		},
		Every: 50 * time.Millisecond,
	}
}

// handler is the console alone.
func handler(cfg console.Config) http.Handler {
	endpoints := console.New(cfg).Endpoints()
	for i := range endpoints {
		endpoints[i].Listener = "support"
	}
	return httpserve.Mux("support", endpoints)
}

// loopback is a request of an operator through a forwarded port.
func loopback(method, target string, form url.Values) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.RemoteAddr, r.Host = "127.0.0.1:50000", "localhost:9911"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return r
}

func answer(h http.Handler, r *http.Request) (int, string, http.Header) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body)
	return w.Code, string(body), w.Header()
}

func get(t *testing.T, h http.Handler, target string) string {
	t.Helper()
	status, body, _ := answer(h, loopback("GET", target, nil))
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d\n%s", target, status, body)
	}
	return body
}

func problem(namespace, name string, s rules.Severity, message string) poller.Problem {
	return poller.Problem{Problem: rules.Problem{
		Owner: kube.Ref{Kind: kube.KindIngress, Namespace: namespace, Name: name}, Reason: "service_not_found", Severity: s, Message: message,
	}, Since: time.Now().Add(-time.Minute)}
}

func wants(t *testing.T, body string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(body, p) {
			t.Errorf("no %q in the page:\n%s", p, body)
		}
	}
}

func lacks(t *testing.T, body string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(body, p) {
			t.Errorf("%q is in the page:\n%s", p, body)
		}
	}
}

func TestOverviewSaysHowThingsAre(t *testing.T) {
	w := newWorld()
	w.state.Source.LastSuccess, w.state.Source.Failures = time.Now().Add(-3*time.Minute), 7
	w.state.Source.LastError = "list ingresses: connection refused"
	w.state.Newest = &console.Change{At: time.Now().Add(-2 * time.Minute), Object: kube.Ref{Kind: "Ingress", Namespace: "shop-prod", Name: "cart-app"}, By: "argocd<controller"}
	body := get(t, handler(w.config()), "/")
	wants(t, body, "Last change: ", ">Ingress shop-prod/cart-app</a> by argocd&lt;controller", "12\u202f408 routes", "00ff00", "failing", "list ingresses: connection refused", "7 in a row",
		"No table held", "v1.2.3", "routesrv-0", "✕ Source failing")
}

// TestOverviewShowsTheTrialProxyAndTakeovers: with a trial proxy, and after a change that took something.
func TestOverviewShowsTheTrialProxyAndTakeovers(t *testing.T) {
	w := newWorld()
	h := handler(w.config())
	lacks(t, get(t, h, "/"), "Trial proxy", "Takeovers")
	w.state.Trial = &api.Trial{Build: "skipper v0.24.50", Accepted: 1812, Waiting: 2}
	body := get(t, h, "/")
	wants(t, body, "Trial proxy</h2>", "</span> answers</span>", "skipper v0.24.50", "<strong>1\u202f812</strong> texts accepted", `<strong class="">0</strong> failed`, "<strong>2</strong> waiting")
	lacks(t, body, "What failed", "pass without a trial", "does not accept requests", "Takeovers")
	w.state.Trial = &api.Trial{
		Silent: "connection <refused>", Waiting: 3, Lapsed: 3, Unused: true,
		Failed: []api.TrialFailure{{Text: `compress(-1)`, Verdict: "died", Words: "the process ended", At: time.Now().Add(-time.Minute)}},
	}
	w.state.Takeovers = []api.Takeover{{
		At: time.Now().Add(-2 * time.Minute), From: kube.Ref{Kind: kube.KindRouteGroup, Namespace: "shop", Name: "cart"}, To: kube.Ref{Kind: kube.KindIngress, Namespace: "evil", Name: "all"},
		Lost: 1200, Example: "GET https://shop.example.org/cart: RouteGroup shop/cart -> Ingress evil/all",
	}}
	body = get(t, h, "/")
	wants(t, body, "</span> silent</span>", "connection &lt;refused&gt;", `<strong class="notice">1</strong> failed`, `<strong class="notice">3</strong> pass without a trial`, "It does not accept requests",
		"<td>died</td>", "<code>compress(-1)</code>", "the process ended", `Takeovers of the last hour <span class="badge">1</span>`, ">RouteGroup shop/cart</a>", ">Ingress evil/all</a>",
		"1\u202f200", "GET https://shop.example.org/cart: RouteGroup shop/cart -&gt; Ingress evil/all")
	lacks(t, body, "</span> answers</span>")
}

func TestWithoutAFleetThePageSaysSo(t *testing.T) {
	cfg := newWorld().config()
	cfg.Fleet, cfg.Problems, cfg.Relay = nil, nil, true
	h := handler(cfg)
	wants(t, get(t, h, "/"), "No fleet is known", "relay")
	wants(t, get(t, h, "/fleet"), "No fleet is known")
}

// hostile are texts that do harm if they are not escaped.
var hostile = []string{
	`<script>document.title="taken over"</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `'-alert(1)-'`,
	`</title><svg onload=alert(1)>`, "{{.Version}}", "a\u202eb", "c\x1b[31md",
}

// TestHostileNamesStayTexts: others choose the names of objects, hosts, clients and zones.
func TestHostileNamesStayTexts(t *testing.T) {
	w := newWorld()
	for _, s := range hostile {
		w.problems = append(w.problems, problem(s, s, rules.Error, s))
		w.view.Clients = append(w.view.Clients, fleet.Client{
			ID: s, Kind: fleet.Kind(s), Pod: s, Node: s, Zone: s, Version: s, Mode: s, Address: s, Replica: s, Relay: s, State: fleet.Rejected, Reason: s,
			MetricsError: s,
		})
		w.view.Zones = append(w.view.Zones, fleet.Group{Name: s, Counts: fleet.Counts{Rejected: 1}})
		w.view.Versions = w.view.Zones
		w.view.Replicas = append(w.view.Replicas, fleet.Replica{Name: s, Address: s, Error: s})
		w.view.Relays = append(w.view.Relays, fleet.Relay{ID: s, Total: 1})
		w.state.Table.Zones = append(w.state.Table.Zones, s)
	}
	all := strings.Join(hostile, " ")
	w.view.Counts.Rejected, w.view.Total = len(hostile), len(hostile)
	w.state.Origin, w.state.Source.LastError, w.state.Source.Failures = all, all, 1
	w.state.Guard = api.Guard{Held: true, Reason: guard.Code(all), Detail: all, Digest: table.Digest{1}}
	w.state.Trial = &api.Trial{Build: all, Silent: all, Failed: []api.TrialFailure{{Text: all, Verdict: all, Words: all}}}
	w.state.Takeovers = []api.Takeover{{From: kube.Ref{Kind: kube.Kind(all), Namespace: all, Name: all}, To: kube.Ref{Kind: kube.KindIngress, Namespace: all, Name: all}, Example: all}}
	cfg := w.config()
	cfg.Name, cfg.Version = all, all
	h := handler(cfg)
	query := url.Values{"namespace": {all}, "q": {all}, "state": {all}}.Encode()
	for _, target := range []string{"/", "/?" + query, "/fleet", "/fleet?" + query} {
		_, body, header := answer(h, loopback("GET", target, nil))
		lacks(t, body, `<script>document`, "<img", "<svg onload", `href="javascript:`, `<title></title>`, "\u202e", "\x1b")
		if n := strings.Count(body, "<script"); n != 1 {
			t.Errorf("%s has %d scripts, want that of the layout only", target, n)
		}
		if strings.Contains(body, "<style") || strings.Contains(body, " style=") || strings.Contains(body, " onclick") {
			t.Errorf("%s has something inline, which the policy forbids", target)
		}
		if p := header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: policy %q", target, p)
		}
	}
}

func TestProblemsAreChosenByTheQuery(t *testing.T) {
	w := newWorld()
	w.problems = []poller.Problem{
		problem("shop", "cart", rules.Error, "no such thing"), problem("shop", "search", rules.Warning, "odd"), problem("pay", "wallet", rules.Info, "note"),
		problem("", "global", rules.Warning, "odd as well"),
	}
	h := handler(w.config())
	for target, want := range map[string]string{
		"/": "cart search global wallet", "/?namespace=shop": "cart search", "/?namespace=": "cart search global wallet", "/?namespace=-": "global",
		"/?q=warning": "search global", "/?q=WALLET": "wallet", "/?namespace=shop&q=odd": "search", "/?q=RouteGroup": "", "/?q=nothing": "",
	} {
		body := get(t, h, target)
		var got []string
		for _, name := range []string{"cart", "search", "global", "wallet"} {
			if strings.Contains(body, "/"+name+"</a>") || strings.Contains(body, "/"+name+" <span") {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s shows %q, want %q", target, got, want)
		}
	}
	wants(t, get(t, h, "/?namespace=nowhere"), "No problem matches the filter")
}

// TestListsAreBounded: the size of a page is limited however much there is to show.
func TestListsAreBounded(t *testing.T) {
	w, trial := newWorld(), &api.Trial{}
	w.state.Trial = trial
	for i := range 5000 {
		w.problems = append(w.problems, problem(fmt.Sprint("ns", i), strings.Repeat("n", 253), rules.Error, strings.Repeat("m", 5000)))
		w.view.Clients = append(w.view.Clients, fleet.Client{ID: fmt.Sprint("client-", i), State: fleet.Behind, Reason: strings.Repeat("r", 5000)})
		w.view.Zones = append(w.view.Zones, fleet.Group{Name: fmt.Sprint("zone", i)})
		w.view.Replicas = append(w.view.Replicas, fleet.Replica{Name: fmt.Sprint("replica", i), Error: strings.Repeat("e", 5000)})
		w.view.Relays = append(w.view.Relays, fleet.Relay{ID: fmt.Sprint("relay", i)})
		w.state.Table.Zones = append(w.state.Table.Zones, fmt.Sprint("z", i))
		trial.Failed = append(trial.Failed, api.TrialFailure{Text: strings.Repeat("t", 5000), Words: strings.Repeat("w", 5000)})
		w.state.Takeovers = append(w.state.Takeovers, api.Takeover{Example: strings.Repeat("e", 5000)})
	}
	w.view.Counts.Behind, w.view.Total = 5000, 5000
	h := handler(w.config())
	for _, target := range []string{"/", "/fleet"} {
		if body := get(t, h, target); len(body) > 400_000 {
			t.Errorf("%s has %d bytes", target, len(body))
		}
	}
	body := get(t, h, "/")
	wants(t, body, "4\u202f900 more. ", "4\u202f988 more")
	wants(t, get(t, h, "/fleet"), "200 of 5\u202f000 shown")
	if status, _, _ := answer(h, loopback("GET", "/?q="+strings.Repeat("x", 9000), nil)); status != http.StatusRequestURITooLong {
		t.Errorf("a long query gets %d", status)
	}
}

func TestTheFleetIsAskedOnceForManyPages(t *testing.T) {
	w := newWorld()
	w.view.Total, w.view.Counts.Current = 1, 1
	h := handler(w.config())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { answer(h, loopback("GET", "/fleet", nil)) })
	}
	all.Wait()
	if len(w.asked) > 2 { // two if the machine is very slow
		t.Errorf("asked %d times", len(w.asked))
	}
}

// TestProxyThatRefusesRoutesIsNotGreen: neither on the tile nor in the lists, although it holds the current table. The overview
// shows the replicas side by side.
func TestProxyThatRefusesRoutesIsNotGreen(t *testing.T) {
	w := newWorld()
	w.view = fleet.Clients{
		Counts: fleet.Counts{Current: 2, Silent: 1}, Total: 3,
		Clients: []fleet.Client{
			{ID: "ingress/old", State: fleet.Current, Kind: fleet.Sidecar, Refused: 4},
			{ID: "ingress/new", State: fleet.Current, Kind: fleet.Sidecar},
			{ID: "ingress/gone", State: fleet.Silent, Kind: fleet.Sidecar},
		},
		Replicas: []fleet.Replica{
			{Name: "routesrv-0", Self: true, Clients: 3, Table: &fleet.Table{Revision: 41}}, {Name: "routesrv-1", Address: "10.0.0.7:9911", Table: &fleet.Table{Revision: 42}},
		},
	}
	body := get(t, handler(w.config()), "/")
	wants(t, body, "1 refuse routes",
		"refuses routes</span>", "routesrv-1", "10.0.0.7:9911", "41", "42")
	lacks(t, body, "Every client holds the current table")
	wants(t, get(t, handler(w.config()), "/fleet"), "refuses routes")
}

func TestFleetShowsWhoLags(t *testing.T) {
	w := newWorld()
	w.view = fleet.Clients{
		Counts: fleet.Counts{Current: 296, Behind: 2, Rejected: 1, Silent: 1}, Total: 300,
		Clients: []fleet.Client{
			{ID: "ingress/proxy-7", State: fleet.Rejected, Reason: "the guard holds it", Zone: "a", Version: "v1", Kind: fleet.Sidecar},
			{ID: "ingress/proxy-8", State: fleet.Behind, BehindVersions: 3, BehindSeconds: 75, Zone: "b", Version: "v2", Kind: fleet.Sidecar},
			{ID: "10.2.0.9 skipper", State: fleet.Current, Zone: "b", Inferred: true, Kind: fleet.Proxy},
		},
		Zones:    []fleet.Group{{Name: "a", Counts: fleet.Counts{Current: 200, Rejected: 1}}, {Name: "b", Counts: fleet.Counts{Current: 96, Behind: 2, Silent: 1}}},
		Replicas: []fleet.Replica{{Name: "routesrv-0", Self: true, Clients: 300}, {Address: "10.0.0.7:9911", Error: "connection refused"}},
	}
	h := handler(w.config())
	body := get(t, h, "/")
	wants(t, body, "1 rejected", "296 of 300 clients current", "the guard holds it", "3 tables, for 1\u00a0min", "10.0.0.7:9911: connection refused", `href="fleet?q=b"`, `href="clients?id=ingress%2fproxy-7"`)
	body = get(t, h, "/fleet?q=v2")
	wants(t, body, "proxy-8")
	lacks(t, body, "proxy-7")
	wants(t, get(t, h, "/fleet"), "10.2.0.9 skipper", "inferred")
	lacks(t, get(t, h, "/fleet?state=rejected"), "proxy-8")
	wants(t, get(t, h, "/fleet?q=nowhere"), "No client matches the filter")
	w.viewErr = fmt.Errorf("no answer of anybody")
	h = handler(w.config())
	wants(t, get(t, h, "/"), "The fleet could not be asked: no answer of anybody", "12\u202f408 routes")
}

// TestOverviewShowsHistoryAndSteering: with the words of operators and teams as text, whatever they are.
func TestOverviewShowsHistoryAndSteering(t *testing.T) {
	w := newWorld()
	hostile := `<script>alert(1)</script>`
	w.state.Steering = &api.Steering{Orders: []api.Order{{What: "freeze", Scope: "namespace shop", By: "ann", Detail: "namespace shop: " + hostile, Since: time.Now()}}}
	cfg := w.config()
	cfg.History = func(int) []api.HistoryEntry {
		return []api.HistoryEntry{{
			N: 42, At: time.Now().Add(-time.Hour), Count: 7, Added: 3,
			Changes:   []api.HistoryChange{{Ref: kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "cart"}, What: api.ObjectChanged, By: "2026-11-25T12:00:00Z " + hostile}},
			Decisions: []api.Decision{{What: api.DecidedHeld, Objects: "Ingress shop/pay"}, {What: api.DecidedSteered, By: "ann", Why: hostile}},
		}}
	}
	answer := httptest.NewRecorder()
	handler(cfg).ServeHTTP(answer, loopback(http.MethodGet, "/", nil))
	body := answer.Body.String()
	for _, want := range []string{
		"Frozen and pinned", "namespace shop", "Changes of objects", `href="history/42"`, "Ingress shop/cart", "6 more objects", "steered",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, hostile) {
		t.Error("a text is not escaped")
	}
}
