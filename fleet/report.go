package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"
	"unique"

	"github.com/routesrv/routesrv/table"
)

// Limits of a report.
const (
	MaxReport    = 4 << 10 // bytes of the JSON form
	maxReason    = 256
	maxRefused   = 12 // reasons for refused routes
	maxRefusedID = 32
	maxSuspects  = 4 // of one client
)

// Report is what a client reports, in addition to its [Identity]: after each change and at least every ten seconds. The JSON form
// is the body of POST /clients.
type Report struct {
	Canary bool `json:"-"` // the client belongs to the canary: the server tells it by the path of the report

	Holds Name `json:"holds,omitzero"` // verified and applied by the client; zero if none
	// HoldsAgo is for how long, in seconds before the report: clocks differ, so times are sent as ages.
	HoldsAgo float64 `json:"holds_ago_seconds,omitempty"`
	Fetched  Name    `json:"fetched,omitzero"` // last fetched by its proxy; zero if none
	// FetchedAgo is how many seconds ago that was.
	FetchedAgo float64 `json:"fetched_ago_seconds,omitempty"`
	Applied    Applied `json:"applied,omitempty"`
	// Rejected is why the client does not accept the table that it was sent; empty if it does.
	Rejected string `json:"rejected,omitempty"`
	// Figures are the proxy's figures, and FiguresAgo is how many seconds ago they were read; their Time is not used here.
	Figures    *Figures `json:"figures,omitempty"`
	FiguresAgo float64  `json:"figures_ago_seconds,omitempty"`
	// FiguresError is why the metrics of the proxy cannot be read; empty if they can, or are not read at all.
	FiguresError string `json:"figures_error,omitempty"`
	// Proven is the last table with which the client's proxy has run for 30 s; zero if there is none.
	Proven Name `json:"proven,omitzero"`
	// Suspects are tables that probably crashed the client's proxy.
	Suspects []Suspect `json:"suspects,omitempty"`
	// Pre is how the two tables of a client in mode Pre compare; nil in other modes, and before the first comparison.
	Pre *Pre `json:"pre,omitempty"`
	// Clients is a relay's summary of its clients.
	Clients *Counts `json:"clients,omitempty"`
}

// Pre is how the computed table of a client in mode Pre compares with the fetched one.
type Pre struct {
	// Seconds is the time since its first comparison. A restart, or a change of the mode, begins a new period.
	Seconds float64 `json:"seconds"`
	// CleanSeconds is for how long all comparisons have been clean; 0 if the last one was not, or while none is possible.
	CleanSeconds float64 `json:"clean_seconds"`
	Differences  int     `json:"differences,omitempty"` // that count now
	Ready        bool    `json:"ready,omitempty"`       // its own cutover check has passed
}

// Name identifies a table.
type Name struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision,omitempty"`
}

// IsZero reports whether it names no table.
func (n Name) IsZero() bool { return n.Digest == table.Digest{} }

// ReadReport reads and checks the JSON form, of at most [MaxReport] bytes.
func ReadReport(r io.Reader) (*Report, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxReport+1))
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if len(body) > MaxReport {
		return nil, fmt.Errorf("the report has more than %d bytes", MaxReport)
	}
	report := &Report{}
	if err := json.Unmarshal(body, report); err != nil {
		return nil, fmt.Errorf("parse the report: %w", err)
	}
	return report, report.check()
}

// check rejects what none of our clients sends, and makes texts safe to store and to show.
func (r *Report) check() error {
	r.Rejected, r.FiguresError = printable(r.Rejected, maxReason), printable(r.FiguresError, maxReason)
	for _, name := range []*Name{&r.Holds, &r.Fetched, &r.Proven} {
		if name.IsZero() {
			*name = Name{} // a revision alone names no table
		}
	}
	switch {
	case r.Applied != AppliedUnknown && r.Applied != AppliedFetched && r.Applied != AppliedDone:
		return errors.New(`applied must be "fetched", "applied" or empty`)
	case !isAge(r.HoldsAgo) || !isAge(r.FetchedAgo) || !isAge(r.FiguresAgo):
		return errors.New("ages must be seconds, from 0 to one year")
	case r.Pre != nil && (!isAge(r.Pre.Seconds) || !isAge(r.Pre.CleanSeconds) || r.Pre.Differences < 0):
		return errors.New("pre: times must be seconds, from 0 to one year, and differences must not be negative")
	case r.Clients != nil && min(r.Clients.Current, r.Clients.Behind, r.Clients.Rejected, r.Clients.Silent) < 0:
		return errors.New("clients: counts must not be negative")
	case r.Clients != nil && max(r.Clients.Current, r.Clients.Behind, r.Clients.Rejected, r.Clients.Silent) > 1e6:
		return errors.New("clients: counts must be at most a million")
	}
	if err := checkSuspects(r.Suspects); err != nil {
		return err
	}
	if r.Figures == nil {
		return nil
	}
	if len(r.Figures.Refused) > maxRefused {
		return fmt.Errorf("refused: must have at most %d reasons", maxRefused)
	}
	for reason := range r.Figures.Refused {
		if len(reason) == 0 || len(reason) > maxRefusedID || !isPlain(reason) {
			return fmt.Errorf("refused: a reason must be 1 to %d letters, digits and _", maxRefusedID)
		}
	}
	return nil
}

func isAge(seconds float64) bool { return seconds >= 0 && seconds <= (365*24*time.Hour).Seconds() }

// figures stores [Figures] in a quarter of the memory.
type figures struct {
	read       int64
	lastApply  int64 // 0 for none
	values     [figureCount]uint64
	refusedNew uint64
	refused    *refusal // nil for none
	has        uint8    // one bit for each value
}

// figureCount is the number of counters in Figures.
const figureCount = 5

// refusal is how many routes a proxy has refused for a reason.
type refusal struct {
	reason unique.Handle[string]
	routes uint64
	next   *refusal
}

// counters returns pointers to the counters of f.
func (f *Figures) counters() [figureCount]**uint64 {
	return [figureCount]**uint64{&f.Requests, &f.Errors, &f.NoRoute, &f.Routes, &f.Updates}
}

// keepFigures returns the compact form of f, read at the given time.
func keepFigures(f *Figures, read time.Time) *figures {
	kept := &figures{read: read.UnixNano(), refusedNew: f.RefusedNew}
	if !f.LastApply.IsZero() {
		kept.lastApply = f.LastApply.UnixNano()
	}
	for i, value := range f.counters() {
		if *value != nil {
			kept.values[i] = **value
			kept.has |= 1 << i
		}
	}
	for reason, n := range f.Refused {
		kept.refused = &refusal{unique.Make(reason), n, kept.refused}
	}
	return kept
}

// show returns the public form.
func (kept *figures) show() *Figures {
	f := &Figures{Time: timeOf(kept.read), RefusedNew: kept.refusedNew}
	if kept.lastApply != 0 {
		f.LastApply = timeOf(kept.lastApply)
	}
	for i, value := range f.counters() {
		if kept.has&(1<<i) != 0 {
			n := kept.values[i]
			*value = &n
		}
	}
	for r := kept.refused; r != nil; r = r.next {
		if f.Refused == nil {
			f.Refused = make(map[string]uint64)
		}
		f.Refused[r.reason.Value()] = r.routes
	}
	return f
}

// lookEvery is how often a Reporter checks for changes.
const lookEvery = time.Second

// Reporter sends the reports of one client. Send and Collect are required.
type Reporter struct {
	// Send sends the JSON form of a report. It returns within seconds.
	Send func(ctx context.Context, body []byte) error
	// Collect returns the report without figures; it is cheap. ok is false if there is no receiver.
	Collect func(now time.Time) (r Report, ok bool)
	// Figures returns the proxy's last figures, within a second or two. A nil function or result means that figures are not
	// available.
	Figures func(ctx context.Context, fetched time.Time) (*Figures, Applied, error)
	Logger  *slog.Logger // nil means no log

	last    Report    // last sent or tried
	due     time.Time // when to send the next one if nothing changes
	failing bool
	figures *Figures
	unread  error     // why figures is nil
	read    time.Time // when the figures were read
	applied Applied
	about   Name // the table that applied refers to
}

// Run reports until ctx ends: within about a second after a change, and every ten seconds with jitter of a tenth.
func (r *Reporter) Run(ctx context.Context) {
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	timer := time.NewTimer(jitter(lookEvery))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			r.look(ctx)
			timer.Reset(jitter(lookEvery))
		}
	}
}

// jitter varies a duration by up to a tenth, so that the clients of a fleet do not report at the same moment.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// look sends a report if it is due.
func (r *Reporter) look(ctx context.Context) {
	now := time.Now()
	report, ok := r.Collect(now)
	if !ok {
		return
	}
	due := !now.Before(r.due)
	if !due && report.Holds == r.last.Holds && report.Fetched == r.last.Fetched && report.Rejected == r.last.Rejected && report.Proven == r.last.Proven && sameSuspects(report.Suspects, r.last.Suspects) {
		return
	}
	if due && r.Figures != nil {
		fetched := time.Time{}
		if !report.Fetched.IsZero() {
			fetched = now.Add(-seconds(report.FetchedAgo))
		}
		r.figures, r.applied, r.unread = r.Figures(ctx, fetched)
		if r.read, r.about = time.Now(), report.Fetched; r.figures != nil && !r.figures.Time.IsZero() {
			r.read = r.figures.Time
		}
	}
	if report.Applied = AppliedUnknown; !report.Fetched.IsZero() {
		report.Applied = AppliedFetched
		if r.about == report.Fetched && r.figures != nil {
			report.Applied = r.applied
		}
	}
	if r.figures != nil {
		report.Figures, report.FiguresAgo = r.figures, max(0, time.Since(r.read).Seconds())
	}
	if r.unread != nil {
		report.FiguresError = printable(r.unread.Error(), maxReason)
	}
	waited := time.Since(now).Seconds() // waited for the proxy
	report.HoldsAgo += waited
	report.FetchedAgo += waited
	err := r.send(ctx, &report)
	if ctx.Err() != nil {
		return
	}
	r.said(err)
	if due || err != nil {
		r.due = time.Now().Add(jitter(ReportEvery))
	}
	r.last = report // after a failure, retry when the next report is due, or earlier on a change
}

func (r *Reporter) send(ctx context.Context, report *Report) error {
	body, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return r.Send(ctx, body)
}

// said logs when reports begin to fail or to succeed again.
func (r *Reporter) said(err error) {
	switch {
	case err != nil && !r.failing:
		r.Logger.Info("cannot send reports: the route server sees only the requests of this client", "error", err)
	case err == nil && r.failing:
		r.Logger.Info("sending reports works again")
	}
	r.failing = err != nil
}
