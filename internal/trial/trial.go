// Package trial lets a real proxy load every new filter and predicate before the fleet does.
//
// The fleet's own proxy image runs as a second container beside the route server and reads its table from [Trial.ServeHTTP]. Each [Call] that
// no trial has accepted yet becomes a route of that table, for a host that nobody asks. The trial then looks at the proxy: whether it has the table,
// which routes it refuses, whether its process still is the same, answers requests, and needs no more memory and CPU than before. A call that
// the proxy refuses, dies of, hangs or grows on is found by halving.
//
// # Guarantees
//
// A call is accepted only if the proxy has shown that it has the table with the call: see [Verdict]. A call fails for its process only if that happened
// twice. What was not tried within the timeout passes, because a helper must never freeze a fleet; but not what was in a table that the
// proxy did not survive.
//
// Verdicts belong to a build of the proxy. Another image tries everything again.
package trial

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Log messages of this package.
const (
	LogSilent   = "trial proxy does not answer: changes are served without a trial"
	LogAnswers  = "trial proxy answers"
	LogFailed   = "text failed its trial: no proxy of the fleet gets it"
	LogUntried  = "texts are served without a trial, the trial proxy has not loaded them in time"
	LogSuspects = "trial proxy did not survive a table, looking for the text by halving"
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

// Failure is a call that failed.
type Failure struct {
	Call
	Verdict
}

// DefaultTimeout is how long a call waits for a proxy that does not answer.
const DefaultTimeout = 10 * time.Second

// Config describes the trial proxy.
type Config struct {
	// Support is the URL of its support listener, and Traffic that of the listener for requests; nil means that calls are loaded and not used.
	Support, Traffic *url.URL
	// Timeout is how long a call waits for a proxy that does not answer; default DefaultTimeout.
	Timeout time.Duration
	// File keeps the verdicts over restarts; empty means that they are only in memory.
	File string
	// Log may be nil.
	Log *slog.Logger
}

const (
	maxBatch = 5000  // calls in one table
	maxKnown = 50000 // verdicts of one build

	// strikes is how often a call must have ended or blocked the process before it fails for that.
	strikes = 2
)

// limits say when a proxy is no longer well. They are variables of a trial, so that tests need not wait.
type limits struct {
	load   time.Duration // from fetching a table to having applied it
	use    time.Duration // of one request through it
	rest   time.Duration // how long a proxy that nobody asks is watched
	retry  time.Duration // of questions to a proxy that does not answer
	growth float64       // bytes of memory that a table may cost
	busy   float64       // share of a core that it may use at rest
}

func defaultLimits() limits {
	return limits{load: 5 * time.Second, use: 2 * time.Second, rest: time.Second, retry: 500 * time.Millisecond, growth: 256 << 20, busy: 0.9}
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
	build    string     // of the proxy that the verdicts are of
	known    map[Call]Verdict
	asked    map[Call]time.Time // calls without a verdict, by when they were first asked for; the zero time if they have passed
	suspects map[Call]int       // calls that were in a table that went wrong, and how often they were alone in it
	batches  [][]Call           // parts of tables that went wrong, to be tried first
	loading  map[Call]bool      // in the table that the proxy has fetched
	silent   error              // why the proxy says nothing; nil if it answers
	tainted  float64            // start of the process that must be replaced; 0 if none
}

// New returns a trial with the verdicts of an earlier process. Run must be called.
func New(cfg Config) *Trial {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Trial{
		cfg: cfg, log: cfg.Log, limits: defaultLimits(), wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		known: map[Call]Verdict{}, asked: map[Call]time.Time{}, suspects: map[Call]int{}, loading: map[Call]bool{},
		proxy: proxy{support: cfg.Support, traffic: cfg.Traffic, client: &http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}},
	}
	t.doc.set(nil)
	t.remember()
	return t
}

// ServeHTTP serves the table of the trial proxy.
func (t *Trial) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.doc.ServeHTTP(w, r) }

// Alive says whether the process of the proxy can still be used, for its liveness probe: one that hangs or is busy for good must be replaced before
// anything else is tried.
func (t *Trial) Alive() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tainted == 0
}

// Changed receives after new verdicts.
func (t *Trial) Changed() <-chan struct{} { return t.changed }

// Judge returns the calls that failed, and whether the trial of others is still in progress. It asks for the trial of calls without a verdict.
// now is the time; a call that has waited for too long passes.
func (t *Trial) Judge(calls []Call, now time.Time) (failed []Failure, pending bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	passed := 0
	for _, c := range calls {
		if v, ok := t.known[c]; ok {
			if v.Kind != Accepted {
				failed = append(failed, Failure{c, v})
			}
			continue
		}
		since, asked := t.asked[c]
		if !asked {
			since = now
			t.asked[c] = now
			notify(t.wake)
		}
		if _, suspect := t.suspects[c]; suspect || t.loading[c] || now.Sub(since) < t.cfg.Timeout {
			pending = true
		} else if !since.IsZero() {
			t.asked[c] = time.Time{}
			passed++
		}
	}
	if passed > 0 {
		t.log.Error(LogUntried, "count", passed, "after", t.cfg.Timeout)
	}
	return failed, pending
}

// Status describes a trial.
type Status struct {
	Build    string    `json:"build,omitempty"` // of the proxy
	Silent   string    `json:"silent,omitempty"`
	Accepted int       `json:"accepted"`
	Waiting  int       `json:"waiting"`
	Suspects int       `json:"suspects"`
	Failed   []Failure `json:"failed"`
}

// Status returns the state.
func (t *Trial) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Status{Build: t.build, Waiting: len(t.asked), Suspects: len(t.suspects), Failed: []Failure{}}
	if t.silent != nil {
		s.Silent = t.silent.Error()
	}
	for c, v := range t.known {
		if v.Kind == Accepted {
			s.Accepted++
		} else {
			s.Failed = append(s.Failed, Failure{c, v})
		}
	}
	slices.SortFunc(s.Failed, func(a, b Failure) int { return compareCalls(a.Call, b.Call) })
	return s
}

// notify wakes whoever waits for a channel of one place.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run tries calls until the context ends.
func (t *Trial) Run(ctx context.Context) {
	for ctx.Err() == nil {
		batch := t.next()
		if len(batch) == 0 {
			select {
			case <-ctx.Done():
			case <-t.wake:
			}
			continue
		}
		t.try(ctx, batch)
	}
}

// next returns the calls to try next: parts of tables that went wrong first, and each alone if it went wrong before.
func (t *Trial) next() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.batches); n > 0 {
		batch := t.batches[n-1]
		t.batches = t.batches[:n-1]
		return batch
	}
	var batch []Call
	for c := range t.asked {
		if _, suspect := t.suspects[c]; suspect {
			continue
		}
		if batch = append(batch, c); len(batch) == maxBatch {
			break
		}
	}
	slices.SortFunc(batch, compareCalls)
	return batch
}
