package poller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// Log messages of this package; problems have their own.
const (
	LogMoreProblems     = "more problems, see /problems"
	LogProblemsResolved = "problems resolved"
)

// Problem is a problem found by the compiler, with the time of the read that first showed it.
type Problem struct {
	rules.Problem
	Since time.Time
}

// Report returns the problem for /problems.
func (p Problem) Report() api.Problem {
	return api.Problem{
		ID: p.ID(), Owner: p.Owner, Route: p.Route, Reason: string(p.Reason), Severity: p.Severity.String(), Message: p.Message, Cause: p.Cause,
		Text: p.Text(), Since: p.Since,
	}
}

// CountBySeverity returns how many problems have each severity.
func CountBySeverity(problems []Problem) map[string]int {
	counts := map[string]int{"error": 0, "warning": 0, "info": 0}
	for _, p := range problems {
		counts[p.Severity.String()]++
	}
	return counts
}

// maxLogged is how many problems one read may log: a cluster with the same mistake in every object must not flood the log. The
// least severe problems beyond the limit are only counted; /problems lists them.
const maxLogged = 200

// ledger records the problems. It is the collector of their series.
type ledger struct {
	log *slog.Logger

	mu      sync.Mutex // guards the fields below
	since   map[rules.Problem]time.Time
	earlier map[string]time.Time // by an earlier process, by id; until the first read
	current []Problem
}

func newLedger(log *slog.Logger, reg prometheus.Registerer) *ledger {
	l := &ledger{log: log.With("component", "compile")}
	if reg != nil {
		reg.MustRegister(l)
	}
	return l
}

// record stores the problems of a read. It logs problems when they appear and when they are solved.
func (l *ledger) record(problems []rules.Problem, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := make(map[rules.Problem]time.Time, len(problems))
	current := make([]Problem, 0, len(problems))
	var fresh []rules.Problem
	for _, p := range problems {
		at, known := l.since[p]
		if !known {
			if at = now; l.earlier != nil {
				at = cmp.Or(l.earlier[p.ID()], now)
			}
			if _, twice := since[p]; !twice {
				fresh = append(fresh, p)
			}
		}
		since[p] = at
		current = append(current, Problem{p, at})
	}
	gone := len(l.since) - (len(since) - len(fresh))
	l.since, l.current, l.earlier = since, current, nil
	l.report(fresh, gone)
}

// report logs new problems with the messages of the reference.
func (l *ledger) report(fresh []rules.Problem, gone int) {
	fresh = slices.DeleteFunc(fresh, func(p rules.Problem) bool { return !l.log.Enabled(context.Background(), level(p)) })
	more := len(fresh) - maxLogged
	if more > 0 {
		slices.SortStableFunc(fresh, func(a, b rules.Problem) int { return cmp.Compare(b.Severity, a.Severity) })
		fresh = fresh[:maxLogged]
	}
	for _, p := range fresh {
		attrs := []any{"reason", string(p.Reason)}
		if p.Owner != (kube.Ref{}) {
			attrs = append(attrs, "kind", string(p.Owner.Kind), "ns", p.Owner.Namespace, "name", p.Owner.Name)
		}
		if p.Route != "" {
			attrs = append(attrs, "route", p.Route)
		}
		if p.Cause != "" {
			attrs = append(attrs, "error", p.Cause)
		}
		l.log.Log(context.Background(), level(p), p.Message, attrs...)
	}
	if more > 0 {
		l.log.Warn(LogMoreProblems, "not_logged", more)
	}
	if gone > 0 {
		l.log.Info(LogProblemsResolved, "count", gone, "remaining", len(l.since))
	}
}

// level returns the level of the reference. Problems that may be intended, and that many objects can have, are not logged.
func level(p rules.Problem) slog.Level {
	switch {
	case p.Severity == rules.Error:
		return slog.LevelError
	case p.Severity == rules.Warning:
		return slog.LevelWarn
	case p.Reason == rules.NotSelected, p.Reason == rules.ZeroWeight:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

var countOfProblems = prometheus.NewDesc("routesrv_problems", "Problems of objects in the last read.",
	[]string{"kind", "reason"}, nil)

// Describe implements [prometheus.Collector].
func (l *ledger) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- countOfProblems }

// Collect implements [prometheus.Collector].
func (l *ledger) Collect(series chan<- prometheus.Metric) {
	counts := make(map[[2]string]int)
	for _, p := range l.list() {
		counts[[2]string{string(p.Owner.Kind), string(p.Reason)}]++
	}
	for labels, n := range counts {
		series <- prometheus.MustNewConstMetric(countOfProblems, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

func (l *ledger) list() []Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.current)
}
