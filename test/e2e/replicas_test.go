package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

// digestOf returns the part of an ETag that names the content.
func digestOf(etag string) string {
	digest, _, _ := strings.Cut(strings.Trim(etag, `"`), ".")
	return digest
}

// counterIngress returns an Ingress whose route contains n.
func counterIngress(n int) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: counter, namespace: shop, annotations: {zalando.org/skipper-filter: 'setResponseHeader("N", "%d")'}}
spec: {rules: [{host: counter.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`, n)
}

// TestTwoReplicasNeverSendAClientBack lets a proxy-like client alternate between two replicas that poll out of step while objects
// change: it never gets content that it had before, and never the same content twice.
func TestTwoReplicasNeverSendAClientBack(t *testing.T) {
	c := ownCluster(t)
	withShop(t, c)
	proxy := newFaultProxy(t, c)
	replicas := []*process{startRoutesrv(t, proxy), startRoutesrv(t, proxy)}
	for _, r := range replicas {
		r.Ready(t)
	}
	seen := map[string]bool{} // digests that the client has moved on from
	etag, digest := "", ""
	poll := func(i int) {
		a := replicas[i%2].get(t, "/routes", etag)
		switch a.Status {
		case http.StatusOK:
			next := digestOf(a.Header.Get("Etag"))
			if next == digest {
				t.Errorf("poll %d: equal content was downloaded twice", i)
			}
			if seen[next] {
				t.Errorf("poll %d: sent back to %s", i, next)
			}
			seen[digest] = true
			etag, digest = a.Header.Get("Etag"), next
		case http.StatusNotModified:
		default:
			t.Fatalf("poll %d: %d", i, a.Status)
		}
	}
	const changes = 8
	polls := 0
	for n := range changes {
		withObjects(t, c, counterIngress(n))
		for range 10 {
			poll(polls)
			polls++
			proxy.awaitRequests(t, ingressList, 1) // of either replica
		}
	}
	if len(seen) < changes/2 {
		t.Errorf("the client saw %d tables, too few to show anything", len(seen))
	}
	programs.Eventually(t, "both replicas to serve what the client holds", func() bool {
		poll(polls)
		polls++
		return replicas[0].get(t, "/routes", etag).Status == http.StatusNotModified &&
			replicas[0].status(t).Table.Digest == digest && replicas[1].status(t).Table.Digest == digest
	})
}
