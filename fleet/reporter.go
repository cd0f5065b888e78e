package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

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
