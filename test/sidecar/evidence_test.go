package sidecar_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/rollout"
)

// The computed table stays, and the route server starts to serve another one: earlier clean comparisons say nothing about the new
// one.
func TestATableThatChangesOnTheServerAloneIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), ingress("b"))
		w.runServer(w.options)
		cfg := w.config("Pre")
		cfg.Cutover = rollout.CutoverConfig{Policy: rollout.CutoverEnforce, CleanFor: 30 * time.Second, MinComparisons: 5}
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		time.Sleep(time.Minute)
		if s := p.status(); s.Cutover == nil || !s.Cutover.Ready {
			t.Fatalf("cutover %+v, want it ready", s.Cutover)
		}
		w.network.Cut("routesrv")
		w.runServer(rules.Options{DefaultFilters: &eskip.DefaultFilters{Prepend: eskip.MustParseFilters("planted()")}})
		time.Sleep(time.Minute)
		if s := p.status(); s.Cutover.Ready || s.Cutover.Differences != 2 || s.Cutover.Comparisons != 0 {
			t.Errorf("cutover %+v, want two differences", s.Cutover)
		}
		if body := p.admin("GET", "/shadow").Body.String(); !strings.Contains(body, "planted()") {
			t.Errorf("/shadow shows\n%s", body)
		}
		p.setMode("Exec")
		if s := p.expect("Pre", "self", 0); !strings.Contains(s.Refused, "2 routes") {
			t.Errorf("refused: %q", s.Refused)
		}
	})
}

// The limits that an operator sets for the data plane also apply to tables of the route server, which has its own limits.
func TestLimitsOfTheGuardCountForFetchedTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names, objects []string
		for i := range 300 {
			names = append(names, fmt.Sprintf("app-%03d", i))
			objects = append(objects, ingress(names[i]))
		}
		w := newWorld(t, objects...)
		w.runServer(w.options)
		cfg := w.config("Exec")
		cfg.Guard.MaxLoss = 0.05
		p := w.run(cfg)
		p.expect("Exec", "routeserver", 5*time.Second)
		for _, name := range names[:25] {
			w.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name})
		}
		w.note(w.compiled())
		time.Sleep(time.Minute)
		if got := w.server.Current().Len(); got != 275 {
			t.Fatalf("the route server has %d routes, want 275", got)
		}
		if got := strings.Count(p.get("/routes").Body.String(), "->"); got < 300 || !strings.Contains(p.get("/routes").Body.String(), "app_000_example") {
			t.Errorf("the proxy is given:\n%s", p.get("/routes").Body)
		}
	})
}

// A data plane in mode Pre reports to the route server how its two tables compare, and for how long they have been the same.
func TestAReportSaysHowTablesCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), ingress("b"))
		var last atomic.Pointer[fleet.Report]
		start := func(o rules.Options) {
			w.runServer(o)
			w.network.Set("routesrv", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					w.server.Handler().ServeHTTP(rw, r)
				} else if report, err := fleet.ReadReport(r.Body); err != nil {
					t.Error(err)
				} else {
					last.Store(report)
				}
			}))
		}
		start(w.options)
		cfg := w.config("Pre")
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		time.Sleep(2 * time.Minute)
		if r := last.Load(); r == nil || r.Pre == nil || r.Pre.Differences != 0 || r.Pre.CleanSeconds < 90 || r.Pre.Seconds < r.Pre.CleanSeconds {
			t.Fatalf("after two clean minutes: %+v", r)
		}
		w.network.Cut("routesrv")
		start(rules.Options{DefaultFilters: &eskip.DefaultFilters{Prepend: eskip.MustParseFilters("planted()")}})
		time.Sleep(time.Minute)
		if r := last.Load(); r.Pre == nil || r.Pre.Differences != 2 || r.Pre.CleanSeconds != 0 || r.Pre.Seconds < 160 { // the last report may be 15 s old
			t.Errorf("with two differences: %+v", r.Pre)
		}
		p.setMode("Exec")
		time.Sleep(time.Minute)
		if r := last.Load(); r.Pre != nil {
			t.Errorf("in mode Exec: %+v", r.Pre)
		}
	})
}
