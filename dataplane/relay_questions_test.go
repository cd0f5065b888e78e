package dataplane_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
)

// asking is a relay of one root, with clients that bring tables which it has never had.
type asking struct {
	*tree
	root, relay *node
	questions   counted
}

// counted counts the questions to the upstream server, which are HEAD requests, by answer: send, keep or none.
type counted struct {
	http.RoundTripper
	mu     sync.Mutex
	counts map[string]int
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	answer := "none"
	if err == nil {
		answer = map[int]string{http.StatusOK: "send", http.StatusNotModified: "keep"}[resp.StatusCode]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method == http.MethodHead {
		c.counts[answer]++
	}
	return resp, err
}

// of returns the number of questions with an answer.
func (c *counted) of(answer string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[answer]
}

// askingOf runs a test with a root of revision 10 and a relay.
func askingOf(t *testing.T, interval time.Duration, f func(t *testing.T, a *asking)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &asking{tree: newTree(t)}
		a.root = a.tree.root("root")
		a.root.reads(relayTable(t, 10, 30), true)
		cfg := a.fetch("", "root")
		cfg.UpdateMode, cfg.Interval = dataplane.Poll, interval
		a.questions.RoundTripper, a.questions.counts = cfg.Transport, make(map[string]int)
		cfg.Transport = &a.questions
		a.relay = a.relayWith("relay", dataplane.RelayConfig{Fetch: cfg})
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

func TestQuestionsOfARelay(t *testing.T) {
	askingOf(t, 3*time.Second, func(t *testing.T, a *asking) {
		a.claim(1, 7)
		relayAfter(100 * time.Millisecond)
		if send, other := a.questions.of("send"), a.questions.of("keep")+a.questions.of("none"); send != 1 || other != 0 {
			t.Errorf("an older table: %d and %d", send, other)
		}
		relayAfter(5 * time.Minute)
		if got := a.questions.of("send"); got != 1 {
			t.Errorf("what is resolved is asked about again: %d", got)
		}
		a.claim(2, 12) // at once, however long there was no question
		relayAfter(100 * time.Millisecond)
		if keep, send := a.questions.of("keep"), a.questions.of("send"); keep != 1 || send != 1 {
			t.Errorf("a newer table: %d and %d", keep, send)
		}
		relayAfter(time.Minute)
		if got := a.questions.of("keep"); got < 12 || got > 40 {
			t.Errorf("%d questions in a minute, want one about every three seconds", got)
		}
		a.kill("root")
		relayAfter(time.Minute)
		if a.questions.of("none") == 0 {
			t.Error("no question while there is no server above")
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
		if got := a.questions.of("none"); got < 217 || got > 263 {
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
		if got := a.questions.of("keep") + a.questions.of("send"); got > 4 {
			t.Errorf("%d questions at once", got)
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
