package kube_test

import (
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/kube"
)

// TestEqualTextsAreStoredOnce: objects are the same as without it.
func TestEqualTextsAreStoredOnce(t *testing.T) {
	for _, tt := range []struct {
		kind kube.Kind
		json string
		text func(kube.Object) string // one that repeats
	}{
		{
			kube.KindIngress, `{"metadata":{"name":"a","namespace":"shop","annotations":{"zalando.org/skipper-filter":"compress()"},"labels":{"team":"x"}},
				"spec":{"rules":[{"host":"a.org","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"name":"http"}}}}]}}]}}`,
			func(o kube.Object) string { return o.(*kube.Ingress).Annotations[0].Value },
		},
		{
			kube.KindRouteGroup, `{"metadata":{"name":"a","namespace":"shop"},"spec":{"hosts":["a.org"],"backends":[{"name":"b","type":"shunt"}],
				"routes":[{"pathSubtree":"/","filters":["status(200)"],"methods":["GET"],"backends":[{"backendName":"b"}]}]}}`,
			func(o kube.Object) string { return o.(*kube.RouteGroup).Spec.Routes[0].Filters[0] },
		},
		{
			kube.KindService, `{"metadata":{"name":"a","namespace":"shop"},"spec":{"type":"ClusterIP","ports":[{"name":"http","port":80,"targetPort":"web"}]}}`,
			func(o kube.Object) string { return o.(*kube.Service).Ports[0].TargetPort.Name },
		},
		{
			kube.KindEndpointSlice, `{"metadata":{"name":"a","namespace":"shop","labels":{"kubernetes.io/service-name":"a"}},
				"ports":[{"name":"http","port":80,"protocol":"TCP"}],"endpoints":[{"addresses":["10.2.0.1"],"zone":"zone-a"}]}`,
			func(o kube.Object) string { return o.(*kube.EndpointSlice).Endpoints[0].Zone },
		},
		{kube.KindIngress, `{"metadata":{"name":"a","namespace":"shop"}}`, func(o kube.Object) string { return o.Ref().Namespace }},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			var texts kube.Texts
			var objects [3]kube.Object
			for i := range objects {
				var err error
				if objects[i], err = kube.DecodeJSON(tt.kind, []byte(tt.json)); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					texts.Share(objects[i])
				}
			}
			if diff := cmp.Diff(objects[0], objects[2]); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if a, b := tt.text(objects[1]), tt.text(objects[2]); unsafe.StringData(a) != unsafe.StringData(b) {
				t.Errorf("%q is stored twice", a)
			}
		})
	}
}
