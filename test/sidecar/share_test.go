package sidecar_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Two revisions of one proxy on one node are in the share together, whatever the names of their pods; /status shows the name that
// counts.
func TestAShareOutlivesTheNameOfAPod(t *testing.T) {
	// By their names, the first pod is in the quarter and the second is not; of the nodes, the first is.
	const inPod, outPod = "skipper-ingress-7d4b9c6f5d-00004", "skipper-ingress-7d4b9c6f5d-00000"
	const inNode, outNode = "ip-10-0-0-10.eu-central-1.compute.internal", "ip-10-0-0-0.eu-central-1.compute.internal"
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ingress("a"))
		w.runServer(w.options)
		for _, tt := range []struct {
			node, pod string
			mode      string
			share     string
		}{
			{pod: inPod, mode: "Exec", share: `"by": "pod"`},
			{pod: outPod, mode: "Pre", share: outPod},
			{node: inNode, pod: outPod, mode: "Exec", share: `"by": "node"`},
			{node: inNode, pod: inPod, mode: "Exec", share: inNode},
			{node: outNode, pod: inPod, mode: "Pre", share: outNode},
		} {
			cfg := w.config("Exec:25%")
			cfg.Node, cfg.Pod = tt.node, tt.pod
			p := w.run(cfg)
			origin := map[string]string{"Exec": "routeserver", "Pre": "self"}[tt.mode]
			p.expect(tt.mode, origin, 10*time.Second)
			_, share, _ := strings.Cut(p.admin(http.MethodGet, "/status").Body.String(), `"share"`)
			if share, _, _ = strings.Cut(share, "}"); !strings.Contains(share, tt.share) {
				t.Errorf("node %q, pod %q: /status says share%s, want %s in it", tt.node, tt.pod, share, tt.share)
			}
			p.stop()
		}
	})
}
