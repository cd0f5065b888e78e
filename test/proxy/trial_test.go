package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/test/programs"
)

// killers are texts that no list of routesrv knows. What each does to the stand-in is a model of what values of this size do to a process: memory for each
// of a number, a ticker without a pause, an index out of range. A real proxy may accept some of them.
var killers = Faults{
	Die:       []string{`fifo(1000000000, 1000000000, "10s")`, `cache("-1s", "-1s", "-1s")`, `originMarker("shop", "v1", "9999-12-31T23:59:59Z")`},
	Hang:      []string{`tracingTagFromResponseIfStatus("error", "true", -1, 1000000000)`},
	Grow:      []string{`rateBreaker(1000000000, 1000000000, "1s")`},
	Busy:      []string{`consistentHashBalanceFactor(1000000000)`},
	Refuse:    []string{`maskAccessLogQuery("key_1")`},
	DieInUse:  []string{`decodeBase64RequestHeader("X-Foo", -1)`, `consecutiveBreaker(-1)`},
	HangInUse: []string{`sedRequest("()", "x", 1000000000000)`},
}

func allOf(f Faults) []string {
	return slices.Concat(f.Die, f.Hang, f.Grow, f.Busy, f.Refuse, f.DieInUse, f.HangInUse)
}

// withTrial starts a route server with a trial proxy.
func withTrial(t *testing.T, faults Faults, more ...string) (*rehearsal, *Proxy) {
	t.Helper()
	traffic, support := programs.FreeAddresses(t)
	r := newRehearsal(t, append([]string{"--trial-proxy=http://" + support, "--state-dir=" + t.TempDir()}, more...)...)
	p := Start(t, Config{
		RoutesURL: r.server.Support + api.PathTrialRoutes, AliveURL: r.server.Support + api.PathTrialAlive, Traffic: traffic, Support: support, Faults: faults,
	})
	r.server.Ready(t)
	return r, p
}

func (r *rehearsal) status(t *testing.T) (s api.Status) {
	t.Helper()
	a, err := programs.Fetch(t.Context(), r.server.Support+api.PathStatus, "")
	if err == nil {
		err = json.Unmarshal([]byte(a.Body), &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *rehearsal) table(t *testing.T) string {
	t.Helper()
	a, err := programs.Fetch(t.Context(), r.server.Main+"/routes", "")
	if err != nil {
		t.Fatal(err)
	}
	return a.Body
}

// TestTrialOfKillers: of ten objects with texts that end, block or bleed a proxy none is served, and all else is.
func TestTrialOfKillers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	if os.Getenv(ProgramVariable) != "" {
		t.Skip("what a real proxy does with these texts is not known: see TestTrialOfARealProxy")
	}
	t.Parallel()
	r, p := withTrial(t, killers)
	text := ""
	for i, one := range allOf(killers) {
		text += r.object(fmt.Sprintf("killer-%d", i), one)
	}
	text += r.object("harmless", `setRequestHeader("X-New", "1")`)
	r.write(t, text)
	const patience = 15 * time.Minute // a backstop: finding ten texts, each of which costs two processes, takes as long as these take to start
	programs.Within(t, patience, "the harmless object", func() bool { return strings.Contains(r.table(t), "X-New") })
	r.write(t, text+r.object("known", `setPath("/a")`))
	if took := programs.Within(t, time.Minute, "a change without new texts", func() bool {
		return strings.Contains(r.table(t), "known_example_org") || strings.Contains(r.table(t), "known[.]example")
	}); took > 5*time.Second {
		t.Errorf("a change without new texts took %v", took)
	}
	programs.Within(t, patience, "verdicts on all", func() bool {
		s := r.status(t)
		waits := func(k api.Kept) bool { return strings.Contains(k.Detail, "it waits") } // until the review after the last verdict
		return s.Guard.KeptCount == len(allOf(killers)) && s.Trial.Waiting == 0 && !slices.ContainsFunc(s.Guard.Kept, waits)
	})
	table, status := r.table(t), r.status(t)
	for i, one := range allOf(killers) {
		if strings.Contains(table, one) {
			t.Errorf("%s is served", one)
		}
		at := slices.IndexFunc(status.Guard.Kept, func(k api.Kept) bool { return k.Name == fmt.Sprintf("killer-%d", i) })
		if at < 0 {
			t.Errorf("the object with %s is not kept", one)
			continue
		}
		if k := status.Guard.Kept[at]; k.Reason != publish.ReasonTrial || !strings.HasPrefix(k.Detail, one+": the trial proxy ") {
			t.Errorf("%s is kept for %s: %s", k.Ref, k.Reason, k.Detail)
		}
	}
	problems, err := programs.Fetch(t.Context(), r.server.Support+api.PathProblems, "")
	if n := strings.Count(problems.Body, "the trial proxy "); err != nil || n < len(allOf(killers)) {
		t.Errorf("%d problems have the proxy's words, error %v", n, err)
	}
	text += r.object("late", `setRequestHeader("X-New", "2")`) // tried by a process that outlived the last killer
	r.write(t, text)
	programs.Within(t, patience, "a new text after the killers", func() bool { return strings.Contains(r.table(t), `"X-New", "2"`) })
	deaths := len(p.Deaths())
	r.write(t, text+r.object("known", `setPath("/b")`))
	programs.Eventually(t, "another change", func() bool {
		return strings.Contains(r.table(t), "known") && strings.Contains(r.table(t), `setPath("/b")`)
	})
	if n := len(p.Deaths()); n != deaths {
		t.Errorf("the trial proxy died again of known texts: %d times", n-deaths)
	}
}

// TestTrialOfARealProxy: with a real proxy, texts that its documents say to be dangerous, and that the catalogue leaves to the trial, do not reach the
// fleet; with the stand-in, one text that ends it.
func TestTrialOfARealProxy(t *testing.T) {
	t.Parallel()
	r, _ := withTrial(t, Faults{Die: []string{fatalText()}})
	before := time.Now()
	r.write(t, r.object("new", `setRequestHeader("X-New", "1")`))
	programs.Eventually(t, "a new text", func() bool { return strings.Contains(r.table(t), "X-New") })
	t.Logf("a new text took %v", time.Since(before).Round(time.Millisecond))
	r.write(t, r.object("fatal", fatalText()))
	programs.Eventually(t, "the fatal object is kept", func() bool { return r.status(t).Guard.KeptCount == 1 })
	if strings.Contains(r.table(t), fatalText()) {
		t.Error("the fatal text is served")
	}
	r.write(t, "")
	programs.Eventually(t, "nothing is kept", func() bool { return r.status(t).Guard.KeptCount == 0 })
}

// TestTrialWithoutItsProxy: after the timeout changes pass, loudly.
func TestTrialWithoutItsProxy(t *testing.T) {
	t.Parallel()
	_, support := programs.FreeAddresses(t)
	r := newRehearsal(t, "--trial-proxy=http://"+support)
	r.server.Ready(t)
	r.write(t, r.object("new", `setRequestHeader("X-New", "1")`))
	programs.Eventually(t, "a new text", func() bool { return strings.Contains(r.table(t), "X-New") })
	if s := r.status(t); s.Trial == nil || s.Trial.Silent == "" || s.Trial.Lapsed == 0 {
		t.Errorf("trial is %+v", s.Trial)
	}
	if log := r.server.Log(); !strings.Contains(log, "texts pass without a trial") {
		t.Errorf("the log does not say so:\n%s", log)
	}
	metrics, err := programs.Fetch(t.Context(), r.server.Support+"/metrics", "")
	if err != nil || metrics.Status != http.StatusOK || !strings.Contains(metrics.Body, "routesrv_trial_proxy_up 0") {
		t.Errorf("metrics: %v %v", metrics.Status, err)
	}
}

// TestTrialOfRoutesThatComeLater: the filter of an object enters the table when its pods become ready, or its Service comes, and not before its trial.
func TestTrialOfRoutesThatComeLater(t *testing.T) {
	t.Parallel()
	const text = `oauthTokeninfoAllScope("uid")`
	input := func(names ...string) (all string) {
		for _, n := range names {
			content, err := os.ReadFile(filepath.Join("..", "server", "testdata", "reviews", "trial-pods-later", n+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			all += string(content) + "\n---\n"
		}
		return all
	}
	for _, steps := range [][]string{
		{input("cluster", "routegroup", "service", "endpointslice")},
		{input("cluster", "routegroup", "service"), input("cluster", "routegroup", "service", "endpointslice")},
		{input("cluster", "routegroup", "endpointslice"), input("cluster", "routegroup", "service", "endpointslice")},
	} {
		r, _ := withTrial(t, Faults{Refuse: []string{text}}, "-enable-kubernetes-endpointslices")
		for i, step := range steps {
			marker := fmt.Sprintf("step-%d", i)
			r.write(t, step+r.object(marker, `setPath("/known")`))
			programs.Eventually(t, "the step", func() bool { return strings.Contains(r.table(t), strings.ReplaceAll(marker, "-", "_")) })
		}
		programs.Eventually(t, "the object is kept", func() bool {
			if strings.Contains(r.table(t), text) {
				t.Fatal("the text is served")
			}
			g := r.status(t).Guard
			return g.KeptCount == 1 && g.Kept[0].Name == "taker" && g.Kept[0].Reason == publish.ReasonTrial && strings.Contains(g.Kept[0].Detail, "refuses")
		})
	}
}
