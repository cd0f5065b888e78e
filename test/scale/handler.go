package scale

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

const firstRevision = 1000000

// paths are the list paths of the kinds.
var paths = []string{
	"/apis/networking.k8s.io/v1/ingresses", "/apis/zalando.org/v1/routegroups", "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices",
}

// Handler is an API server for a cluster. It is safe for concurrent use.
type Handler struct {
	*kubetest.Server
	cluster *Cluster

	mu      sync.Mutex
	changes map[int]int // of Ingresses, by number; guarded by mu
}

// Handler returns an API server for the cluster.
func (c *Cluster) Handler() *Handler {
	server, err := kubetest.New(bytes.Join(slices.Collect(c.All()), []byte("\n---\n")), kubetest.API{})
	if err != nil {
		panic(fmt.Sprintf("made-up objects: %v", err)) // programming error
	}
	server.SetRevision(firstRevision)
	server.SetEncodings(true, true)
	return &Handler{Server: server, cluster: c, changes: make(map[int]int)}
}

// Mutate changes one Ingress (see [Cluster.Mutated]) and returns the new revision.
func (h *Handler) Mutate(i int) kube.Revision {
	i %= h.cluster.ingresses
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes[i]++
	if err := h.Apply(string(h.cluster.JSON(kube.KindIngress, i, h.changes[i]))); err != nil {
		panic(fmt.Sprintf("made-up object: %v", err)) // programming error
	}
	return h.Revision()
}

// Touch raises the revision of every list and changes nothing else, as any write in a real cluster does. It returns the
// new revision.
func (h *Handler) Touch() kube.Revision {
	next := h.Revision() + 1
	h.SetRevision(next)
	return next
}

// Warm encodes the lists, so that the next read does not wait.
func (h *Handler) Warm() {
	for _, path := range paths {
		h.Body(path, true, true)
	}
}
