// Package trial lets a real proxy load every new filter and predicate before the fleet does.
//
// The proxy reads its table from [Trial.ServeHTTP]. Each new [Call] becomes a route of that table, for an unused host. The trial
// then checks whether the proxy has applied the table, which routes it refuses, whether the same process still answers requests,
// and whether it needs more memory or CPU than before. A call that the proxy refuses or does not survive is found by bisection.
//
// # Guarantees
//
// A call is accepted only after the proxy has shown that it has the table with the call: see [Verdict]. A call fails because of
// the process only if that happened twice: a process may end for other reasons.
//
// Namespaces do not wait for each other. Each round tries the same number of calls of each. If the proxy does not survive a
// round, parts of it are tried until the harmful namespace is found; all others are retried at once. That namespace is then tried
// alone, after the others, with growing delays.
//
// Verdicts are in memory, and belong to a build of the proxy. After a restart, and with another build, everything is tried again,
// including all calls of the served table.
//
// # Without an answer
//
// While the proxy does not answer, a call waits for [Config.Timeout] and then lapses: [Trial.Review] lets it pass, which is
// logged. A call that waits in a long queue never lapses, nor does one of a harmful namespace. While the proxy restarts after a
// table that it did not survive, all calls wait for up to six minutes, the longest back-off of a kubelet.
package trial

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/table"
)

// Log messages of this package.
const (
	LogSilent = "trial proxy does not answer"
	LogFailed = "text failed its trial"
	LogLapsed = "texts pass without a trial, because the trial proxy does not answer"
)

// Result is the result of a trial.
type Result string

// The results.
const (
	Accepted Result = "accepted"
	Refused  Result = "refused" // the proxy drops routes with the call
	Died     Result = "died"    // the process of the proxy ended
	Hung     Result = "hung"    // the proxy does not apply the table, or does not answer a request
	Grew     Result = "grew"    // the proxy needs much more memory, or a whole core
)

// Verdict is the result of the trial of one call.
type Verdict struct {
	Result Result
	Words  string // of the proxy, or what was observed
	At     time.Time
}

// Config describes the trial proxy.
type Config struct {
	// Support is the URL of its support listener, Traffic that for requests. With a nil Traffic, calls are loaded but not exercised.
	Support, Traffic *url.URL
	// Timeout is how long a call waits for a proxy that does not answer. Default DefaultTimeout.
	Timeout time.Duration
	// Served returns the served table, or nil before the first one. A new build of the proxy tries its calls. It may be nil.
	Served func() *table.Table
	// Namespaces returns a function from the ids of routes of the newest read to their namespaces; "" if no object has the route.
	// With nil, all calls belong to one namespace.
	Namespaces func() func(id string) string
	// Log may be nil.
	Log *slog.Logger
}

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 10 * time.Second

const (
	maxSilence  = 6 * time.Minute // for a restart after a trial
	lookEvery   = 5 * time.Second // at an idle proxy
	busyWindows = 4               // in a row in which an idle proxy must be busy before a text fails
	strikes     = 2               // against a call, which ended or blocked the process, before it fails
)

// limits of a healthy proxy. They are not constants, so that tests need not wait.
type limits struct {
	fetch  time.Duration // to fetch its table: Skippers fetch every 3 seconds by default
	load   time.Duration // to apply a fetched table, plus a millisecond for each call; half of it counts as slow
	use    time.Duration // for one request, and for all requests of a round; half of it counts as slow
	rest   time.Duration // for which an idle proxy is sampled
	retry  time.Duration // between queries of a proxy that does not answer
	growth float64       // bytes of memory that a table may cost
	busy   float64       // share of a core that it may use while idle, in one of busyWindows
}

// Trial tries calls. [Trial.Run] does the work; the other methods are safe for concurrent use.
type Trial struct {
	cfg   Config
	doc   document
	proxy proxy
	limits
	log *slog.Logger

	wake    chan struct{} // there is something to try
	changed chan struct{} // there are new verdicts

	mu       sync.Mutex // guards the fields below
	build    string     // of the proxy with these verdicts
	known    map[Call]Verdict
	asked    map[Call]*ask // calls without a verdict
	tenants  map[string]*tenant
	suspects search    // of a failed round
	ran      int       // the kind of the last step
	went     bool      // the last step succeeded
	left     bool      // the last round left units out, see careful
	reviewed time.Time // of the last review
	silent   error     // why the proxy does not answer; nil if it does
	since    time.Time // when it fell silent
	harmed   bool      // it did not survive a step, and has not restarted yet
	tainted  float64   // start time of the process that must be replaced; 0 if none
	unused   bool      // it does not accept requests
}

// New returns a trial without verdicts. Run must be called.
func New(cfg Config) *Trial {
	cfg.Log, cfg.Timeout = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), cmp.Or(cfg.Timeout, DefaultTimeout)
	if cfg.Namespaces == nil {
		cfg.Namespaces = func() func(string) string { return oneNamespace }
	}
	t := &Trial{
		cfg: cfg, log: cfg.Log, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		limits: limits{
			fetch: 10 * time.Second, load: 3 * time.Second, use: 1500 * time.Millisecond, rest: time.Second, retry: 500 * time.Millisecond, growth: 256 << 20, busy: 0.1,
		},
		known: map[Call]Verdict{}, asked: map[Call]*ask{}, tenants: map[string]*tenant{},
		proxy: proxy{support: cfg.Support, traffic: cfg.Traffic, client: &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}},
	}
	t.doc.local = loopback(cfg.Support.Host)
	t.doc.set(nil)
	return t
}

func oneNamespace(string) string { return "" }

// ServeHTTP serves the table of the trial proxy.
func (t *Trial) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.doc.ServeHTTP(w, r) }

// ServeAlive answers the liveness probe of the proxy: 503 while its process must be replaced because it hangs or is permanently
// busy; 204 otherwise.
func (t *Trial) ServeAlive(w http.ResponseWriter, _ *http.Request) {
	t.mu.Lock()
	bad := t.tainted != 0
	t.mu.Unlock()
	if bad {
		http.Error(w, "the process of the proxy hangs, or is permanently busy", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Changed returns a channel that receives after new verdicts.
func (t *Trial) Changed() <-chan struct{} { return t.changed }

// Status returns the state.
func (t *Trial) Status() api.Trial {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := api.Trial{Build: t.build, Waiting: len(t.asked), Unused: t.unused, Failed: []api.TrialFailure{}}
	if t.silent != nil {
		s.Silent = t.silent.Error()
	}
	searched := t.suspects.calls()
	for c, a := range t.asked {
		if a.lapsed {
			s.Lapsed++
		}
		if searched[c] || t.suspected(a) {
			s.Suspects++
		}
	}
	for c, v := range t.known {
		if v.Result == Accepted {
			s.Accepted++
		} else {
			s.Failed = append(s.Failed, resultOf(c, v))
		}
	}
	slices.SortFunc(s.Failed, func(a, b api.TrialFailure) int {
		return compareCalls(Call{a.Text, a.Predicate}, Call{b.Text, b.Predicate})
	})
	return s
}

func resultOf(c Call, v Verdict) api.TrialFailure {
	return api.TrialFailure{Text: c.Text, Predicate: c.Predicate, Verdict: string(v.Result), Words: v.Words, At: v.At}
}

// The series of a trial.
var (
	upDesc = prometheus.NewDesc("routesrv_trial_proxy_up", "1 while the trial proxy answers; at 0 new filters and predicates pass without a trial.", nil, nil)

	textsDesc = prometheus.NewDesc("routesrv_trial_texts", "Filters and predicates by verdict: accepted, refused, died, hung, grew or waiting.",
		[]string{"verdict"}, nil)
)

// Describe implements [prometheus.Collector].
func (t *Trial) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- upDesc
	descriptions <- textsDesc
}

// Collect implements [prometheus.Collector].
func (t *Trial) Collect(series chan<- prometheus.Metric) {
	s := t.Status()
	up := 1.0
	if s.Silent != "" {
		up = 0
	}
	series <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
	counts := map[string]int{string(Accepted): s.Accepted, string(Refused): 0, string(Died): 0, string(Hung): 0, string(Grew): 0, "waiting": s.Waiting}
	for _, f := range s.Failed {
		counts[f.Verdict]++
	}
	for verdict, n := range counts {
		series <- prometheus.MustNewConstMetric(textsDesc, prometheus.GaugeValue, float64(n), verdict)
	}
}
