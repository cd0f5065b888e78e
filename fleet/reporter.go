package fleet

import (
	"context"
	"encoding/json"
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
	// Collect returns the report; it is cheap. ok is false if there is no receiver.
	Collect func(now time.Time) (r Report, ok bool)
	Logger  *slog.Logger // nil means no log

	last    Report    // last sent or tried
	due     time.Time // when to send the next one if nothing changes
	failing bool
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

func (r *Reporter) look(ctx context.Context) {
	now := time.Now()
	report, ok := r.Collect(now)
	if !ok {
		return
	}
	last, due := &r.last, !now.Before(r.due)
	if !due && report.Holds == last.Holds && report.Rejected == last.Rejected && report.Proven == last.Proven &&
		report.Refused == last.Refused && sameSuspects(report.Suspects, last.Suspects) {
		return
	}
	body, err := json.Marshal(report)
	if err == nil {
		err = r.Send(ctx, body)
	}
	if ctx.Err() != nil {
		return
	}
	r.said(err)
	if due || err != nil {
		r.due = time.Now().Add(jitter(ReportEvery))
	}
	r.last = report // after a failure, retry when the next report is due, or earlier on a change
}

func (r *Reporter) said(err error) {
	switch {
	case err != nil && !r.failing:
		r.Logger.Info("cannot send reports: the route server sees only the requests of this client", "error", err)
	case err == nil && r.failing:
		r.Logger.Info("sending reports works again")
	}
	r.failing = err != nil
}
