package sidecar_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// A data plane that computes its own table has live endpoints while it holds a suspicious intent.
func TestHeldIntentOfAComputedTableHasLiveEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"), ingress("b"), ingress("c"))
		p := w.run(w.config("False"))
		p.expect("False", "self", time.Second)
		before := p.get("/routes").Body.String()
		for _, name := range []string{"a", "b"} {
			w.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: name})
		}
		time.Sleep(4 * time.Second)
		if err := w.cluster.Apply(strings.ReplaceAll(service, "10.2.0.9}", "10.2.0.77}")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		got := p.get("/routes")
		if want := strings.ReplaceAll(before, "10.2.0.9:", "10.2.0.77:"); got.Body.String() != want {
			t.Errorf("served is\n%s\nwant the routes from before with the new endpoint\n%s", got.Body, want)
		}
		if state := got.Header().Get("X-Table-State"); state != "held" {
			t.Errorf("state %q, want held", state)
		}
		held := p.admin(http.MethodGet, "/guard/held")
		if held.Code != http.StatusOK || !strings.Contains(held.Body.String(), "shop/a") || !strings.Contains(held.Body.String(), "kept: Ingress shop/a: served as it was, its deletion waits") {
			t.Errorf("what is held: %d\n%s", held.Code, held.Body)
		}
		digest := p.status().Self.Guard.Digest
		if got := p.admin(http.MethodPost, "/guard/accept?digest="+digest); got.Code != http.StatusOK {
			t.Fatalf("accept: %d\n%s", got.Code, got.Body)
		}
		if after := p.get("/routes").Body.String(); strings.Contains(after, "shop__a__") || !strings.Contains(after, "10.2.0.77:") {
			t.Errorf("after the acceptance:\n%s", after)
		}
	})
}
