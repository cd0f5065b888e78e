// Package scale generates a cluster of realistic size and shape, for tests and benchmarks. The same factor always yields the same
// cluster.
//
// At factor 1 it has 15,000 Ingresses, 5,000 RouteGroups, 20,000 Services and as many EndpointSlices with two to five endpoints
// in three zones. With https-redirect, health check and EndpointSlices enabled it compiles to about 124,000 routes. Objects have
// the usual content that no route server needs: managed fields, the last-applied annotation, owner and node references. A third
// of the Ingresses has filters or predicates in annotations; RouteGroups have several routes, hosts, methods and weighted
// backends.
//
// [Cluster.Snapshot] returns what a source would read, [Cluster.Handler] an API server for it, and [Cluster.WriteManifests]
// writes it to files. Names and texts use few words: real ones compress less.
package scale

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// The numbers of objects at factor 1.
const (
	Ingresses   = 15000
	RouteGroups = 5000
	Services    = 20000 // and EndpointSlices
	namespaces  = 250
)

// Cluster is a generated cluster. It is immutable and its methods are safe for concurrent use.
type Cluster struct {
	ingresses, routeGroups, services, namespaces int
}

// New returns a cluster; factor 0.1 means a tenth of the objects. Each kind has at least one object.
func New(factor float64) *Cluster {
	n := func(at1 int) int { return max(1, int(float64(at1)*factor)) }
	return &Cluster{n(Ingresses), n(RouteGroups), n(Services), n(namespaces)}
}

// Snapshot returns the cluster as a source reads it, with EndpointSlices.
func Snapshot(factor float64) *kube.Snapshot { return New(factor).Snapshot() }

// Snapshot returns the cluster as a source reads it, with EndpointSlices, in the order of the API. Each call returns new objects.
func (c *Cluster) Snapshot() *kube.Snapshot {
	return &kube.Snapshot{
		Revision: firstRevision,
		Newest:   firstRevision,
		Intent: kube.Intent{
			Ingresses:   objects[*kube.Ingress](c, kube.KindIngress),
			RouteGroups: objects[*kube.RouteGroup](c, kube.KindRouteGroup),
		},
		Backends: kube.Backends{
			Services:       objects[*kube.Service](c, kube.KindService),
			EndpointSlices: objects[*kube.EndpointSlice](c, kube.KindEndpointSlice),
		},
	}
}

// Mutated returns a snapshot of the cluster after the n-th change of Ingress number i: another filter and another path. It shares
// all other objects with s, and does not change s.
func (c *Cluster) Mutated(s *kube.Snapshot, i, n int) *kube.Snapshot {
	changed := decode[*kube.Ingress](kube.KindIngress, c.JSON(kube.KindIngress, i%c.ingresses, n))
	at := slices.IndexFunc(s.Ingresses, func(o *kube.Ingress) bool { return o.Ref() == changed.Ref() })
	if at < 0 {
		panic("snapshot of another cluster") // programming error
	}
	next := *s
	next.Ingresses = slices.Clone(s.Ingresses)
	next.Ingresses[at] = changed
	return &next
}

// objects returns all objects of the kind in the order of the API: bytewise by "namespace/name".
func objects[T kube.Object](c *Cluster, kind kube.Kind) []T {
	out := make([]T, c.count(kind))
	for i := range out {
		out[i] = decode[T](kind, c.JSON(kind, i, 0))
	}
	key := func(o T) string { return o.Ref().Namespace + "/" + o.Ref().Name }
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	return out
}

func decode[T kube.Object](kind kube.Kind, text []byte) T {
	o, err := kube.DecodeJSON(kind, text)
	if err != nil {
		panic(fmt.Sprintf("made-up object: %v", err)) // programming error: it was marshalled here
	}
	return o.(T)
}

// WriteManifests writes the cluster to the folder, with one file of JSON documents for each namespace.
func (c *Cluster) WriteManifests(dir string) error {
	files := make(map[string][]byte)
	for _, kind := range kinds {
		for i := range c.count(kind) {
			name := c.namespace(i) + ".json"
			files[name] = append(append(files[name], c.JSON(kind, i, 0)...), '\n')
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// All yields all objects as JSON, by kind.
func (c *Cluster) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, kind := range kinds {
			for i := range c.count(kind) {
				if !yield(c.JSON(kind, i, 0)) {
					return
				}
			}
		}
	}
}

// kinds are the kinds of the generated objects.
var kinds = []kube.Kind{kube.KindIngress, kube.KindRouteGroup, kube.KindService, kube.KindEndpointSlice}

func (c *Cluster) count(k kube.Kind) int {
	switch k {
	case kube.KindIngress:
		return c.ingresses
	case kube.KindRouteGroup:
		return c.routeGroups
	default:
		return c.services
	}
}

// JSON returns object number i of the kind after its n-th change.
func (c *Cluster) JSON(k kube.Kind, i, n int) []byte {
	b, err := json.Marshal(c.object(k, i, n))
	if err != nil {
		panic(fmt.Sprintf("made-up object: %v", err)) // programming error: all fields are plain
	}
	return b
}

// object returns the typed object; only Ingresses change.
func (c *Cluster) object(k kube.Kind, i, n int) any {
	switch k {
	case kube.KindIngress:
		return c.ingress(i, n)
	case kube.KindRouteGroup:
		return c.routeGroup(i)
	case kube.KindService:
		return c.service(i)
	case kube.KindEndpointSlice:
		return c.endpointSlice(i)
	default:
		panic(fmt.Sprintf("no made-up objects of kind %q", k)) // programming error in this package
	}
}

// random returns the random source for an object, always the same for the same object.
func random(k kube.Kind, i int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(len(k)), uint64(i))) //nolint:gosec // made-up objects
}
