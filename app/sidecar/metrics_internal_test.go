package sidecar

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// prometheusText is the output of a Skipper with -metrics-flavour=prometheus -serve-route-counter.
const prometheusText = `# HELP skipper_serve_route_count Total number of requests of serving a route.
# TYPE skipper_serve_route_count counter
skipper_serve_route_count{code="200",method="GET",route="hello"} 5
skipper_serve_route_count{code="404",method="GET",route="_unknownroute_"} 5
skipper_serve_route_count{code="500",method="GET",route="loop"} 1
skipper_serve_route_count{code="502",method="GET",route="dead, code=\"200\" } 7"} 1
skipper_serve_route_count{code="503",method="GET",route="back"} 1
skipper_route_error_total 5
skipper_backend_error_total{route="dead"} 1
skipper_backend_5xx_duration_seconds_count 2
skipper_response_duration_seconds_count{code="503",method="GET",route="back"} 1
skipper_custom_total{key="incoming.HTTP/1.1"} 20
skipper_custom_total{key="incoming.HTTP/2.0"} 2
skipper_custom_total{key="outgoing.HTTP/1.1"} 9
skipper_custom_gauges{key="routes.total"} 7
skipper_custom_gauges{key="routes.updated_timestamp"} 1.795316107e+09
# TYPE skipper_custom_duration_seconds histogram
skipper_custom_duration_seconds_bucket{key="routes.update_latency",le="+Inf"} 3
skipper_custom_duration_seconds_sum{key="routes.update_latency"} 0.5
skipper_custom_duration_seconds_count{key="routes.update_latency"} 3
skipper_route_invalid{reason="unknown_filter",route_id="nofilter"} 1
skipper_route_invalid{reason="unknown_filter",route_id="nofilter2"} 1
skipper_route_invalid{reason="invalid_matcher",route_id="badregexp"} 1
go_goroutines 11
`

const codahaleText = `{"counters":{"skipper.incoming.HTTP/1.1":{"count":22},"skipper.outgoing.HTTP/1.1":{"count":9},"skipper.errors.backend.dead":{"count":1}},
"gauges":{"skipper.routes.total":{"value":7},"skipper.routes.updated_timestamp":{"value":1795316107},"skipper.route.invalid.nofilter.unknown_filter":{"value":1}},
"histograms":{},
"timers":{"skipper.routefailure":{"15m.rate":0.1,"count":5,"max":3},"skipper.all.backend.5xx":{"count":2},"skipper.routes.update_latency":{"count":3,"mean":1.5},
"skipper.response.503.GET.skipper.back":{"count":1}}}`

func number(n uint64) *uint64 { return &n }

func TestFlavours(t *testing.T) {
	at := time.Unix(1795316107, 0).UTC()
	for name, test := range map[string]struct {
		text string
		want fleet.Figures
	}{
		"prometheus": {prometheusText, fleet.Figures{
			Routes: number(7), Updates: number(3), LastApply: at,
			Refused: map[string]uint64{"unknown_filter": 2, "invalid_matcher": 1},
		}},
		"codahale": {codahaleText, fleet.Figures{
			Routes: number(7), Updates: number(3), LastApply: at,
			Refused: map[string]uint64{"unknown_filter": 1},
		}},
		"codahale without a prefix": {strings.ReplaceAll(codahaleText, "skipper.", ""), fleet.Figures{
			Routes: number(7), Updates: number(3), LastApply: at, Refused: map[string]uint64{"unknown_filter": 1},
		}},
		"just started": {"skipper_custom_total{key=\"incoming.HTTP/1.1\"} 1\n", fleet.Figures{}},
	} {
		got, err := parseMetrics(strings.NewReader(test.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatIsNoSkipper(t *testing.T) {
	for _, text := range []string{
		"", "{", "{}", `{"gauges":[]}`, `{"gauges":{"x":1}}`, `{"gauges":{"skipper.x":{"value":1}}}`, "<html>", "go_goroutines 11\n", "skipper_", "skipper_custom_total{key=\"incoming.HTTP/1.1\"} NaN\n",
		"skipper_custom_total{key=\"incoming.HTTP/1.1\"}\n", "skipper_x" + strings.Repeat("x", 70_000),
	} {
		if f, err := parseMetrics(strings.NewReader(text)); err == nil {
			t.Errorf("%.50q is read as %+v", text, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(prometheusText)
	f.Add(codahaleText)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseMetrics(strings.NewReader(text)); err == nil && len(got.Refused) > 9 {
			t.Errorf("%d reasons", len(got.Refused))
		}
	})
}

// skipper serves metrics as a proxy does.
type skipper struct {
	updates int
	applied time.Time
	refused int
	status  int
	padding int
}

func (s *skipper) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	fmt.Fprintf(w, "skipper_custom_duration_seconds_count{key=\"routes.update_latency\"} %d\n", s.updates)
	fmt.Fprintf(w, "skipper_custom_gauges{key=\"routes.updated_timestamp\"} %d\n", s.applied.Unix())
	for i := range s.refused {
		fmt.Fprintf(w, "skipper_route_invalid{reason=\"other\",route_id=\"r%d\"} 1\n", i)
	}
	line := "# " + strings.Repeat("x", 1000) + "\n"
	for range s.padding / len(line) {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

func TestAppliedFollowsFromWhatChanged(t *testing.T) {
	proxy := &skipper{updates: 1, applied: time.Unix(1000, 0), refused: 2}
	srv := httptest.NewServer(proxy)
	defer srv.Close()
	r, err := newMetricsReader(srv.URL+"/metrics", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer r.client.CloseIdleConnections()
	r.client.Timeout = 3 * time.Minute // a busy machine with the race detector parses megabytes slowly
	step := func(what string, fetched int64, want fleet.Applied, refused uint64) {
		t.Helper()
		at := time.Time{}
		if fetched > 0 {
			at = time.Unix(fetched, 700_000_000)
		}
		f, err := r.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Judge(f, at); got != want || f.RefusedNew != refused {
			t.Errorf("%s: %q, %+v, want %q and %d new refused routes", what, got, f, want, refused)
		}
	}
	step("nothing fetched", 0, fleet.AppliedUnknown, 2)
	proxy.updates, proxy.applied = 2, time.Unix(1010, 0)
	step("applied within the second", 1010, fleet.AppliedDone, 0)
	proxy.refused = 3
	step("refuses a route", 1010, fleet.AppliedDone, 1)
	step("fetched another one", 1020, fleet.AppliedFetched, 0)
	proxy.applied = time.Unix(1021, 0)
	step("processing, not counted", 1020, fleet.AppliedFetched, 0)
	proxy.updates = 3
	step("applied", 1020, fleet.AppliedDone, 0)
	proxy.updates, proxy.applied, proxy.refused = 1, time.Unix(1031, 0), 1
	step("restarted, and applied", 1030, fleet.AppliedDone, 1)
}

// large is a Skipper with series for each of many routes. It sends only the families that are asked for, as Prometheus' handler does.
type large struct {
	routes  int
	ignores bool // the names, as an old one
	asked   [][]string
}

func (l *large) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["name[]"]
	l.asked = append(l.asked, names)
	family := func(name, text string) {
		if l.ignores || len(names) == 0 || slices.Contains(names, name) {
			_, _ = io.WriteString(w, text)
		}
	}
	family("process_start_time_seconds", "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.7e+09\n")
	family("skipper_custom_gauges", "skipper_custom_gauges{key=\"routes.total\"} 124000\n")
	family("skipper_custom_total", "skipper_custom_total{key=\"incoming.HTTP/1.1\"} 20\n")
	family("skipper_backend_5xx_duration_seconds", "skipper_backend_5xx_duration_seconds_bucket{le=\"1\"} 2\nskipper_backend_5xx_duration_seconds_count 3\n")
	for _, name := range []string{"skipper_serve_host_duration_seconds", "skipper_serve_route_count", "skipper_response_duration_seconds"} {
		family(name, strings.Repeat(name+"{code=\"503\",method=\"GET\",route=\"kube_team__app__app_example_org____backend\"} 1\n", l.routes))
	}
}

// TestMetricsOfALargeProxyAreRead: with 100,000 routes a Skipper publishes tens of megabytes.
func TestMetricsOfALargeProxyAreRead(t *testing.T) {
	for _, test := range []struct {
		name  string
		proxy large
	}{
		{"names", large{routes: 100_000}}, {"names are ignored", large{routes: 100_000, ignores: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := httptest.NewServer(&test.proxy)
			defer srv.Close()
			var log strings.Builder
			r, err := newMetricsReader(srv.URL+"/metrics?of=proxy", nil, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer r.client.CloseIdleConnections()
			for range 2 {
				f, err := r.Read(t.Context())
				if f == nil || *f.Routes != 124000 || f.Started.Unix() != 1_700_000_000 {
					t.Errorf("%+v, %v, log\n%s", f, err, &log)
				}
			}
			for _, names := range test.proxy.asked {
				if !slices.Equal(names, families()) {
					t.Errorf("asked for %v", names)
				}
			}
		})
	}
}

func TestProxiesThatDoNotAnswer(t *testing.T) {
	proxy := &skipper{updates: 1, status: http.StatusNotFound}
	srv := httptest.NewServer(proxy)
	defer srv.Close()
	var log strings.Builder
	r, err := newMetricsReader(srv.URL, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.client.CloseIdleConnections()
	for _, change := range []func(){
		func() {},
		func() { proxy.status = http.StatusFound },
		func() { proxy.status, proxy.padding = 0, maxMetrics+1<<16 },
	} {
		change()
		if f, err := r.Read(t.Context()); f != nil || err == nil {
			t.Errorf("%+v, %v", f, err)
		}
	}
	proxy.padding = 0
	if f, _ := r.Read(t.Context()); f == nil {
		t.Error("no figures of a proxy that answers")
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want one when it begins and one when it ends:\n%s", n, &log)
	}
	for _, bad := range []string{"", "x", "ftp://a", "http://", "http://u:p@a/"} {
		if _, err := newMetricsReader(bad, nil, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
