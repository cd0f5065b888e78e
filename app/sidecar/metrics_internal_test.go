package sidecar

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
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
process_start_time_seconds 1.7953160005e+09
go_goroutines 11
`

func TestMetricsOfASkipper(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want figures
	}{
		"with a table": {prometheusText, figures{
			started: time.Unix(1795316000, 500_000_000), applied: time.Unix(1795316107, 0), table: true, refused: 3,
		}},
		"with the times of samples": {"skipper_custom_total{key=\"incoming.HTTP/1.1\"} 1 1795316107000\nprocess_start_time_seconds 1795316000 1795316107000\n", figures{
			started: time.Unix(1795316000, 0),
		}},
		"just started": {"skipper_custom_total{key=\"incoming.HTTP/1.1\"} 1\n", figures{}},
	} {
		got, err := parseMetrics(strings.NewReader(test.text))
		if err != nil || !got.started.Equal(test.want.started) || !got.applied.Equal(test.want.applied) || got.table != test.want.table || got.refused != test.want.refused {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
}

func TestWhatIsNoSkipper(t *testing.T) {
	for _, text := range []string{
		"", "{", `{"gauges":{"skipper.routes.total":{"value":7}}}`, "<html>", "process_start_time_seconds 1795316000\n", "go_goroutines 11\n", "skipper_", "skipper_custom_total{key=\"incoming.HTTP/1.1\"} NaN\n",
		"skipper_custom_total{key=\"incoming.HTTP/1.1\"}\n", "skipper_x" + strings.Repeat("x", 70_000),
	} {
		if f, err := parseMetrics(strings.NewReader(text)); err == nil {
			t.Errorf("%.50q is read as %+v", text, f)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(prometheusText)
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseMetrics(strings.NewReader(text)); err == nil && got.refused > 1<<40*uint64(len(text)) {
			t.Errorf("%d routes", got.refused)
		}
	})
}

// skipper serves metrics as a proxy does.
type skipper struct {
	status  int
	padding int
}

func (s *skipper) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	_, _ = io.WriteString(w, "skipper_custom_total{key=\"incoming.HTTP/1.1\"} 1\n")
	line := "# " + strings.Repeat("x", 1000) + "\n"
	for range s.padding / len(line) {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
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
				if f == nil || !f.table || f.started.Unix() != 1_700_000_000 {
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
	proxy := &skipper{status: http.StatusNotFound}
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
