// Package record collects the events of a run in a [history.History], with the times of one clock.
package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// Config sets what to keep.
type Config struct {
	Tables int64 // maximum bytes of texts of tables: the first ones are kept
	// Marker is a text that identifies the last table: see Marked.
	Marker string
	// OnlyMarked keeps only texts with the marker, and accepts all texts as tables without parsing: for tables of many megabytes.
	OnlyMarked bool
}

// Recorder records a run. All methods are safe for concurrent use.
type Recorder struct {
	start time.Time
	cfg   Config

	mu       sync.Mutex // guards the fields below
	h        history.History
	ended    bool
	kept     int64
	refusals map[string]string         // by digest: why the text is not a table; empty if it is one
	marked   map[string]bool           // by digest, of all texts
	last     map[string]history.Answer // by client, of the answers that changed its table
	answers  func(history.Answer)
	events   func(history.Event)
}

// New starts the clock.
func New(cfg Config) *Recorder {
	return &Recorder{
		start: time.Now(), cfg: cfg, marked: make(map[string]bool), h: history.History{Tables: make(map[string]string)},
		refusals: make(map[string]string), last: make(map[string]history.Answer),
	}
}

// Now returns the time since the start of the run.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Started returns when the run began.
func (r *Recorder) Started() time.Time { return r.start }

// Offset returns a moment as the time since the start; zero for the zero time.
func (r *Recorder) Offset(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(r.start)
}

// Watch makes the recorder call the functions for every later answer and event, in the goroutine that records them; either may be
// nil. They must not use the recorder.
func (r *Recorder) Watch(answers func(history.Answer), events func(history.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers, r.events = answers, events
}

// record adds an entry to one of the lists, until the run has ended.
func record[T any](r *Recorder, list *[]T, entry T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		*list = append(*list, entry)
	}
}

// Change records a write to the API.
func (r *Recorder) Change(c history.Change) {
	record(r, &r.h.Changes, c)
}

// Read records an answer of the API.
func (r *Recorder) Read(c history.Read) {
	record(r, &r.h.Reads, c)
}

// Fault records a fault that has ended.
func (r *Recorder) Fault(f history.Fault) {
	record(r, &r.h.Faults, f)
}

// Event records an action of a process or an operator.
func (r *Recorder) Event(e history.Event) {
	r.mu.Lock()
	if !r.ended {
		r.h.Events = append(r.h.Events, e)
	}
	f := r.events
	r.mu.Unlock()
	if f != nil {
		f(e)
	}
}

// Publication records a table that a process published.
func (r *Recorder) Publication(p history.Publication) {
	record(r, &r.h.Publications, p)
}

// Sample records the resource usage of a process.
func (r *Recorder) Sample(s history.Sample) {
	record(r, &r.h.Samples, s)
}

// Answer records a client's answer.
func (r *Recorder) Answer(a history.Answer) {
	r.mu.Lock()
	if !r.ended {
		r.h.Answers = append(r.h.Answers, a)
		if a.Outcome == history.Applied || a.Outcome == history.Unchanged {
			r.last[a.Client] = a
		}
	}
	f := r.answers
	r.mu.Unlock()
	if f != nil {
		f(a)
	}
}

// Held returns the last answer from which the client knows its table; false if there is none.
func (r *Recorder) Held(client string) (history.Answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.last[client]
	return a, ok
}

// Died returns how often a client died.
func (r *Recorder) Died(client string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.h.Events {
		if e.Member == client && e.Name == "died" {
			n++
		}
	}
	return n
}

// Text returns the text of a table; empty if it was not kept.
func (r *Recorder) Text(digest string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.h.Tables[digest]
}

// Marked reports whether a table has the marker, and whether its text was ever received.
func (r *Recorder) Marked(digest string) (marked, seen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	marked, seen = r.marked[digest]
	return marked, seen
}

// Table returns the digest of a text that a client received, and why it is not a table, or "". Each text is parsed once.
func (r *Recorder) Table(text string) (digest, refusal string) {
	sum := sha256.Sum256([]byte(text))
	digest = hex.EncodeToString(sum[:])
	r.mu.Lock()
	refusal, known := r.refusals[digest]
	r.mu.Unlock()
	if known {
		return digest, refusal
	}
	if r.cfg.OnlyMarked {
		refusal = ""
	} else if _, err := eskip.Parse(text); err != nil {
		refusal = "does not parse: " + err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals[digest] = refusal
	r.marked[digest] = r.cfg.Marker != "" && strings.Contains(text, r.cfg.Marker)
	wanted := r.marked[digest] || !r.cfg.OnlyMarked
	if _, kept := r.h.Tables[digest]; wanted && !kept && refusal == "" && r.kept+int64(len(text)) <= r.cfg.Tables {
		r.h.Tables[digest] = text
		r.kept += int64(len(text))
	}
	return digest, refusal
}

// Counts returns how many changes and answers there are so far.
func (r *Recorder) Counts() (changes, answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.h.Changes), len(r.h.Answers)
}

// End returns the record, ordered by time. Later entries are dropped.
func (r *Recorder) End(run history.Run) *history.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	h := r.h
	h.Run = run
	slices.SortStableFunc(h.Reads, func(a, b history.Read) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.Faults, func(a, b history.Fault) int { return cmp.Compare(a.From, b.From) })
	slices.SortStableFunc(h.Events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(h.Answers, func(a, b history.Answer) int { return cmp.Compare(a.End, b.End) })
	slices.SortStableFunc(h.Samples, func(a, b history.Sample) int { return cmp.Compare(a.At, b.At) })
	return &h
}
