package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/eskip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn behaves as a proxy does, as far as a trial sees it. What a filter does to it is in the name of the filter.
type standIn struct {
	t       *testing.T
	trial   http.Handler
	support *url.URL
	traffic *url.URL

	born time.Time

	mu      sync.Mutex
	start   float64
	deaths  atomic.Int64
	down    time.Time // until when it does not answer
	stuck   bool      // applies no table any more
	busy    float64   // share of a core that it uses at rest
	loading time.Time // until when it uses a whole core more, because it loads a table
	memory  float64
	etag    string
	applied []*eskip.Route
	build   string
	absent  bool // nothing fetches the table

	slow     time.Duration // that a process takes to come back
	immortal bool
	deaf     bool // it takes no requests
	old      bool // it does not know ?invalid=true
}

func newStandIn(t *testing.T) *standIn {
	return &standIn{
		t: t, born: time.Now(), start: 1000, memory: 50 << 20, build: "go1.26",
		support: &url.URL{Scheme: "http", Host: "127.0.0.1:9911"}, traffic: &url.URL{Scheme: "http", Host: "127.0.0.1:9090"},
	}
}

// RoundTrip answers requests to both listeners in memory, so that a test can run in a bubble of its own time. A handler that panics breaks its
// connection.
func (s *standIn) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			answer, err = nil, fmt.Errorf("%s: connection reset: %v", r.URL.Host, broken)
		}
	}()
	w := httptest.NewRecorder()
	if r.URL.Host == s.support.Host {
		s.serveSupport(w, r)
	} else {
		s.serveTraffic(w, r)
	}
	return w.Result(), nil
}

// poll fetches the table as a proxy does.
func (s *standIn) poll(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // its polls are what time brings
		s.mu.Lock()
		skip := s.absent || s.stuck || time.Now().Before(s.down)
		etag := s.etag
		s.mu.Unlock()
		if skip {
			continue
		}
		request := httptest.NewRequest(http.MethodGet, "/trial/routes", nil)
		request.RemoteAddr = "127.0.0.1:4711"
		request.Header.Set("User-Agent", "Go-http-client/1.1")
		request.Header.Set("If-None-Match", etag)
		answer := httptest.NewRecorder()
		s.trial.ServeHTTP(answer, request)
		if answer.Code == http.StatusOK {
			s.apply(answer.Header().Get("ETag"), eskip.MustParse(answer.Body.String()))
		}
	}
}

func (s *standIn) apply(etag string, routes []*eskip.Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etag = etag
	for _, r := range routes {
		for _, f := range r.Filters {
			switch f.Name {
			case "dieAtLoad":
				if !s.immortal {
					s.die()
					return
				}
			case "hangAtLoad":
				s.stuck = true
				return
			case "growAtLoad":
				s.memory += 1 << 30
			case "busyAtLoad":
				s.busy = 0.2 // all that a busy machine gives to one that spins
			case "slowAtLoad":
				s.loading = time.Now().Add(40 * time.Millisecond)
			}
		}
	}
	s.applied = routes
}

// die ends the process; another one starts a moment later.
func (s *standIn) die() {
	s.deaths.Add(1)
	s.start++
	s.down = time.Now().Add(30*time.Millisecond + s.slow)
	s.stuck, s.busy, s.memory, s.etag, s.applied = false, 0, 50<<20, "", nil
}

// restartIfTold replaces the process when its liveness probe says so.
func (s *standIn) restartIfTold(ctx context.Context, trial *Trial) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		answer := httptest.NewRecorder()
		if trial.ServeAlive(answer, nil); answer.Code != http.StatusNoContent {
			s.mu.Lock()
			if s.stuck || s.busy > 0 || s.memory > 1<<30 {
				s.die()
			}
			s.mu.Unlock()
		}
	}
}

func (s *standIn) serveSupport(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.down) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case r.URL.Path == "/metrics":
		cpu := 1.0
		cpu += s.busy * time.Since(s.born).Seconds()
		if since := time.Since(s.born); !s.loading.IsZero() {
			cpu += min(since, s.loading.Sub(s.born)).Seconds()
		}
		fmt.Fprintf(w, "process_start_time_seconds %f\nprocess_resident_memory_bytes %f\nprocess_cpu_seconds_total %f\ngo_info{version=%q} 1\n", s.start, s.memory, cpu, s.build)
	case r.URL.Query().Has("invalid"):
		type refused struct {
			ID    string `json:"id"`
			Error string `json:"error"`
		}
		list := []refused{}
		for _, route := range s.applied {
			bad := slices.ContainsFunc(route.Filters, func(f *eskip.Filter) bool { return f.Name == "refused" })
			switch {
			case s.old && !bad:
				list = append(list, refused{ID: route.Id})
			case bad && !s.old:
				list = append(list, refused{route.Id, "invalid_filter_params: refused: no"})
			}
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			s.t.Error(err)
		}
	case r.URL.Path == "/routes":
		ids := []string{}
		for _, route := range s.applied {
			ids = append(ids, route.Id)
		}
		slices.Sort(ids)
		if len(ids) > 0 {
			fmt.Fprintf(w, "%s: * -> <shunt>;", ids[0])
		}
	}
}

func (s *standIn) serveTraffic(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.deaf {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	var filter string
	for _, route := range s.applied {
		if len(route.Filters) > 0 && strings.Contains(route.String(), strings.ReplaceAll(r.Host, ".", "[.]")) {
			filter = route.Filters[0].Name
		}
	}
	if filter == "dieInUse" && strings.Contains(r.Header.Get("Accept-Encoding"), "br") {
		s.die()
	}
	s.mu.Unlock()
	switch filter {
	case "dieInUse":
		panic(http.ErrAbortHandler)
	case "hangInUse":
		s.mu.Lock()
		s.stuck = true
		s.mu.Unlock()
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case "tee", "tarpit":
		s.t.Error("a request went through " + filter)
	}
	http.Error(w, "no route", http.StatusNotFound)
}

// start runs a trial with a stand-in until the test ends.
func start(t *testing.T, s *standIn, cfg Config) *Trial {
	t.Helper()
	cfg.Support, cfg.Traffic = s.support, s.traffic
	trial := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(s.serve(ctx, trial))
	t.Cleanup(cancel)
	return trial
}

// serve runs a trial and its proxy until the context ends, which the returned function waits for.
func (s *standIn) serve(ctx context.Context, trial *Trial) (wait func()) {
	trial.limits = limits{fetch: 300 * time.Millisecond, load: 300 * time.Millisecond, use: 300 * time.Millisecond, rest: 20 * time.Millisecond, retry: 10 * time.Millisecond, growth: 256 << 20, busy: 0.1}
	s.trial = trial
	trial.proxy.client.Transport = s
	var running sync.WaitGroup
	for _, run := range []func(){func() { trial.Run(ctx) }, func() { s.poll(ctx) }, func() { s.restartIfTold(ctx, trial) }} {
		running.Go(run)
	}
	return running.Wait
}

// judged waits for the verdicts of calls.
func judged(t *testing.T, trial *Trial, calls []Call) map[string]Verdict {
	t.Helper()
	for {
		if trial.Ask(calls) == 0 {
			found := map[string]Verdict{}
			for _, f := range trial.Status().Failed {
				found[f.Text] = Verdict{Result: Result(f.Verdict), Words: f.Words, At: f.At}
			}
			return found
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("no verdict: %+v", trial.Status())
		case <-trial.Changed():
		}
	}
}

func calls(texts ...string) (all []Call) {
	for _, text := range texts {
		all = append(all, Call{Text: text})
	}
	return all
}

// harmless are calls that every proxy accepts.
func harmless(n int) (all []Call) {
	for i := range n {
		all = append(all, Call{Text: fmt.Sprintf("setPath(\"/%d\")", i)})
	}
	return append(all, Call{Text: `Cookie("a", "^b$")`, Predicate: true}, Call{Text: "slowAtLoad()"}, Call{Text: `tee("https://shop.example.org")`}, Call{Text: "tarpit(\"1s\")"})
}

// TestWhatAProxyDoesNotSurviveIsFound: among harmless calls, each kind of failure is found, and nothing else fails.
func TestWhatAProxyDoesNotSurviveIsFound(t *testing.T) {
	for text, want := range map[string]Result{
		"refused()": Refused, "dieAtLoad()": Died, "hangAtLoad()": Hung, "growAtLoad()": Grew, "busyAtLoad()": Grew, "dieInUse()": Died, "hangInUse()": Hung,
	} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStandIn(t)
				trial := start(t, s, Config{})
				all := append(harmless(20), calls(text)...)
				got := judged(t, trial, all)
				if v := got[text]; len(got) != 1 || v.Result != want || v.Words == "" {
					t.Errorf("failed are %+v, want %s", got, want)
				}
				if st := trial.Status(); st.Accepted != len(all)-1 || st.Waiting+st.Suspects != 0 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

func TestSeveralAtOnce(t *testing.T) { synctest.Test(t, testSeveralAtOnce) }

func testSeveralAtOnce(t *testing.T) {
	s := newStandIn(t)
	trial := start(t, s, Config{})
	got := judged(t, trial, append(harmless(30), calls("dieAtLoad(1)", "dieAtLoad(2)", "refused()", "dieInUse()")...))
	if len(got) != 4 || got["dieAtLoad(1)"].Result != Died || got["dieAtLoad(2)"].Result != Died || got["refused()"].Result != Refused || got["dieInUse()"].Result != Died {
		t.Errorf("failed are %+v", got)
	}
}

// TestOneThatFailsInUseCostsNoOtherItsTrial: the half of a table that went wrong has a call that ends the proxy with a request, and another one, which
// gets its verdict, too.
func TestOneThatFailsInUseCostsNoOtherItsTrial(t *testing.T) {
	synctest.Test(t, testOneThatFailsInUseCostsNoOtherItsTrial)
}

func testOneThatFailsInUseCostsNoOtherItsTrial(t *testing.T) {
	for _, inUse := range []string{"dieInUse()", "hangInUse()"} {
		trial := start(t, newStandIn(t), Config{})
		all := calls("dieAtLoad(1)", "dieAtLoad(2)", inUse, "setPath(1)") // halved in this order
		if got := judged(t, trial, all); len(got) != 3 || got[inUse].Result == "" || trial.Status().Accepted != 1 {
			t.Errorf("failed are %+v, status %+v", got, trial.Status())
		}
	}
}

// TestKnownCallsCostNothing: the proxy is asked once for each call.
func TestKnownCallsCostNothing(t *testing.T) { synctest.Test(t, testKnownCallsCostNothing) }

func testKnownCallsCostNothing(t *testing.T) {
	s := newStandIn(t)
	trial := start(t, s, Config{})
	all := append(harmless(3), calls("refused()", "dieAtLoad()")...)
	judged(t, trial, all)
	deaths := s.deaths.Load()
	if n := trial.Ask(all); n != 0 || s.deaths.Load() != deaths {
		t.Errorf("%d calls wait, the proxy died %d times more", n, s.deaths.Load()-deaths)
	}
}

// TestAnotherBuildTriesAgain: what one version refuses, the next one may know.
func TestAnotherBuildTriesAgain(t *testing.T) { synctest.Test(t, testAnotherBuildTriesAgain) }

func testAnotherBuildTriesAgain(t *testing.T) {
	s := newStandIn(t)
	trial := start(t, s, Config{})
	judged(t, trial, calls("refused()"))
	s.mu.Lock()
	s.build = "go1.27"
	s.mu.Unlock()
	judged(t, trial, calls("setPath(1)"))
	if trial.Ask(calls("refused()")) == 0 {
		t.Error("verdicts of the old build count")
	}
}

// TestAProxyThatFetchesNothingIsTold: the status says what is wrong with how it was started.
func TestAProxyThatFetchesNothingIsTold(t *testing.T) {
	synctest.Test(t, testAProxyThatFetchesNothingIsTold)
}

func testAProxyThatFetchesNothingIsTold(t *testing.T) {
	s := newStandIn(t)
	s.absent = true
	trial := start(t, s, Config{})
	trial.Ask(harmless(2))
	for !strings.Contains(trial.Status().Silent, "-routes-urls") {
		if t.Context().Err() != nil {
			t.Fatalf("%+v", trial.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCalls(t *testing.T) {
	routes := eskip.MustParse(`a: Path("/x") && Host("^x$") && Method("GET") && Cookie("c", "d") && HeaderRegexp("X", "y") -> compress(-1) -> setPath("/") -> "http://10.0.0.1";
		b: PathRegexp("^/a") && Weight(3) -> setPath("/") -> <shunt>;`)
	var got []string
	for _, c := range Calls(routes...) {
		got = append(got, c.Text)
	}
	want := []string{`Cookie("c", "d")`, `HeaderRegexp("X", "y")`, `PathRegexp("^/a")`, "compress(-1)", `setPath("/")`}
	if !slices.Equal(got, want) {
		t.Errorf("calls are %q, want %q", got, want)
	}
	// A filter and a predicate may have the same text.
	both := eskip.MustParse(`a: Traffic(1) -> Traffic(1) -> <shunt>; b: Traffic(1) -> Traffic(1) -> <shunt>; c: * -> Traffic(1) -> <shunt>;`)
	if got := Calls(both...); len(got) != 2 {
		t.Errorf("calls are %v, want the filter and the predicate once", got)
	}
	var doc document
	doc.set(Calls(routes...))
	if _, err := eskip.Parse(doc.text); err != nil {
		t.Errorf("%v:\n%s", err, doc.text)
	}
}
