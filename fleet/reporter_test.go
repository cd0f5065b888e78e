package fleet_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reporting is a client with a Reporter, in a synctest bubble.
type reporting struct {
	mu    sync.Mutex // held by the test except while time passes
	state fleet.Report
	none  bool
	fails error
	sent  []*fleet.Report
	log   strings.Builder
}

// Write implements io.Writer for the log.
func (r *reporting) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// run runs the reporter while f changes the client.
func run(t *testing.T, f func(r *reporting)) {
	synctest.Test(t, func(t *testing.T) {
		r := &reporting{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		reporter := &fleet.Reporter{
			Logger: slog.New(slog.NewTextHandler(r, nil)),
			Send: func(_ context.Context, body []byte) error {
				report, err := fleet.ReadReport(strings.NewReader(string(body)))
				if err != nil {
					t.Errorf("%s: %v", body, err)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.sent = append(r.sent, report)
				return r.fails
			},
			Collect: func(time.Time) (fleet.Report, bool) {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.state, !r.none
			},
		}
		go func() { defer close(done); reporter.Run(ctx) }()
		r.mu.Lock()
		f(r)
		r.mu.Unlock()
		cancel()
		<-done
	})
}

// pass lets time pass, and returns the reports sent meanwhile.
func (r *reporting) pass(d time.Duration) []*fleet.Report {
	before := len(r.sent)
	r.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	r.mu.Lock()
	return r.sent[before:]
}

func TestReportsComeAfterAChangeAndEveryTenSeconds(t *testing.T) {
	run(t, func(r *reporting) {
		if sent := r.pass(time.Minute); len(sent) < 5 || len(sent) > 7 {
			t.Errorf("%d reports in a minute, want six", len(sent))
		}
		r.state.Holds = name(1)
		if sent := r.pass(4 * time.Second); len(sent) == 0 || sent[len(sent)-1].Holds != name(1) || len(sent) > 2 {
			t.Errorf("after a change: %+v", sent)
		}
		r.state.Rejected = "guard: no"
		if sent := r.pass(4 * time.Second); len(sent) == 0 || sent[len(sent)-1].Rejected != "guard: no" {
			t.Errorf("after a refusal: %+v", sent)
		}
		r.none = true
		r.pass(3 * time.Second) // one may be in progress
		if sent := r.pass(time.Minute); len(sent) != 0 {
			t.Errorf("%d reports to nobody", len(sent))
		}
	})
}

func TestFailingReportsAreLoggedOnce(t *testing.T) {
	run(t, func(r *reporting) {
		r.fails = errors.New("refused")
		if sent := r.pass(time.Minute); len(sent) < 5 || len(sent) > 7 {
			t.Errorf("%d attempts in a minute, want six", len(sent))
		}
		r.fails = nil
		r.pass(time.Minute)
		if n := strings.Count(r.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines:\n%s", n, &r.log)
		}
	})
}
