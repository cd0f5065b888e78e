package dataplane_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/dataplane"
)

// asking is a relay of one root, with clients that bring tables which it has never had.
type asking struct {
	*tree
	root, relay *node
	registry    *prometheus.Registry
}

// askingOf runs a test with a root of revision 10 and a relay.
func askingOf(t *testing.T, interval time.Duration, f func(t *testing.T, a *asking)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &asking{tree: newTree(t), registry: prometheus.NewRegistry()}
		a.root = a.tree.root("root")
		a.root.reads(relayTable(t, 10, 30), true)
		cfg := a.fetch("", "root")
		cfg.UpdateMode, cfg.Interval = dataplane.Poll, interval
		a.relay = a.relayWith("relay", dataplane.RelayConfig{Fetch: cfg, Registerer: a.registry})
		defer a.end()
		relayAfter(time.Second)
		f(t, a)
	})
}

// claim sends a request to the relay as client n with an unknown table of a revision, and returns the status.
func (a *asking) claim(n int, revision uint64) int {
	r := httptest.NewRequest(http.MethodHead, "/routes", nil)
	r.RemoteAddr = fmt.Sprintf("10.0.0.%d:50000", n+1)
	r.Header.Set("If-None-Match", fmt.Sprintf(`"%064x.%d"`, n+1, revision))
	w := httptest.NewRecorder()
	a.relay.Cache.Handler().ServeHTTP(w, r)
	return w.Code
}

// questions returns the number of questions by answer.
func (a *asking) questions() map[string]int {
	a.t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		a.t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, f := range families {
		if f.GetName() != "routesrv_relay_questions_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			counts[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return counts
}

func TestQuestionsAreCountedByAnswer(t *testing.T) {
	askingOf(t, 3*time.Second, func(t *testing.T, a *asking) {
		a.claim(1, 7)
		relayAfter(100 * time.Millisecond)
		if got := a.questions(); got["send"] != 1 || got["keep"]+got["none"]+got["other"] != 0 {
			t.Errorf("an older table: %v", got)
		}
		relayAfter(5 * time.Minute)
		if got := a.questions(); got["send"] != 1 {
			t.Errorf("what is resolved is asked about again: %v", got)
		}
		a.claim(2, 12) // at once, however long there was no question
		relayAfter(100 * time.Millisecond)
		if got := a.questions(); got["keep"] != 1 || got["send"] != 1 {
			t.Errorf("a newer table: %v", got)
		}
		relayAfter(time.Minute)
		if got := a.questions(); got["keep"] < 12 || got["keep"] > 40 {
			t.Errorf("%d questions in a minute, want one about every three seconds", got["keep"])
		}
		a.kill("root")
		relayAfter(time.Minute)
		if got := a.questions(); got["none"] == 0 {
			t.Errorf("no server above: %v", got)
		}
	})
}

// An upstream server that does not answer is asked five times less often, and about one table at a time.
func TestQuestionsRestWhileNobodyAnswers(t *testing.T) {
	askingOf(t, 3*time.Second, func(t *testing.T, a *asking) {
		a.kill("root")
		for range 60 {
			for n := range 4 {
				a.claim(n, 12)
			}
			relayAfter(time.Minute)
		}
		// One question about every fifteen seconds for an hour, give or take half: 240, with a standard deviation of 5.
		if got := a.questions()["none"]; got < 217 || got > 263 {
			t.Errorf("%d questions in an hour, want about 240", got)
		}
	})
}

// The upstream server remembers four claims of one client. All claims are asked about eventually, whatever the answer to others
// is.
func TestFourClaimsAreAskedAboutAtATime(t *testing.T) {
	askingOf(t, 10*time.Second, func(t *testing.T, a *asking) {
		a.root.reads(relayTable(t, 10, 30), true)
		for n := range 10 {
			a.claim(n, 12)
		}
		a.claim(10, 7)
		relayAfter(4 * time.Second)
		if got := a.questions(); got["keep"]+got["send"] > 4 {
			t.Errorf("%v questions at once", got)
		}
		for range 10 {
			relayAfter(time.Minute)
		}
		if got := a.claim(10, 7); got != http.StatusOK {
			t.Errorf("a claim behind ten others gives %d", got)
		}
	})
}

// A client that names a newer table got it from somewhere: the relay checks at once.
func TestANewerTableThatAClientNamesIsFetchedAtOnce(t *testing.T) {
	askingOf(t, time.Minute, func(t *testing.T, a *asking) {
		next := relayTable(t, 11, 30)
		a.root.reads(next, true)
		relayAfter(time.Second)
		if a.relay.Current().Digest() == next.Digest() {
			t.Fatal("the relay has it already")
		}
		a.relay.head("/routes", fmt.Sprintf(`If-None-Match: "%s.11"`, next.Digest()))
		relayAfter(time.Second)
		if a.relay.Current().Digest() != next.Digest() {
			t.Error("the relay waits for its interval")
		}
	})
}
