package validate

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// TestAStaleListIsOneThatIsOlderThanWhatWasSeen: a list from a lagging cache of the API counts for a complete read as long as the
// server has seen nothing newer of the kind.
func TestAStaleListIsOneThatIsOlderThanWhatWasSeen(t *testing.T) {
	for _, c := range []struct {
		stale uint64
		want  int
	}{{5, 2}, {4, 1}} {
		h := &history.History{Run: history.Run{Members: []history.Member{{Name: "s1", Kind: history.Server, Transport: "poll"}}}}
		list := func(kind string, revision uint64, fault string) {
			h.Reads = append(h.Reads, history.Read{
				At: time.Duration(len(h.Reads)) * time.Second, Member: "s1", Kind: kind, Verb: "list", Revision: revision, Whole: fault == "", Fault: fault,
			})
		}
		list("Ingress", 5, "")
		list("Service", 5, "")
		list("Ingress", c.stale, staleList)
		list("Service", 7, "")
		reads := NewIndex(h).reads["s1"]
		if len(reads) != c.want {
			t.Fatalf("a list of revision %d after one of 5: %d reads, want %d", c.stale, len(reads), c.want)
		}
		if last := reads[len(reads)-1]; c.want == 2 && (last.low != 5 || last.high != 7) {
			t.Errorf("the read is from %d to %d, want 5 to 7", last.low, last.high)
		}
	}
}

// TestADataPlaneThatComputesReadsTheAPI: it may serve a new table after a restart although its route server is down.
func TestADataPlaneThatComputesReadsTheAPI(t *testing.T) {
	for _, c := range []struct {
		mode, later string
		want        time.Duration
	}{{"Exec", "", 9 * time.Second}, {"Exec", "Exec:50%!", 9 * time.Second}, {"False", "", time.Second}, {"Exec", "Pre", time.Second}} {
		h := &history.History{Run: history.Run{Members: []history.Member{
			{Name: "s1", Kind: history.Server}, {Name: "d1", Kind: history.Sidecar, Upstreams: []string{"s1"}, Mode: c.mode},
		}}}
		h.Events = []history.Event{{Member: "s1", Name: "killed"}, {At: 9 * time.Second, Member: "s1", Name: "started"}, {Member: "d1", Name: "mode", Args: c.later}}
		if got := NewIndex(h).cutOffUntil("d1", time.Second); got != c.want {
			t.Errorf("in %s, later %q, d1 has nothing to read until %v, want %v", c.mode, c.later, got, c.want)
		}
	}
}

// TestWhoMayHaveNoTableAfterARestart: one whose first table was not on disk yet, and a data plane that computes its tables. Any other one keeps
// serving a table.
func TestWhoMayHaveNoTableAfterARestart(t *testing.T) {
	for _, c := range []struct {
		mode   string
		killed time.Duration
		want   int
	}{{"Exec", 60 * time.Second, 1}, {"Pre", 60 * time.Second, 1}, {"False", 60 * time.Second, 0}, {"Exec", 5 * time.Second, 0}} {
		h := &history.History{Run: history.Run{Members: []history.Member{
			{Name: "s1", Kind: history.Server}, {Name: "d1", Kind: history.Sidecar, Upstreams: []string{"s1"}, Mode: c.mode}, {Name: "p1", Kind: history.Poller},
		}}}
		started := c.killed + time.Second
		h.Events = []history.Event{{At: c.killed, Member: "d1", Name: "killed"}, {At: started, Member: "d1", Name: "started"}}
		answer := func(at time.Duration, a history.Answer) {
			a.Begin, a.End, a.Client, a.Server = at, at+time.Millisecond, "p1", "d1"
			h.Answers = append(h.Answers, a)
		}
		answer(time.Second, history.Answer{Status: 200, Digest: "one", Outcome: history.Applied})
		answer(started+20*time.Second, history.Answer{Status: 404, Outcome: history.Failed})
		answer(started+30*time.Second, history.Answer{Status: 200, Digest: "two", Outcome: history.Applied})
		if got := NewIndex(h).lastKnownGood(); len(got) != c.want {
			t.Errorf("in %s, killed after %v: %v, want %d", c.mode, c.killed, got, c.want)
		}
	}
}
