package sidecar_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
)

// fetched is the part of /status about the client.
func (p *plane) fetched() dataplane.Status {
	p.t.Helper()
	var s struct{ Fetch dataplane.Status }
	if err := json.Unmarshal(p.admin(http.MethodGet, "/status").Body.Bytes(), &s); err != nil {
		p.t.Fatal(err)
	}
	return s.Fetch
}

// TestServesWhatAStreamBrings: at once, and fresh for as long as the stream confirms it.
func TestServesWhatAStreamBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(rules.Options{})
		p := w.run(w.config("Exec"))
		p.expect("Exec", "routeserver", 5*time.Second)
		time.Sleep(time.Minute)
		s := p.fetched()
		if s.Transport != "stream" || s.Stream == nil || time.Since(s.Stream.Connected) < 59*time.Second || time.Since(s.Stream.LastEvent) > 15*time.Second {
			t.Errorf("transport %s, stream %+v", s.Transport, s.Stream)
		}
		w.apply(ingress("b"))
		time.Sleep(3*time.Second + 300*time.Millisecond) // until the route server reads
		synctest.Wait()
		if got := w.server.Current().Digest(); p.status().Table.Digest != got.String() {
			t.Errorf("serves %s, the route server has %s", p.status().Table.Digest, got)
		}
		time.Sleep(20 * time.Minute)
		if w := p.get("/fresh"); w.Code != http.StatusOK {
			t.Errorf("/fresh: %d %s", w.Code, w.Body)
		}
		if got := p.fetched(); got.Stream.Connected != s.Stream.Connected {
			t.Errorf("the stream was made again: %+v", got.Stream)
		}
		w.down.Store(true)
		time.Sleep(6 * time.Minute)
		if w := p.get("/fresh"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("/fresh: %d %s", w.Code, w.Body)
		}
	})
}

// TestComparisonsGoOnOverAStream: as many as with polls, or a cutover check would never be ready.
func TestComparisonsGoOnOverAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(rules.Options{})
		p := w.run(w.config("Pre"))
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		if s := p.status(); s.Cutover == nil || !s.Cutover.Ready || s.Cutover.Comparisons < 250 || s.Cutover.Comparisons > 400 {
			t.Errorf("cutover %+v", s.Cutover)
		}
		if got := p.fetched().Transport; got != "stream" {
			t.Errorf("transport %s", got)
		}
	})
}

// TestSwitchDoesNotWaitForAHeartbeat: the client requests an answer.
func TestSwitchDoesNotWaitForAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(rules.Options{})
		cfg := w.config("Pre")
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		p.expect("Pre", "self", 5*time.Second)
		time.Sleep(time.Minute + time.Second)
		p.setMode("Exec")
		p.expect("Exec", "routeserver", 4*time.Second)
	})
}
