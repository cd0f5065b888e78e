package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// lookEvery is how often a Reporter looks whether something has changed.
const lookEvery = time.Second

// Reporter sends the reports of one client. Send and Collect are required.
type Reporter struct {
	// Send sends the JSON form of a report. It returns within seconds.
	Send func(ctx context.Context, body []byte) error
	// Collect returns what there is to say, without figures; it is cheap. ok is false if there is nobody to report to.
	Collect func(now time.Time) (r Report, ok bool)
	// Figures reads those of the proxy, within a second or two, and when. nil, and a nil result: there are none.
	Figures func(ctx context.Context, fetched time.Time) (*Figures, Applied)
	Logger  *slog.Logger // nil means no log

	last    Report    // that was sent last, or tried
	due     time.Time // of the next one if nothing changes
	failing bool
	figures *Figures
	read    time.Time // of figures
	applied Applied
	about   Name // the table that applied is about
}

// Run reports until ctx ends: within a second or so after a change, and every ten seconds, with a tenth more or less left to chance.
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

// jitter gives a tenth more or less, so that a fleet does not report at one moment.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// look sends a report if there is something to say.
func (r *Reporter) look(ctx context.Context) {
	now := time.Now()
	report, ok := r.Collect(now)
	if !ok {
		return
	}
	due := !now.Before(r.due)
	if !due && report.Holds == r.last.Holds && report.Fetched == r.last.Fetched && report.Rejected == r.last.Rejected {
		return
	}
	if due && r.Figures != nil {
		fetched := time.Time{}
		if !report.Fetched.IsZero() {
			fetched = now.Add(-seconds(report.FetchedAgo))
		}
		r.figures, r.applied = r.Figures(ctx, fetched)
		r.read, r.about = time.Now(), report.Fetched
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
	waited := time.Since(now).Seconds() // for the proxy
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
	r.last = report // one that failed is not tried before the next is due, unless there is news
}

func (r *Reporter) send(ctx context.Context, report *Report) error {
	body, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return r.Send(ctx, body)
}

// said logs when reports begin or cease to arrive.
func (r *Reporter) said(err error) {
	switch {
	case err != nil && !r.failing:
		r.Logger.Info("reports do not arrive: the route server sees this client by its requests only", "error", err)
	case err == nil && r.failing:
		r.Logger.Info("reports arrive again")
	}
	r.failing = err != nil
}
