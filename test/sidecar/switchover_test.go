package sidecar_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/app/sidecar"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/rollout"
)

// selective compiles only objects of a class; objects without a class are in every class.
func selective(class string) rules.Options { return rules.Options{IngressClass: class} }

// other is an Ingress of the class "other", which only some options compile.
func other(name string) string {
	return strings.Replace(ingress(name), "spec: {", "spec: {ingressClassName: other, ", 1)
}

func TestSuspiciousSwitchIsHeldUntilItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), other("b"), other("c"), other("d"))
		w.options = selective("other|skipper")
		w.runServer(selective("^skipper$")) // it lacks three routes of four
		cfg := w.config("False")
		cfg.ModeFile = tempFile(t, "mode", "False")
		cfg.Guard.Hold = time.Minute
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		before := p.get("/routes").Body.String()
		p.setMode("Exec")
		time.Sleep(20 * time.Second)
		s := p.expect("Exec", "self", 0)
		if s.Switch == nil || !s.Switch.Guard.Held || s.Switch.To != "routeserver" || p.metric("dataplane_switch_held") != 1 {
			t.Fatalf("switch %+v, want it held", s.Switch)
		}
		w.apply(other("e"))
		time.Sleep(4 * time.Second)
		if got := p.get("/routes").Body.String(); got == before || !strings.Contains(got, "e_example") {
			t.Error("the producer that is served does not go on while the switch is held")
		}
		p.expect("Exec", "routeserver", time.Minute)
		if p.metric("dataplane_switch_held") != 0 || p.status().Self != nil {
			t.Error("the switch is over, and the producer before was not stopped")
		}
	})
}

func TestHeldSwitchIsAcceptedOverTheSocketOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), other("b"), other("c"), other("d"))
		w.options = selective("other|skipper")
		w.runServer(selective("^skipper$"))
		cfg := w.config("Pre")
		cfg.ModeFile = tempFile(t, "mode", "Pre")
		p := w.run(cfg)
		p.expect("Pre", "self", time.Second)
		p.setMode("Exec")
		time.Sleep(20 * time.Second)
		digest := p.status().Switch.Guard.Digest

		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://10.2.0.1:9006/guard/accept", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "10.2.0.99:1234"
		if got := serve(p.SupportHandler(), r); got.Code != http.StatusNotFound {
			t.Errorf("over TCP: status %d, want 404", got.Code)
		}
		wrong := strings.Repeat("0", 63) + "1"
		if got := p.admin(http.MethodPost, "/guard/accept?digest="+wrong); got.Code != http.StatusConflict {
			t.Errorf("another digest: status %d, want 409", got.Code)
		}
		p.expect("Exec", "self", 0)
		if got := p.admin(http.MethodGet, "/guard/held"); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), digest) {
			t.Errorf("what is held: %d\n%s\nwant the digest %s", got.Code, got.Body, digest)
		}
		if got := p.admin(http.MethodPost, "/guard/accept?by=ada&why=planned&digest="+digest); got.Code != http.StatusOK {
			t.Errorf("status %d: %s", got.Code, got.Body)
		}
		s := p.expect("Exec", "routeserver", 0)
		if s.Table.Digest != digest {
			t.Errorf("served %s, want %s", s.Table.Digest, digest)
		}
		if got := p.admin(http.MethodGet, "/guard/held"); got.Code != http.StatusNotFound {
			t.Errorf("after the acceptance something is held: %d\n%s", got.Code, got.Body)
		}
		status := p.admin(http.MethodGet, "/status").Body.String()
		for _, want := range []string{`"what": "held"`, `"what": "accepted"`, `"by": "ada"`, `"why": "planned"`} {
			if !strings.Contains(status, want) {
				t.Errorf("status has no %s:\n%s", want, status)
			}
		}
	})
}

func TestSwitchBackEndsAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), other("b"), other("c"), other("d"))
		w.options = selective("other|skipper")
		w.runServer(selective("^skipper$"))
		cfg := w.config("False")
		cfg.ModeFile = tempFile(t, "mode", "False")
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		p.setMode("Exec")
		time.Sleep(20 * time.Second)
		p.setMode("Pre")
		s := p.expect("Pre", "self", 0)
		if s.Switch != nil || p.metric("dataplane_switch_held") != 0 {
			t.Errorf("switch %+v after it was called off", s.Switch)
		}
		time.Sleep(5 * time.Minute)
		p.expect("Pre", "self", 0)
	})
}

// The proxy holds a table of a higher revision than the one that it is moved to. After the switch it must get that table all the
// same, under an ETag that does not look older.
func TestTableOfALowerRevisionReachesTheProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), ingress("b"))
		w.runServer(rules.Options{Healthcheck: true}) // another table, which keeps the current revision
		w.cluster.SetRevision(200)
		cfg := w.config("False")
		cfg.ModeFile = tempFile(t, "mode", "False")
		p := w.run(cfg)
		p.expect("False", "self", time.Second)
		held := p.get("/routes")
		p.setMode("Exec")
		p.expect("Exec", "routeserver", 15*time.Second)
		if got := p.status().Table.Revision; got != 200 {
			t.Errorf("revision %d in /status, want that of the table before", got)
		}
		r := p.get("/routes", "If-None-Match: "+held.Header().Get("Etag"))
		if r.Code != http.StatusOK {
			t.Errorf("status %d, want the table of the route server; held %s", r.Code, held.Header().Get("Etag"))
		}
		if r.Header().Get("X-Revision") < held.Header().Get("X-Revision") {
			t.Errorf("revision %s after %s", r.Header().Get("X-Revision"), held.Header().Get("X-Revision"))
		}
	})
}

func TestRoutesFileHasWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		cfg := w.config("False")
		cfg.RoutesFile = filepath.Join(t.TempDir(), "routes.eskip")
		cfg.ModeFile = tempFile(t, "mode", "False")
		p := w.run(cfg)
		for _, mode := range []string{"False", "Exec"} {
			p.setMode(mode)
			w.apply(ingress("of-" + strings.ToLower(mode)))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			data, err := os.ReadFile(cfg.RoutesFile)
			if got, want := string(data), p.get("/routes").Body.String()+"\n"; err != nil || got != want {
				t.Errorf("%s: %v, file has\n%s\nwant\n%s", mode, err, got, want)
			}
		}
		if got := p.metric(`dataplane_file_writes_total{file="routes",result="ok"}`); got < 2 {
			t.Errorf("%v writes of the file are counted", got)
		}
	})
}

func TestZoneOfTheComputedTableIsThatOfTheFetchedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slices := `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, namespace: shop, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
endpoints:
- {addresses: [10.2.0.1], zone: one}
- {addresses: [10.2.0.2], zone: one}
- {addresses: [10.2.0.3], zone: one}
- {addresses: [10.2.0.4], zone: two}
ports: [{port: 8080, protocol: TCP}]
---`
		w := newWorld(t, ingress("a"), slices)
		w.options.EndpointSlices = true
		w.runServer(w.options)
		cfg := w.config("Pre")
		cfg.Fetch.ZoneFile = tempFile(t, "zone", "one\n")
		cfg.Cutover = rollout.CutoverConfig{MinComparisons: 3}
		p := w.run(cfg)
		time.Sleep(20 * time.Second)
		if body := p.get("/routes").Body.String(); !strings.Contains(body, "10.2.0.3") || strings.Contains(body, "10.2.0.4") {
			t.Errorf("table of zone one:\n%s", body)
		}
		if s := p.status(); !s.Cutover.Ready {
			t.Errorf("%+v, want tables of one zone to be the same", s.Cutover)
		}
	})
}

// TestRoutesFileIsNotTheLastKnownGoodFile: each write of one would destroy the other.
func TestRoutesFileIsNotTheLastKnownGoodFile(t *testing.T) {
	cfg := sidecar.Config{StateDir: "/x", RoutesFile: "/x/./table.eskip"}
	cfg.Fetch.URLs = []string{"http://127.0.0.1:1"}
	if _, err := sidecar.New(cfg); err == nil || !strings.Contains(err.Error(), "both last-known-good file and routes file") {
		t.Errorf("New: %v", err)
	}
}
