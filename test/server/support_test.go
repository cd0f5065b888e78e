package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/app/server"
)

func TestSupportListener(t *testing.T) {
	f := start(t, service+ingress("a"), nil)
	f.ready()
	f.check(f.support, []exchange{
		{"GET", "/nothing", 404, notFoundBody, plainText},
		{"GET", "/routes", 404, notFoundBody, plainText},
		{"GET", "/health", 204, "", nil},
		{"HEAD", "/health", 204, "", nil},
		{"GET", "/debug/pprof/", 404, notFoundBody, plainText},
		{"POST", "/status", 405, "Method Not Allowed\n", map[string]string{"Allow": "GET, HEAD"}},
		{"GET", "/problems", 200, "{\n  \"count\": 0,\n  \"problems\": []\n}\n", map[string]string{"Content-Type": "application/json"}},
	})
	if got := f.request("GET", f.support, "/metrics/"); got.status != 200 || !strings.Contains(got.body, "go_goroutines") {
		t.Errorf("/metrics/: %d, want the metrics with those of the runtime", got.status)
	}
}

// A restart repairs neither an unavailable API nor a missing table: the two probe paths tell them apart.
func TestWithoutATableItIsAliveAndNotReady(t *testing.T) {
	f := &fixture{}
	cfg := f.config(t, "")
	f.breakSource(true)
	f.run(cfg)
	if got := f.request("GET", f.support, "/health"); got.status != http.StatusServiceUnavailable {
		t.Errorf("/health: %d, want 503", got.status)
	}
	if got := f.request("GET", f.support, "/status"); got.status != http.StatusOK {
		t.Errorf("/status: %d, want 200", got.status)
	}
}

func TestProfilesAreThereIfEnabled(t *testing.T) {
	f := start(t, service, func(cfg *server.Config) { cfg.EnableProfile = true })
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/cmdline": 200, "/debug/pprof/symbol": 200, "/debug/pprof/heap": 200,
		"/debug/pprof/trace?seconds=0.01": 200,
	} {
		if got := f.request("GET", f.support, path); got.status != want {
			t.Errorf("%s: %d, want %d", path, got.status, want)
		}
	}
	if got := f.request("GET", f.support, "/debug/pprof"); got.status/100 != 3 || got.header.Get("Location") != "/debug/pprof/" {
		t.Errorf("/debug/pprof: %d to %q, want a redirect", got.status, got.header.Get("Location"))
	}
	if got := f.get("/debug/pprof/"); got.status != 404 {
		t.Errorf("profiles on the main listener: %d", got.status)
	}
}

// status returns /status as JSON with every time replaced by "T", and the numbers that change by themselves by "N".
func (f *fixture) status() string {
	f.t.Helper()
	body := f.request("GET", f.support, "/status").body
	body = regexp.MustCompile(`"20[0-9]{2}-[^"]*"`).ReplaceAllString(body, `"T"`)
	body = regexp.MustCompile(`("age_seconds"): [0-9.e-]+`).ReplaceAllString(body, `$1: "N"`)
	body = regexp.MustCompile(`"((?:first_)?digest)": "[0-9a-f]{64}"`).ReplaceAllString(body, `"$1": "D"`)
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		f.t.Fatal(err, body)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func TestStatusBeforeTheFirstTable(t *testing.T) {
	f := &fixture{}
	cfg := f.config(t, "")
	f.breakSource(true)
	f.run(cfg)
	several := regexp.MustCompile(`"failures":([2-9]|\d\d+),`) // how many there are by now depends on the machine
	f.eventually("failures", func() bool { return several.MatchString(f.status()) })
	got := f.status()
	for _, want := range []string{`"ready":false`, `"last_error":"failed to load cluster state: `, `"revision":0`} {
		if !strings.Contains(got, want) {
			t.Errorf("status %s, want %s in it", got, want)
		}
	}
	if strings.Contains(got, `"table"`) || strings.Contains(got, `"last_success"`) {
		t.Errorf("status %s tells of a table or a read", got)
	}
}

func TestStatus(t *testing.T) {
	f := start(t, service+ingresses("a", "b", "c"), nil)
	f.ready()
	f.polled()
	want := `{"guard":{"held":false},"problems":{"error":0,"info":0,"warning":0},"ready":true,` +
		`"source":{"empty_total":0,"failed_total":0,"failures":0,"initialized":"T","last_attempt":"T","last_success":"T",` +
		`"next_attempt":"T","revision":100,"started":"T","updated":"T"},"started":"T",` +
		`"table":{"age_seconds":"N","bytes":569,"digest":"D","held":false,"last_read":"T","read_revision":100,"revision":100,` +
		`"routes":3,"stale":false,"time":"T","zones":[]},"version":"v1.2.3"}`
	if diff := cmp.Diff(want, f.status()); diff != "" {
		t.Errorf("fresh (-want +got):\n%s", diff)
	}

	f.delete("a", "b")
	f.polled()
	if want := `"guard":{"detail":"2 of 3 pairs of host and path are missing (66.7 %, limit 10.0 %)","digest":"D","held":true,"kept":[` +
		`{"by":"guard","detail":"2 of 3 pairs of host and path are missing (66.7 %, limit 10.0 %)","kind":"Ingress","name":"a","namespace":"shop",` +
		`"reason":"routes_lost","served":"as it was","since":"T","until":"T","waits":"its deletion"},` +
		`{"by":"guard","detail":"2 of 3 pairs of host and path are missing (66.7 %, limit 10.0 %)","kind":"Ingress","name":"b","namespace":"shop",` +
		`"reason":"routes_lost","served":"as it was","since":"T","until":"T","waits":"its deletion"}],"kept_count":2,` +
		`"reason":"routes_lost","release_at":"T","revision":102,"routes":1,"since":"T"}`; !strings.Contains(f.status(), want) {
		t.Errorf("status %s, want %s in it", f.status(), want)
	}
	f.breakSource(true)
	f.eventually("a failure", func() bool {
		return strings.Contains(f.status(), `"last_error":"failed to load cluster state: list /api/v1/services: fault"`)
	})
}

func TestProblemsAreListedWithOwnerReasonAndSeverity(t *testing.T) {
	f := start(t, ingresses("a", "b"), nil)
	f.polled()
	body := f.request("GET", f.support, "/problems").body
	var got struct {
		Count    int
		Problems []map[string]any
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Count != 2 || len(got.Problems) != 2 || got.Problems[0]["since"] == "" {
		t.Fatalf("problems %s", body)
	}
	delete(got.Problems[0], "since")
	delete(got.Problems[0], "id")   // from the compiler
	delete(got.Problems[0], "text") // likewise
	want := map[string]any{
		"owner":  map[string]any{"kind": "Ingress", "namespace": "shop", "name": "a"},
		"reason": "service_not_found", "severity": "error", "message": "Failed to get service s, 80",
	}
	if diff := cmp.Diff(want, got.Problems[0]); diff != "" {
		t.Errorf("problem (-want +got):\n%s", diff)
	}
	if !strings.Contains(f.status(), `"problems":{"error":2,"info":0,"warning":0}`) {
		t.Errorf("status %s does not count the problems", f.status())
	}
	if !strings.Contains(f.metrics(), `routesrv_problems{kind="Ingress",reason="service_not_found"} 2`) {
		t.Error("the problems are not counted in the metrics")
	}
}

// held starts a server that holds a table back, and returns its digest.
func held(t *testing.T) (f *fixture, digest string) {
	t.Helper()
	f = start(t, service+ingresses("a", "b", "c"), nil)
	f.ready()
	f.delete("a", "b")
	f.polled()
	var s struct{ Guard struct{ Digest string } }
	if err := json.Unmarshal([]byte(f.request("GET", f.support, "/status").body), &s); err != nil || s.Guard.Digest == "" {
		t.Fatalf("error %v, nothing is held", err)
	}
	return f, s.Guard.Digest
}

// TestNothingIsAcceptedOverTCP: whatever the request says of itself, from wherever it comes.
func TestNothingIsAcceptedOverTCP(t *testing.T) {
	f, digest := held(t)
	for _, header := range [][]string{nil, {"Host: LOCALHOST"}, {"Host: routesrv.example.org"}, {"X-Forwarded-For: 127.0.0.1"}, {"Origin: http://localhost"}} {
		for _, method := range []string{"POST", "GET", "PUT"} {
			got := f.request(method, f.support, "/guard/accept?by=kubernetes-admin&why=x&digest="+digest, header...)
			if got.status != http.StatusNotFound {
				t.Errorf("%s %v: %d %q", method, header, got.status, got.body)
			}
		}
	}
	if got := f.get("/routes").header.Get("X-Count"); got != "3" {
		t.Errorf("%s routes are served, want the previous ones", got)
	}
}

func TestAcceptanceOverTheSocket(t *testing.T) {
	f, digest := held(t)
	for _, tt := range []struct {
		name, query string
		status      int
		want        string
	}{
		{"no digest", "", 400, "GET /guard/held"},
		{"bad digest", "?digest=xyz", 400, "digest: digest has 3 characters, must have 64"},
		{"other digest", "?digest=" + strings.Repeat("0", 63) + "1", 409, "another table is held: " + digest},
		{"right digest", "?by=ann&digest=" + digest, 200, `"routes": 1,`},
		{"again", "?digest=" + digest, 409, "no table is held"},
	} {
		if got := f.accept(tt.query); got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %d %q, want %d with %q", tt.name, got.status, got.body, tt.status, tt.want)
		}
	}
	if got := f.get("/routes").header.Get("X-Count"); got != "1" {
		t.Errorf("%s routes are served, want the accepted one", got)
	}
	if want := `"last_release":{"accepted":true,"at":"T","by":"ann","digest":"D","reason":"routes_lost"}`; !strings.Contains(f.status(), want) {
		t.Errorf("status %s, want %s in it", f.status(), want)
	}
}

func TestAcceptanceNamesTheTable(t *testing.T) {
	f, digest := held(t)
	if got := f.accept(""); got.status != 400 || f.get("/routes").header.Get("X-Count") != "3" {
		t.Errorf("without a digest: %d %q", got.status, got.body)
	}
	if got := f.accept("?digest=" + digest); got.status != 200 || f.get("/routes").header.Get("X-Count") != "1" {
		t.Errorf("%d %q", got.status, got.body)
	}
	if !strings.Contains(f.metrics(), "\nroutesrv_guard_held 0\n") {
		t.Error("the gauge still says that a table is held")
	}
}

func TestMetricsHaveTheSeriesOfTheReference(t *testing.T) {
	f := &fixture{}
	cfg := f.config(t, service+ingress("a"))
	shards(&cfg)
	f.breakSource(true)
	f.run(cfg)
	f.get("/routes") // 404: there is no table yet
	f.breakSource(false)
	f.ready()
	etag := f.get("/routes").header.Get("Etag")
	f.get("/routes", "If-None-Match: "+etag)
	f.request("POST", f.main, "/routes")
	f.get("/swarm/redis/shards")
	f.get("/swarm/valkey/shards")
	f.breakSource(true)
	f.eventually("an error", func() bool { return strings.Contains(f.status(), `"last_error"`) })

	var got []string
	for line := range strings.Lines(f.metrics()) {
		for _, family := range []string{"routesrv_custom_", "routesrv_backend_"} {
			if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, family) && !strings.Contains(name, "le=") {
				got = append(got, name)
			}
		}
	}
	slices.Sort(got)
	want := []string{
		`routesrv_backend_combined_duration_seconds_count`,
		`routesrv_backend_combined_duration_seconds_sum`,
		`routesrv_backend_duration_seconds_count{host="",route="routersv",zone=""}`,
		`routesrv_backend_duration_seconds_sum{host="",route="routersv",zone=""}`,
		`routesrv_custom_gauges{key="polling_started_timestamp"}`,
		`routesrv_custom_gauges{key="redis_endpoints"}`,
		`routesrv_custom_gauges{key="routes.byte"}`,
		`routesrv_custom_gauges{key="routes.initialized_timestamp"}`,
		`routesrv_custom_gauges{key="routes.total"}`,
		`routesrv_custom_gauges{key="routes.updated_timestamp"}`,
		`routesrv_custom_gauges{key="valkey_endpoints"}`,
		`routesrv_custom_total{key="200"}`,
		`routesrv_custom_total{key="304"}`,
		`routesrv_custom_total{key="404"}`,
		`routesrv_custom_total{key="405"}`,
		`routesrv_custom_total{key="routes.empty"}`,
		`routesrv_custom_total{key="routes.fetch_errors"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	guide, err := os.ReadFile("../../docs/start/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want {
		name, labels, _ := strings.Cut(name, "{")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_count"), "_sum")
		if !strings.Contains(string(guide), "`"+name) || labels != "" && !strings.Contains(string(guide), "{"+labels+"`") {
			t.Errorf("the guide for those who move over does not tell of %s{%s", name, labels)
		}
	}
}

func TestSeriesOfTheReferenceHaveItsValues(t *testing.T) {
	f := start(t, service+ingress("a"), shards)
	f.ready()
	f.polled()
	bytes := len(f.get("/routes").body)
	f.get("/swarm/redis/shards")
	metrics := "\n" + f.metrics()
	for _, want := range []string{
		`routesrv_custom_gauges{key="routes.total"} 1`,
		fmt.Sprintf(`routesrv_custom_gauges{key="routes.byte"} %d`, bytes),
		`routesrv_custom_gauges{key="redis_endpoints"} 3`,
		`routesrv_custom_gauges{key="valkey_endpoints"} 0`,
		`routesrv_custom_total{key="200"} 1`,
		`routesrv_custom_total{key="routes.fetch_errors"} 0`,
		`routesrv_custom_total{key="routes.empty"} 0`,
		`routesrv_backend_combined_duration_seconds_count 1`,
		`routesrv_table_routes 1`,
		`routesrv_table_stale 0`,
		`routesrv_guard_held 0`,
		`routesrv_table_responses_total{code="200",encoding="identity"} 1`,
		`routesrv_source_last_read_timestamp_seconds `,
		`routesrv_poll_phase_duration_seconds_count{phase="publish"} 1`,
	} {
		if !strings.HasSuffix(want, " ") {
			want += "\n"
		}
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
	f.delete("a")
	f.eventually("empty", func() bool { return !strings.Contains(f.metrics(), `{key="routes.empty"} 0`) })
}

func TestMetricsPassTheLinter(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.StateDir = t.TempDir() })
	f.ready()
	f.get("/routes")
	problems, err := testutil.GatherAndLint(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "routesrv_custom_") { // a name of the reference
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestServerWithoutSupportListenerServes(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.SupportAddress = "" })
	f.ready()
	f.logged("no support listener")
}

func TestSupportListenerThatFailsIsSaidAndNotMore(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := start(t, service+ingress("a"), func(cfg *server.Config) {
		cfg.SupportAddress = taken.Addr().String()
	})
	f.ready()
	lines := f.logged("failed support listener")
	if len(lines) != 1 || !strings.Contains(lines[0], "-support-listener") || !strings.Contains(lines[0], "address already in use") {
		t.Errorf("log %q", lines)
	}
}
