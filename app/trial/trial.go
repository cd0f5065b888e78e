// Package trial lets a real proxy load every new filter and predicate before the fleet does.
//
// The proxy reads its table from [Trial.ServeHTTP]. Each [Call] that no trial has accepted yet becomes a route of that table, for a host that
// nobody asks. The trial then looks at the proxy: whether it has the table,
// which routes it refuses, whether its process still is the same, answers requests, and needs no more memory and CPU than before. A call that
// the proxy refuses, dies of, hangs or grows on is found by trying parts of the table.
//
// # Guarantees
//
// A call is accepted only if the proxy has shown that it has the table with the call: see [Verdict]. A call fails for its process only if that happened
// twice, because a process may end for other reasons.
//
// Namespaces do not wait for each other. Each round tries as many calls of one as of any other. If the proxy does not survive a round, it gets parts of
// it until the namespace is found that harmed the proxy; all others are tried again at once. That namespace is tried alone, after the others, and with growing
// delays, until it behaves.
//
// Verdicts belong to a build of the proxy. Another one tries everything again, with all calls of the served table.
//
// # A proxy that is away
//
// While the proxy does not answer, a call waits for [Config.Timeout] and then lapses: [Trial.Review] lets it pass, and the log says so. A call that
// waits because there are many never lapses, nor does one of a namespace that harmed the proxy. While the proxy comes back from a table that it did not survive,
// all calls wait for up to six minutes, the longest pause of a kubelet.
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
	"github.com/routesrv/routesrv/internal/durable"
	"github.com/routesrv/routesrv/table"
)

// Log messages of this package.
const (
	LogSilent   = "trial proxy does not answer"
	LogAnswers  = "trial proxy answers"
	LogFailed   = "text failed its trial"
	LogSuspects = "trial proxy did not survive a table, looking for the text"
	LogLapsed   = "texts pass without a trial, because the trial proxy does not answer"
	LogUnused   = "trial proxy takes no requests, so texts are loaded and not used"
	LogBuild    = "verdicts are about another version of the proxy, everything is tried again"
	LogFile     = "verdicts of trials cannot be read or written, a restart tries every text again"
)

// Kind is the result of a trial.
type Kind string

// The results.
const (
	Accepted Kind = "accepted"
	Refused  Kind = "refused" // the proxy drops routes with the call
	Died     Kind = "died"    // the process of the proxy ended
	Hung     Kind = "hung"    // the proxy does not apply the table any more, or does not answer a request
	Grew     Kind = "grew"    // the proxy needs much more memory, or a whole core
)

// Verdict is the result of the trial of one call.
type Verdict struct {
	Kind  Kind      `json:"verdict"`
	Words string    `json:"words,omitempty"` // of the proxy, or what was seen
	At    time.Time `json:"at"`
}

// Config describes the trial proxy.
type Config struct {
	// Support is the URL of its support listener.
	// Traffic is the URL of the listener for requests; nil means that calls are loaded and not used.
	Support, Traffic *url.URL
	// Timeout is how long a call waits for a proxy that does not answer. Default DefaultTimeout.
	Timeout time.Duration
	// File keeps verdicts over restarts; empty means that they are forgotten.
	File string
	// Served returns the served table, or nil before the first one. A new build of the proxy tries its calls. It may be nil.
	Served func() *table.Table
	// Namespaces returns the namespace of each route of the newest read, by id; "" if no object has it. nil makes all calls those of one namespace.
	Namespaces func() func(id string) string
	// Log may be nil.
	Log *slog.Logger
}

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 10 * time.Second

const (
	// maxSilence is how long a proxy that a trial has ended may need to come back.
	maxSilence = 6 * time.Minute
	// lookEvery is how often a proxy is looked at that has nothing to try.
	lookEvery = 5 * time.Second

	// busyWindows is how often in a row a proxy at rest must be busy before a text fails for that.
	busyWindows = 4

	// strikes is how often a call must have ended or blocked the process before it fails for that.
	strikes = 2
)

// limits say when a proxy is no longer well. They are variables of a trial, so that tests need not wait.
type limits struct {
	fetch  time.Duration // until it has fetched its table: Skippers fetch every 3 seconds by default
	load   time.Duration // from fetching a table to having applied it, and a millisecond for each call; half of it makes others wait
	use    time.Duration // of one request through it, and of all that a round begins with; half of it makes others wait
	rest   time.Duration // how long a proxy that nobody asks is watched
	retry  time.Duration // of questions to a proxy that does not answer
	growth float64       // bytes of memory that a table may cost
	busy   float64       // share of a core that it may use at rest, in one of busyWindows
}

// Trial tries calls. [Trial.Run] does the work; the other methods are safe for concurrent use.
type Trial struct {
	cfg   Config
	doc   document
	proxy proxy
	limits
	log *slog.Logger

	writer *durable.Writer // of the file

	wake    chan struct{} // there is something to try
	changed chan struct{} // there are new verdicts

	mu       sync.Mutex // guards the fields below
	build    string     // of the proxy that the verdicts are of
	known    map[Call]Verdict
	bytes    int           // of the texts in known
	asked    map[Call]*ask // calls without a verdict
	tenants  map[string]*tenant
	suspects search    // of a round that went wrong
	ran      int       // the kind of the last step
	went     bool      // it went well
	reviewed time.Time // when a review has asked last
	silent   error     // why the proxy says nothing; nil if it answers
	since    time.Time // when it fell silent
	harmed   bool      // it did not survive a step, and is not back yet
	tainted  float64   // start of the process that must be replaced; 0 if none
	unused   bool      // it takes no requests
}

// New returns a trial with the verdicts of the file. Run must be called.
func New(cfg Config) *Trial {
	cfg.Log, cfg.Timeout = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), cmp.Or(cfg.Timeout, DefaultTimeout)
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
	t.writer = durable.NewWriter(t.write)
	t.load()
	return t
}

// ServeHTTP serves the table of the trial proxy.
func (t *Trial) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.doc.ServeHTTP(w, r) }

// ServeAlive answers the liveness probe of the proxy: 503 while its process has to be replaced, because it hangs or is busy for good, and 204 else.
func (t *Trial) ServeAlive(w http.ResponseWriter, _ *http.Request) {
	t.mu.Lock()
	bad := t.tainted != 0
	t.mu.Unlock()
	if bad {
		http.Error(w, "the process of the proxy hangs, or is busy for good", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Changed receives after new verdicts.
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
		if v.Kind == Accepted {
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
	return api.TrialFailure{Text: c.Text, Predicate: c.Predicate, Verdict: string(v.Kind), Words: v.Words, At: v.At}
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
