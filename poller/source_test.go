package poller_test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

// objects is a source whose objects a test changes. Unchanged objects keep their pointers.
type objects struct {
	mu       sync.Mutex // guards the fields below
	revision kube.Revision
	byRef    map[kube.Ref]kube.Object
}

// Apply adds the objects of a YAML stream, or replaces those of the same name.
func (o *objects) Apply(stream string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byRef == nil {
		o.byRef = make(map[kube.Ref]kube.Object)
	}
	for _, doc := range manifests.Split([]byte(stream)) {
		text, err := manifests.ToJSON(doc)
		if err != nil {
			return err
		}
		var head struct{ Kind kube.Kind }
		if err := json.Unmarshal(text, &head); err != nil {
			return err
		}
		if head.Kind == "" {
			continue // an empty document
		}
		object, err := kube.DecodeJSON(head.Kind, text)
		if err != nil {
			return err
		}
		o.byRef[object.Ref()] = object
		o.revision++
	}
	return nil
}

// Delete removes an object.
func (o *objects) Delete(ref kube.Ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byRef, ref)
	o.revision++
}

// Read returns the objects in the order of the API.
func (o *objects) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &kube.Snapshot{Revision: o.revision, Newest: o.revision}
	for _, ref := range slices.SortedFunc(maps.Keys(o.byRef), func(a, b kube.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		switch object := o.byRef[ref].(type) {
		case *kube.Ingress:
			s.Ingresses = append(s.Ingresses, object)
		case *kube.RouteGroup:
			s.RouteGroups = append(s.RouteGroups, object)
		case *kube.Service:
			s.Services = append(s.Services, object)
		case *kube.Endpoints:
			s.Endpoints = append(s.Endpoints, object)
		case *kube.EndpointSlice:
			s.EndpointSlices = append(s.EndpointSlices, object)
		}
	}
	return s, nil
}
