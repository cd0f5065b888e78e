package trial

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

func tableOf(t *testing.T, text string) *table.Table {
	t.Helper()
	routes, err := table.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	made, err := table.New(routes, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// reviewed asks until an answer is as wanted.
func reviewed(t *testing.T, trial *Trial, before, after *table.Table, good func(publish.Objections) bool) publish.Objections {
	t.Helper()
	for {
		found := trial.Review(before, after)
		if good(found) {
			return found
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%+v", found)
		case <-trial.Changed():
		case <-time.After(20 * time.Millisecond): // lapsing is a matter of time
		}
	}
}

func TestAReviewOfATable(t *testing.T) { synctest.Test(t, testAReviewOfATable) }

func testAReviewOfATable(t *testing.T) {
	s := newStandIn(t)
	trial := start(t, s, Config{})
	before := tableOf(t, `old: Path("/old") -> dieAtLoad("old") -> <shunt>;`)
	after := tableOf(t, `old: Path("/old") -> dieAtLoad("old") -> setPath("/") -> <shunt>;
bad: Path("/bad") -> setPath("/") -> dieAtLoad("new") -> <shunt>;
good: Path("/good") -> setPath("/") -> <shunt>;
refused: Path("/refused") -> refused() -> <shunt>;`)
	first := trial.Review(before, after)
	for id, o := range first {
		if !o.Pending || o.Reason != publish.ReasonTrial {
			t.Errorf("at first %s: %+v", id, o)
		}
	}
	if len(first) != 4 {
		t.Errorf("at first there are %d objections", len(first))
	}
	found := reviewed(t, trial, before, after, func(o publish.Objections) bool { return len(o) == 2 && !o["bad"].Pending })
	for id, words := range map[string]string{"bad": `dieAtLoad("new"): the trial proxy died: `, "refused": "refused(): the trial proxy refuses it: invalid_filter_params"} {
		if o := found[id]; !strings.HasPrefix(o.Detail, words) || o.Lapsed {
			t.Errorf("%s: %+v, want %q", id, o, words)
		}
	}
	if found := trial.Review(after, after); len(found) != 0 {
		t.Errorf("nothing changed, objections are %+v", found)
	}
}

// TestAProxyThatIsAwayFreezesNothing: what waits lapses, and what a proxy died of stays out until it is tried alone.
func TestAProxyThatIsAwayFreezesNothing(t *testing.T) {
	synctest.Test(t, testAProxyThatIsAwayFreezesNothing)
}

func testAProxyThatIsAwayFreezesNothing(t *testing.T) {
	s := newStandIn(t)
	trial := start(t, s, Config{Timeout: 100 * time.Millisecond})
	s.mu.Lock()
	s.down = time.Now().Add(time.Hour)
	s.mu.Unlock()
	after := tableOf(t, `a: Path("/a") -> dieAtLoad() -> <shunt>; b: Path("/b") -> setPath("/") -> <shunt>;`)
	found := reviewed(t, trial, nil, after, func(o publish.Objections) bool { return o["a"].Lapsed && o["b"].Lapsed })
	if found["a"].Pending || trial.Status().Silent == "" || trial.Status().Lapsed != 2 {
		t.Errorf("%+v, status %+v", found, trial.Status())
	}
	s.mu.Lock()
	s.down = time.Time{}
	s.mu.Unlock()
	found = reviewed(t, trial, nil, after, func(o publish.Objections) bool { return len(o) == 1 && !o["a"].Lapsed })
	if found["a"].Detail == "" {
		t.Errorf("%+v", found)
	}
}

// byRoute makes each route one of a namespace of its own, with the first letters of its id.
func byRoute() func(id string) string {
	return func(id string) string { return strings.TrimRight(id, "0123456789") }
}

// TestSuspectsDoNotLapse: a table that killed the proxy is not published because the proxy does not come back.
func TestSuspectsDoNotLapse(t *testing.T) { synctest.Test(t, testSuspectsDoNotLapse) }

func testSuspectsDoNotLapse(t *testing.T) {
	s := newStandIn(t)
	s.slow = time.Hour
	trial := start(t, s, Config{Timeout: 50 * time.Millisecond, Namespaces: byRoute})
	after := tableOf(t, `a: Path("/a") -> dieAtLoad() -> <shunt>;`)
	reviewed(t, trial, nil, after, func(o publish.Objections) bool {
		return strings.Contains(o["a"].Detail, "did not survive") && !o["a"].Lapsed && !o["a"].Pending
	})
	// Another text waits for the proxy that comes back, and a first table does not wait for it.
	both := tableOf(t, `a: Path("/a") -> dieAtLoad() -> <shunt>; b: Path("/b") -> setPath("/") -> <shunt>;`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	trial.Settle(ctx, tableOf(t, `c: Path("/c") -> setPath("/c") -> <shunt>;`), both)
	if o := trial.Review(nil, both); o["b"].Lapsed || !o["b"].Pending || ctx.Err() != nil {
		t.Errorf("with a table to compare with: %+v", o)
	}
	trial.Settle(ctx, nil, both)
	if o := trial.Review(nil, both); !o["b"].Lapsed || o["a"].Lapsed || ctx.Err() != nil {
		t.Errorf("after the first table had to be published: %+v", o)
	}
}

// TestAnotherBuildTriesEverythingAgain: another version of the proxy may survive a text.
func TestAnotherBuildTriesEverythingAgain(t *testing.T) {
	synctest.Test(t, testAnotherBuildTriesEverythingAgain)
}

func testAnotherBuildTriesEverythingAgain(t *testing.T) {
	after := tableOf(t, `a: Path("/a") -> dieAtLoad() -> <shunt>; b: Path("/b") -> setPath("/") -> <shunt>;`)
	s := newStandIn(t)
	trial := start(t, s, Config{Served: func() *table.Table { return after }})
	reviewed(t, trial, nil, after, func(o publish.Objections) bool { return len(o) == 1 && !o["a"].Pending })
	s.mu.Lock()
	s.build, s.immortal = "go1.27", true
	s.mu.Unlock()
	reviewed(t, trial, nil, after, func(o publish.Objections) bool { return len(o) == 0 })
}

// TestAProxyWithoutTrafficLoads: texts are loaded although no request gets through.
func TestAProxyWithoutTrafficLoads(t *testing.T) { synctest.Test(t, testAProxyWithoutTrafficLoads) }

func testAProxyWithoutTrafficLoads(t *testing.T) {
	s := newStandIn(t)
	s.deaf = true
	trial := start(t, s, Config{})
	got := judged(t, trial, append(harmless(3), calls("dieInUse()", "refused()")...))
	if len(got) != 1 || !trial.Status().Unused {
		t.Errorf("failed are %+v, status %+v", got, trial.Status())
	}
}

// TestAnOldProxyListsWhatItUses: without ?invalid=true the list has the valid routes.
func TestAnOldProxyListsWhatItUses(t *testing.T) { synctest.Test(t, testAnOldProxyListsWhatItUses) }

func testAnOldProxyListsWhatItUses(t *testing.T) {
	s := newStandIn(t)
	s.old = true
	trial := start(t, s, Config{})
	if got := judged(t, trial, append(harmless(3), calls("refused()")...)); len(got) != 1 || got["refused()"].Result != Refused {
		t.Errorf("failed are %+v", got)
	}
}
