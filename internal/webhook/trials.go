package webhook

import (
	"context"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// Failures asks route servers what failed their trials.
type Failures func(context.Context) ([]api.TrialFailure, error)

// LogTrialsUnknown says that no route server answers questions about trials. Reviews go on with what was known last.
const LogTrialsUnknown = "no route server says what failed its trials (--peers), so the webhook does not warn of what is new there"

// followFailures keeps what the judge knows of trials up to date until the context ends. Reads of the cluster do not wait for it.
func (s *Server) followFailures(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Interval)
	defer tick.Stop()
	for unknown := false; ; {
		failed, err := s.cfg.Failures(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.judge.TakeFailures(failed)
		case !unknown:
			s.log.Warn(LogTrialsUnknown, "error", err)
		}
		unknown = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
