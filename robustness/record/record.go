// Package record collects what happens during a run into a [history.History]. Everybody who sees something writes it down here,
// at the time of one clock.
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
	"github.com/routesrv/routesrv/robustness/history"
)

// Config says what is kept.
type Config struct {
	Tables int64 // bytes of texts of tables, at most: the first ones are kept
	// Marker is a text that tells the last table from all others: see Marked.
	Marker string
	// OnlyMarked has only texts with the marker kept, and all taken for tables as they are: for tables of many megabytes.
	OnlyMarked bool
}

// Recorder writes down a run. All methods are safe for concurrent use.
type Recorder struct {
	start time.Time
	cfg   Config

	mu       sync.Mutex // guards what follows
	h        history.History
	ended    bool
	kept     int64
	refusals map[string]string         // by digest: why the text is no table; empty if it is one
	marked   map[string]bool           // by digest, of all texts
	last     map[string]history.Answer // by client, of those that changed what it holds
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

// Now is the time since the start of the run.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Started is when the run began.
func (r *Recorder) Started() time.Time { return r.start }

// Offset is a moment as a time since the start; zero for no moment.
func (r *Recorder) Offset(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(r.start)
}

// Watch has the functions called for every answer and every event from now on, from the goroutine that records them; either
// may be nil. They must not use the recorder.
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

// Read records what the API gave.
func (r *Recorder) Read(c history.Read) {
	record(r, &r.h.Reads, c)
}

// Fault records a fault that has ended.
func (r *Recorder) Fault(f history.Fault) {
	record(r, &r.h.Faults, f)
}

// Event records what a process or an operator did.
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

// Sample records what a process used.
func (r *Recorder) Sample(s history.Sample) {
	record(r, &r.h.Samples, s)
}

// Answer records what a client received.
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

// Held is the last answer of the client by which it knows what it holds; false if there is none.
func (r *Recorder) Held(client string) (history.Answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.last[client]
	return a, ok
}

// Text is the text of a table; empty if it was not kept.
func (r *Recorder) Text(digest string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.h.Tables[digest]
}

// Marked reports whether a table has the marker, and whether its text was ever seen.
func (r *Recorder) Marked(digest string) (marked, seen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	marked, seen = r.marked[digest]
	return marked, seen
}

// Table gives the digest of a text that a client received, and why it is no table, or "". Each text is parsed once.
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

// Counts are how many changes and answers there are so far.
func (r *Recorder) Counts() (changes, answers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.h.Changes), len(r.h.Answers)
}

// End gives what was recorded, in order of time. What comes later is dropped.
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
