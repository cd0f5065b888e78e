package sidecar_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/rollout"
)

// proxy polls the data plane as Skipper does, but more often, and checks every response. stop ends it and returns the number of
// responses with a table.
func (p *plane) proxy() (stop func() int) {
	end, ended := make(chan struct{}), make(chan int)
	go func() {
		etag, n := "", 0
		for {
			w := p.get("/routes", "If-None-Match: "+etag)
			switch w.Code {
			case http.StatusNotModified:
			case http.StatusOK:
				n++
				etag = w.Header().Get("Etag")
				if _, err := eskip.Parse(w.Body.String()); err != nil {
					p.t.Errorf("answer does not parse: %v", err)
				}
				p.mu.Lock()
				if !p.published[w.Body.String()] {
					p.t.Errorf("answer is no table that was published:\n%s", w.Body)
				}
				p.mu.Unlock()
			default:
				p.t.Errorf("status %d", w.Code)
			}
			select {
			case <-end:
				ended <- n
				return
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
	return func() int { close(end); return <-ended }
}

func TestModesChangeWithoutAGapUnderAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), ingress("b"))
		w.runServer(w.options)
		cfg := w.config("False")
		cfg.ModeFile = tempFile(t, "mode", "False")
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		stop := p.proxy()
		names := []string{"c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
		change := func() {
			t.Helper()
			w.apply(ingress(names[0]))
			names = names[1:]
			time.Sleep(500 * time.Millisecond)
		}
		for _, step := range []struct{ mode, inForce, origin string }{
			{"Pre", "Pre", "self"}, {"Exec", "Exec", "routeserver"}, {"False", "False", "self"},
			{"exec\n", "Exec", "routeserver"}, {"Exec:0%", "Pre", "self"}, {"EXEC:100%", "Exec", "routeserver"}, {"False", "False", "self"},
		} {
			change()
			p.setMode(step.mode)
			got := p.expect(step.inForce, step.origin, 15*time.Second)
			if got.Refused != "" || !got.Ready {
				t.Errorf("%q: %+v", step.mode, got)
			}
			time.Sleep(7 * time.Second)
		}
		if s := p.status(); s.Fetch != nil {
			t.Error("mode False still fetches")
		}
		if n := stop(); n < 7 {
			t.Errorf("the proxy saw %d tables, want one for each change", n)
		}
	})
}

// A data plane that no route server has told its rank stays in Pre.
func TestExecOfACountNeedsARank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options) // accepts no reports
		p := w.run(w.config("Exec:2"))
		p.expect("Pre", "self", time.Second)
		time.Sleep(time.Minute)
		p.expect("Pre", "self", 0)
		if got := p.admin(http.MethodGet, "/status").Body.String(); !strings.Contains(got, `"rank": -1`) {
			t.Errorf("/status lacks the unknown rank:\n%s", got)
		}
	})
}

func TestUnknownModeKeepsTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		cfg := w.config("Exec")
		cfg.ModeFile = tempFile(t, "mode", "False")
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		for _, text := range []string{"Executive", "", "Exec:200%"} {
			p.setMode(text)
			time.Sleep(2 * time.Second)
			s := p.expect("False", "self", 0)
			if !strings.Contains(s.ModeFileError, "must be") {
				t.Errorf("mode file %q: /status says %q", text, s.ModeFileError)
			}
		}
		if got := strings.Count(p.log.String(), "mode file is not usable"); got != 3 {
			t.Errorf("%d lines in the log about three contents:\n%s", got, p.log)
		}
		if err := os.Remove(p.modeFile); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		p.expect("False", "self", 0)
		p.setMode("Pre")
		if s := p.expect("Pre", "self", time.Second); s.ModeFileError != "" {
			t.Errorf("/status says %q about a file that is fine", s.ModeFileError)
		}
	})
}

func TestModeFileOfAConfigMapIsFollowedWithoutASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for name, mode := range map[string]string{"..1": "False", "..2": "Pre"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, name, "mode"), mode)
		}
		link := func(to, name string) {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		link("..1", "..data")
		link("..data/mode", "mode")
		w := newWorld(t, ingress("a"))
		cfg := w.config("Exec")
		cfg.ModeFile = filepath.Join(dir, "mode")
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		link("..2", "..tmp")
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		p.expect("Pre", "self", 2*time.Second)
	})
}

func TestGateRefusesAndIsOverridden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Pre")
		cfg.Cutover = rollout.CutoverConfig{Policy: rollout.CutoverEnforce, CleanFor: time.Minute, MinComparisons: 10}
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		p.expect("Pre", "self", time.Second)
		p.setMode("Exec")
		s := p.expect("Pre", "self", 0)
		if !strings.Contains(s.Refused, `"Exec!"`) || s.Asked != "Exec" {
			t.Errorf("%+v, want a refusal with the way out", s)
		}
		if got := p.metric("dataplane_mode_refused"); got != 1 {
			t.Errorf("dataplane_mode_refused %v, want 1", got)
		}
		time.Sleep(30 * time.Second)
		p.expect("Pre", "self", 0)
		time.Sleep(40 * time.Second) // the cutover check is ready by now
		p.expect("Exec", "routeserver", 5*time.Second)

		p.setMode("False")
		p.expect("False", "self", 15*time.Second)
		p.setMode("Exec")
		time.Sleep(5 * time.Minute)
		if s := p.expect("False", "self", 0); s.Refused == "" {
			t.Error("a switch past Pre was not refused")
		}
		p.setMode("Exec!")
		p.expect("Exec", "routeserver", 15*time.Second)
	})
}

func TestPlantedDivergenceIsFoundAndBlocksTheCutover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), ingress("b"))
		filters := &eskip.DefaultFilters{Prepend: eskip.MustParseFilters("planted()")}
		w.runServer(rules.Options{DefaultFilters: filters})
		cfg := w.config("Pre")
		cfg.Cutover = rollout.CutoverConfig{Policy: rollout.CutoverEnforce, CleanFor: 30 * time.Second, MinComparisons: 5}
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		p.expect("Pre", "self", time.Second)
		time.Sleep(2 * time.Minute)
		s := p.status()
		if s.Cutover == nil || s.Cutover.Ready || s.Cutover.Differences != 2 || !strings.Contains(s.Cutover.Reason, "/shadow") {
			t.Errorf("cutover %+v, want two differences", s.Cutover)
		}
		if got := p.metric("dataplane_cutover_ready"); got != 0 {
			t.Errorf("dataplane_dataplane_cutover_ready %v, want 0", got)
		}
		if got := p.metric(`dataplane_shadow_routes{kind="changed"}`); got != 2 {
			t.Errorf("dataplane_shadow_routes %v, want 2", got)
		}
		for accept, want := range map[string]string{"application/json": `"planted()"`, "text/html": "planted()", "*/*": "planted()"} {
			if r := p.admin(http.MethodGet, "/shadow", "Accept: "+accept); r.Code != http.StatusOK || !strings.Contains(strings.ToLower(r.Body.String()), strings.ToLower(want)) {
				t.Errorf("/shadow as %s: status %d, no %s in:\n%s", accept, r.Code, want, r.Body)
			}
		}
		p.setMode("Exec")
		time.Sleep(time.Minute)
		if s := p.expect("Pre", "self", 0); !strings.Contains(s.Refused, "2 routes") {
			t.Errorf("refused: %q, want what differs", s.Refused)
		}
	})
}

func TestCleanComparisonsMakeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("Pre")
		cfg.Cutover = rollout.CutoverConfig{CleanFor: time.Minute, MinComparisons: 5}
		p := w.run(cfg)
		time.Sleep(30 * time.Second)
		if s := p.status(); s.Cutover.Ready || !strings.Contains(s.Cutover.Reason, "of 1m0s") {
			t.Errorf("after half the time: %+v", s.Cutover)
		}
		w.apply(ingress("b")) // honest skew is no difference
		time.Sleep(40 * time.Second)
		if s := p.status(); !s.Cutover.Ready {
			t.Errorf("after the time: %+v", s.Cutover)
		}
		if got := p.metric("dataplane_cutover_ready"); got != 1 {
			t.Errorf("dataplane_dataplane_cutover_ready %v, want 1", got)
		}
		w.down.Store(true)
		time.Sleep(time.Minute)
		if s := p.status(); s.Cutover.Ready {
			t.Errorf("without a route server: %+v", s.Cutover)
		}
	})
}

func TestModeThatNeedsWhatIsNotConfiguredEndsTheStart(t *testing.T) {
	w := newWorld(t)
	cfg := w.config("Exec")
	cfg.Fetch = dataplane.Config{}
	if _, err := newSidecar(cfg); err == nil || !strings.Contains(err.Error(), "--upstream") {
		t.Errorf("Exec without a route server: %v", err)
	}
	cfg = w.config("False")
	cfg.Source = nil
	if _, err := newSidecar(cfg); err == nil || !strings.Contains(err.Error(), "-kubernetes") {
		t.Errorf("False without a source: %v", err)
	}
}
