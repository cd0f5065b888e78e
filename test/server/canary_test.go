package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/fleet"
)

func soaking(d time.Duration) func(*server.Config) {
	return func(cfg *server.Config) { cfg.Canary.Soak = d }
}

// soaks returns what soaks.
func (f *fixture) soaks() *api.Canary {
	f.t.Helper()
	var s api.Status
	if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, api.PathStatus).body), &s); err != nil {
		f.t.Fatal(err)
	}
	return s.Canary
}

// serves reports whether a path is answered with a table that has a text.
func (f *fixture) serves(path, text string) bool { return strings.Contains(f.get(path).body, text) }

// TestChangesReachTheCanaryFirst: also while the API server is down a change is promoted at its time.
func TestChangesReachTheCanaryFirst(t *testing.T) {
	f := start(t, service+ingresses("a", "b"), soaking(3*time.Second))
	f.ready()
	for _, path := range []string{"/canary/routes", "/canary/routes/x"} {
		if one := f.get(path); one.status != http.StatusOK || one.body != f.get("/routes").body || one.header.Get("ETag") != f.get("/routes").header.Get("ETag") {
			t.Errorf("%s before a change: %d\n%s", path, one.status, one.body)
		}
	}
	first := f.get("/routes")
	f.apply(ingress("new"))
	f.eventually("the change on the canary", func() bool { return f.serves("/canary/routes", "new") })
	if f.serves("/routes", "new") {
		t.Error("the fleet is served a change that soaks")
	}
	second := f.get("/canary/routes", "If-None-Match: "+first.header.Get("ETag"))
	if second.status != http.StatusOK || f.get("/canary/routes", "If-None-Match: "+second.header.Get("ETag")).status != http.StatusNotModified {
		t.Errorf("the canary does not answer by ETags: %d", second.status)
	}
	if got := f.get("/routes").header.Get(api.HeaderTableState); got != "" {
		t.Errorf("the state of the table of the fleet is %q while something soaks", got)
	}
	st := f.soaks()
	if st == nil || st.Count != 1 || st.Objects[0].Name != "new" || st.NextPromotion.IsZero() || st.Table == nil {
		t.Errorf("status %+v", st)
	}
	if page := f.request(http.MethodGet, f.support, "/").body; !strings.Contains(page, "1 object on the canary") || !strings.Contains(page, "next promotion in ") {
		t.Errorf("the console does not tell what soaks:\n%s", page)
	}
	f.breakSource(true)
	f.eventually("the promotion", func() bool { return f.serves("/routes", "new") })
	f.eventually("nothing that soaks", func() bool { return f.soaks().Count == 0 })
	if lines := f.logged("changes promoted from the canary"); len(lines) != 1 {
		t.Errorf("log %q", lines)
	}
}

func TestWithoutACanaryBothPathsAnswerTheSame(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.MaxStreams = 1 })
	f.ready()
	f.apply(ingress("b"))
	f.eventually("the change", func() bool { return f.serves("/routes", "b[.]example") })
	if one, other := f.get("/canary/routes"), f.get("/routes"); one.status != http.StatusOK || one.body != other.body || one.header.Get("ETag") != other.header.Get("ETag") {
		t.Errorf("/canary/routes: %d\n%s", one.status, one.body)
	}
	if f.soaks() != nil {
		t.Error("the status tells of a canary")
	}
}

func TestClientsOfTheCanaryAreJudgedByItsTable(t *testing.T) {
	f := start(t, service+ingresses("a", "b"), soaking(time.Hour))
	f.ready()
	f.apply(ingress("new"))
	f.eventually("the change on the canary", func() bool { return f.serves("/canary/routes", "new") })
	fleetTag, canaryTag := f.get("/routes").header.Get("ETag"), f.get("/canary/routes").header.Get("ETag")
	ask := func(path, tag, name string) {
		f.get(path, "If-None-Match: "+tag, api.HeaderClient+": "+fleet.Identity{Kind: fleet.Sidecar, ID: "ns/" + name, Pod: true, Interval: time.Second}.String())
	}
	ask("/routes", fleetTag, "fleet")
	ask("/canary/routes", canaryTag, "canary")
	ask("/canary/routes", fleetTag, "late")
	got := make(map[string]string)
	f.eventually("all clients", func() bool { // a client is counted once its answer is complete
		var view fleet.Clients
		if err := json.Unmarshal([]byte(f.request(http.MethodGet, f.support, api.PathClients).body), &view); err != nil {
			t.Fatal(err)
		}
		for _, c := range view.Clients {
			got[c.ID] = fmt.Sprint(c.State, c.Canary)
		}
		return got["ns/late"] != ""
	})
	for id, want := range map[string]string{"ns/fleet": "currentfalse", "ns/canary": "currenttrue", "ns/late": "behindtrue"} {
		if got[id] != want {
			t.Errorf("%s is %s, want %s, of %v", id, got[id], want, got)
		}
	}
}

// fakePrometheus answers queries with what the test sets.
type fakePrometheus struct{ answer atomic.Pointer[string] }

func (p *fakePrometheus) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	text := p.answer.Load()
	if text == nil {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, *text)
}

func TestOrdersAboutWhatSoaks(t *testing.T) {
	none := ""
	p := &fakePrometheus{}
	p.answer.Store(&none)
	s := httptest.NewServer(p)
	defer s.Close()
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, service+ingresses("a", "b"), func(cfg *server.Config) {
		cfg.Canary.Soak, cfg.Canary.Query, cfg.Canary.Prometheus, cfg.StateDir = time.Hour, "up == 0", address, t.TempDir()
	})
	f.ready()
	f.eventually("a verdict", func() bool { v := f.soaks().Verdict; return v != nil && !v.Firing && v.Text == "no series" })
	if got := f.control(http.MethodPost, api.PathSteering+"?order=promote"); got.status != http.StatusConflict {
		t.Errorf("nothing soaks: %d %s", got.status, got.body)
	}
	f.apply(ingresses("good", "bad"))
	f.eventually("both on the canary", func() bool { return f.serves("/canary/routes", "good") && f.serves("/canary/routes", "bad") })
	if got := f.control(http.MethodPost, api.PathSteering+"?order=halt&object=Ingress/shop/bad"); got.status != http.StatusBadRequest {
		t.Errorf("a halt without a reason: %d %s", got.status, got.body)
	}
	dry := f.control(http.MethodPost, api.PathSteering+"?order=halt&object=Ingress/shop/bad&why=500s&dry=true")
	if dry.status != http.StatusOK || !strings.Contains(dry.body, "shop/bad") || !f.serves("/canary/routes", "bad") {
		t.Errorf("a dry run: %d %s", dry.status, dry.body)
	}
	if got := f.control(http.MethodPost, api.PathSteering+"?order=halt&object=Ingress/shop/bad&why=500s"); got.status != http.StatusOK || f.serves("/canary/routes", "bad") {
		t.Errorf("halt: %d %s", got.status, got.body)
	}
	if got := f.control(http.MethodPost, api.PathSteering+"?order=promote&object=Ingress/shop/good"); got.status != http.StatusOK || !f.serves("/routes", "good") || f.serves("/routes", "bad") {
		t.Errorf("promote: %d %s", got.status, got.body)
	}
	if st := f.soaks(); st.Halted != 1 || st.Objects[0].Halted != "500s" {
		t.Errorf("status %+v", st)
	}
	f.eventually("the history", func() bool {
		body := f.request(http.MethodGet, f.support, api.PathHistory).body
		return strings.Contains(body, `"halted"`) && strings.Contains(body, `the query returned no series`)
	})
	if body := f.request(http.MethodGet, f.support, api.PathProblems+"?reason=halted").body; !strings.Contains(body, "500s") {
		t.Errorf("problems: %s", body)
	}
}

// TestReplicasPromoteTogether: two replicas read the same cluster, and 100 clients ask one or the other of them. Nobody who has seen a change is sent
// back to the table without it.
func TestReplicasPromoteTogether(t *testing.T) {
	const soak, clients = 3 * time.Second, 100
	var replicas [2]*fixture
	peer := func(i int) func(context.Context, string, bool, func(io.Reader) error) error {
		return func(ctx context.Context, path string, first bool, read func(io.Reader) error) error {
			if first { // the other one has not started
				return errors.New("no other replica")
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+replicas[i].main+path, nil)
			if err != nil {
				return err
			}
			resp, err := replicas[i].client.Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return read(resp.Body)
		}
	}
	objects := service + ingresses("a", "b")
	for i := range replicas {
		replicas[i] = &fixture{}
		cfg := replicas[i].config(t, objects)
		cfg.Canary.Soak, cfg.FromPeers, cfg.Interval = soak, peer(1-i), 300*time.Millisecond
		replicas[i].run(cfg)
	}
	for _, f := range replicas {
		f.ready()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var back, moved atomic.Int64
	for range clients {
		asking.Go(func() {
			tag, seen := "", false
			for ctx.Err() == nil {
				f := replicas[rand.IntN(2)]
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.main+"/routes", nil)
				r.Header.Set("If-None-Match", tag)
				if resp, err := f.client.Do(r); err == nil {
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if resp.StatusCode == http.StatusOK && err == nil {
						tag = resp.Header.Get("ETag")
						if has := strings.Contains(string(body), "new[.]example"); has && !seen {
							seen = true
							moved.Add(1)
						} else if seen && !has {
							back.Add(1)
						}
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(rand.IntN(60)) * time.Millisecond):
				}
			}
		})
	}
	for i, f := range replicas { // the second one reads it later
		f.apply(ingress("new"))
		f.eventually("the change on the canary", func() bool { return f.serves("/canary/routes", "new") })
		if i == 0 {
			time.Sleep(400 * time.Millisecond)
		}
	}
	a, b := replicas[0], replicas[1]
	a.eventually("an agreement", func() bool {
		x, y := a.soaks(), b.soaks()
		return x.Count == 0 || y.Count == 0 || x.NextPromotion.Equal(y.NextPromotion)
	})
	if a.soaks().Count == 0 {
		t.Error("promoted before the replicas agreed")
	}
	a.eventually("the promotion everywhere", func() bool { return moved.Load() == clients })
	cancel()
	asking.Wait()
	if n := back.Load(); n > 0 {
		t.Errorf("clients were sent back %d times", n)
	}
}
