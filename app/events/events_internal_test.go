package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
)

// world is what a writer sees: problems, and an API that accepts or rejects Events.
type world struct {
	problems []poller.Problem
	events   []event
	missing  bool
	err      error
}

func (w *world) write(_ context.Context, e event) (bool, error) {
	if w.err != nil {
		return true, w.err
	}
	if w.missing {
		return false, nil
	}
	w.events = append(w.events, e)
	return true, nil
}

// take returns the Events since the last call, in a word each.
func (w *world) take() string {
	var all []string
	for _, e := range w.events {
		all = append(all, fmt.Sprintf("%s %s on %s", e.kind, e.reason, e.object.Name))
	}
	w.events = nil
	return strings.Join(all, ", ")
}

func ref(name string) kube.Ref {
	return kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name}
}

func problem(owner string, severity rules.Severity, message string) poller.Problem {
	return poller.Problem{Problem: rules.Problem{Owner: ref(owner), Reason: rules.ServiceNotFound, Severity: severity, Message: message}, Since: time.Now()}
}

// run makes a writer in a bubble. pass lets time pass, and the writer checks at every interval.
func run(t *testing.T, test func(t *testing.T, w *world, m *Metrics, log *strings.Builder, pass func(time.Duration))) {
	synctest.Test(t, func(t *testing.T) {
		w, m, log := &world{}, NewMetrics(nil), &strings.Builder{}
		writer := newWriter(w.write, func() []poller.Problem { return w.problems }, slog.New(slog.NewTextHandler(log, nil)), m)
		test(t, w, m, log, func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				time.Sleep(min(lookEvery, time.Until(end)))
				writer.look(t.Context())
			}
		})
	})
}

func TestAProblemThatLastsBecomesAnEvent(t *testing.T) {
	run(t, func(t *testing.T, w *world, m *Metrics, _ *strings.Builder, pass func(time.Duration)) {
		w.problems = []poller.Problem{problem("a", rules.Error, "no service"), problem("b", rules.Info, "nothing to do")}
		pass(settle - time.Second)
		if got := w.take(); got != "" {
			t.Errorf("at once: %s", got)
		}
		pass(2 * lookEvery)
		if got := w.take(); got != "Warning ServiceNotFound on a" {
			t.Errorf("after a while: %q", got)
		}
		pass(renewal - time.Minute)
		if got := w.take(); got != "" {
			t.Errorf("again: %s", got)
		}
		pass(2 * time.Minute)
		if got := w.take(); got != "Warning ServiceNotFound on a" {
			t.Errorf("before it is forgotten: %q", got)
		}
		w.problems = nil
		pass(2 * lookEvery)
		if got := w.take(); got != "Normal ProblemSolved on a" {
			t.Errorf("solved: %q", got)
		}
		pass(2 * time.Hour)
		if got := w.take(); got != "" {
			t.Errorf("after all: %s", got)
		}
		if got := testutil.ToFloat64(m.events.WithLabelValues("written")); got != 3 {
			t.Errorf("%v counted", got)
		}
	})
}

// TestAProblemThatIsOverSoonIsNoEvent: a rollout causes many of these.
func TestAProblemThatIsOverSoonIsNoEvent(t *testing.T) {
	run(t, func(t *testing.T, w *world, _ *Metrics, _ *strings.Builder, pass func(time.Duration)) {
		w.problems = []poller.Problem{problem("a", rules.Error, "no service")}
		pass(settle / 2)
		w.problems = nil
		pass(time.Hour)
		if got := w.take(); got != "" {
			t.Error(got)
		}
	})
}

// TestAFloodOfProblemsIsAFewEventsASecond: in the end all of them are written.
func TestAFloodOfProblemsIsAFewEventsASecond(t *testing.T) {
	run(t, func(t *testing.T, w *world, m *Metrics, _ *strings.Builder, pass func(time.Duration)) {
		for i := range 1000 {
			w.problems = append(w.problems, problem(fmt.Sprintf("i%03d", i), rules.Warning, "x"))
		}
		for i := range 40 { // one object with a mistake in each of its paths
			w.problems = append(w.problems, problem("many", rules.Error, fmt.Sprint("path ", i)))
		}
		pass(settle + lookEvery)
		if n := len(w.events); n > burst+perSecond*int((settle+lookEvery)/time.Second) || n < burst {
			t.Errorf("%d events at first", n)
		}
		if got := testutil.ToFloat64(m.waiting); got < 900 {
			t.Errorf("%v are said to wait", got)
		}
		pass(10 * time.Minute)
		names := map[string]int{}
		for _, e := range w.events {
			names[e.object.Name]++
		}
		if len(names) != 1001 || names["many"] != perObject || len(w.events) != 1000+perObject {
			t.Errorf("%d events on %d objects, %d on one", len(w.events), len(names), names["many"])
		}
		if got := testutil.ToFloat64(m.waiting); got != 0 {
			t.Errorf("%v still wait", got)
		}
	})
}

// TestWhatCannotBeWrittenIsTriedAgain: and logged once.
func TestWhatCannotBeWrittenIsTriedAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world, m *Metrics, log *strings.Builder, pass func(time.Duration)) {
		w.err = errors.New("forbidden")
		w.problems = []poller.Problem{problem("a", rules.Error, "no service")}
		pass(settle + time.Minute)
		if n := strings.Count(log.String(), LogFailed); n != 1 {
			t.Errorf("%d lines:\n%s", n, log)
		}
		w.err = nil
		pass(lookEvery)
		if got := w.take(); got != "Warning ServiceNotFound on a" || !strings.Contains(log.String(), LogRecover) {
			t.Errorf("%q, log:\n%s", got, log)
		}
		w.missing = true // the object was deleted
		w.problems = append(w.problems, problem("b", rules.Error, "no service"))
		pass(time.Minute)
		if got := w.take(); got != "" || testutil.ToFloat64(m.waiting) != 0 {
			t.Errorf("%q, %v wait", got, testutil.ToFloat64(m.waiting))
		}
	})
}

func TestNamesAndTexts(t *testing.T) {
	long := key{kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: strings.Repeat("a", 224) + "." + strings.Repeat("b", 28)}, "0123456789ab"}
	if got := nameOf(long) + "-solved"; len(got) > 253 || strings.Contains(got, "..") || strings.Contains(got, ".-") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	for reason, want := range map[string]string{"proxy_would_reject": "ProxyWouldReject", "shadows": "Shadows", "a__b_": "AB"} {
		if got := camelCase(reason); got != want {
			t.Errorf("%s: %s", reason, got)
		}
	}
	for _, text := range []string{"", "short", strings.Repeat("ä", 2000), "x" + strings.Repeat("ä", 2000), "bad \xff byte"} {
		if got := cut(text); len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("%d bytes of %.10s…", len(got), text)
		}
	}
}

// TestRunEndsWithItsContext: and checks at once when it starts.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		looked := make(chan struct{}, 1)
		w := newWriter((&world{}).write, func() []poller.Problem { looked <- struct{}{}; return nil }, slog.New(slog.DiscardHandler), NewMetrics(nil))
		done := make(chan struct{})
		go func() { defer close(done); w.run(ctx) }()
		<-looked
		began := time.Now()
		<-looked
		if got := time.Since(began); got != lookEvery {
			t.Errorf("looked again after %v", got)
		}
		cancel()
		<-done
	})
}
