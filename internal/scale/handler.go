package scale

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/kube"
)

const firstRevision = 1000000

// pathOf is the list path of each kind.
var pathOf = map[kube.Kind]string{
	kube.KindIngress:       "/apis/networking.k8s.io/v1/ingresses",
	kube.KindRouteGroup:    "/apis/zalando.org/v1/routegroups",
	kube.KindService:       "/api/v1/services",
	kube.KindEndpointSlice: "/apis/discovery.k8s.io/v1/endpointslices",
}

// Handler serves a cluster like an API server: protobuf and gzip on request, lists with a resourceVersion. It encodes bodies once
// per change and form, so that serving is cheap. It ignores namespaces and selectors and never refuses a resourceVersion. It is
// safe for concurrent use.
type Handler struct {
	cluster *Cluster

	mu       sync.Mutex // guards the fields below
	revision kube.Revision
	changes  map[int]int // of Ingresses, by number
	items    map[kube.Kind][][]byte
	bodies   map[form][]byte
}

// form is an encoding of a list.
type form struct {
	kind           kube.Kind
	protobuf, gzip bool
}

// Handler returns an API server for the cluster.
func (c *Cluster) Handler() *Handler {
	return &Handler{
		cluster: c, revision: firstRevision, changes: make(map[int]int),
		items: make(map[kube.Kind][][]byte), bodies: make(map[form][]byte),
	}
}

// Mutate changes one Ingress (see [Cluster.Mutated]) and returns the new revision.
func (h *Handler) Mutate(i int) kube.Revision {
	i %= h.cluster.ingresses
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes[i]++
	if items := h.items[kube.KindIngress]; items != nil {
		at := slices.Index(h.cluster.order(kube.KindIngress), i)
		items = slices.Clone(items)
		items[at] = h.cluster.JSON(kube.KindIngress, i, h.changes[i])
		h.items[kube.KindIngress] = items
	}
	return h.touch()
}

// Touch raises the revision of every list and changes nothing else, as any write in a real cluster does. It returns the
// new revision.
func (h *Handler) Touch() kube.Revision {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.touch()
}

func (h *Handler) touch() kube.Revision {
	h.revision++
	clear(h.bodies)
	return h.revision
}

// Warm encodes the bodies for a client that accepts these forms, so that the next read does not wait.
func (h *Handler) Warm(protobuf, gzip bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range kinds {
		h.body(form{k, protobuf && k != kube.KindRouteGroup, gzip})
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == kubetest.Discovery {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"zalando.org/v1","resources":[{"name":"routegroups"}]}`)
		return
	}
	for k, path := range pathOf {
		if r.URL.Path != path {
			continue
		}
		f := form{kind: k, gzip: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")}
		f.protobuf = k != kube.KindRouteGroup && strings.Contains(r.Header.Get("Accept"), protobufType)
		h.mu.Lock()
		body := h.body(f)
		if r.URL.Query().Get("limit") == "1" {
			f.protobuf, f.gzip = false, false // small: a real server does not encode it either
			body = h.onePage(k)
		}
		h.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if f.protobuf {
			w.Header().Set("Content-Type", protobufType)
		}
		if f.gzip {
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		return
	}
	http.NotFound(w, r)
}

const protobufType = "application/vnd.kubernetes.protobuf"

// onePage returns the list's first object, with a token if there are more; mu is held.
func (h *Handler) onePage(k kube.Kind) []byte {
	items := h.list(k)
	return kubetest.EncodePage(k, h.revision, items[:1], len(items) > 1)
}

// body returns the list in the form; mu is held.
func (h *Handler) body(f form) []byte {
	if b, ok := h.bodies[f]; ok {
		return b
	}
	var b []byte
	switch {
	case f.gzip:
		b = compress(h.body(form{f.kind, f.protobuf, false}))
	case f.protobuf:
		var err error
		if b, err = kubetest.EncodeProtobuf(f.kind, h.revision, h.list(f.kind)); err != nil {
			panic(fmt.Sprintf("made-up object: %v", err)) // programming error: it was made from that type
		}
	default:
		b = kubetest.EncodeJSON(f.kind, h.revision, h.list(f.kind))
	}
	h.bodies[f] = b
	return b
}

// list returns the objects of the kind as JSON; mu is held.
func (h *Handler) list(k kube.Kind) [][]byte {
	if h.items[k] == nil {
		items := make([][]byte, 0, h.cluster.count(k))
		for _, i := range h.cluster.order(k) {
			n := 0
			if k == kube.KindIngress {
				n = h.changes[i]
			}
			items = append(items, h.cluster.JSON(k, i, n))
		}
		h.items[k] = items
	}
	return h.items[k]
}

func compress(body []byte) []byte {
	var b bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_, _ = zw.Write(body)                            // a Buffer does not fail
	_ = zw.Close()
	return b.Bytes()
}
