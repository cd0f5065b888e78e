package kube_test

import (
	"errors"
	"testing"

	"github.com/routesrv/routesrv/kube"
)

// FuzzDecodeJSON: whatever an API server sends as one object, the result is an object of its kind, or an error that names the
// parts that could be read, and both ways of reading the name agree.
func FuzzDecodeJSON(f *testing.F) {
	kinds := []kube.Kind{kube.KindIngress, kube.KindRouteGroup, kube.KindService, kube.KindEndpoints, kube.KindEndpointSlice}
	for i := range kinds {
		for _, text := range []string{
			``, `{}`, `null`, `[]`, `{"metadata":null,"spec":null}`, `{"metadata":{"namespace":5,"name":"a"}}`,
			`{"metadata":{"namespace":"n","name":"a","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"kubernetes.io/service-name":"s"}}}`,
			`{"metadata":{"name":"a"},"spec":{"rules":[null,{"http":{"paths":[null,{"backend":null}]}}],"tls":[null]}}`,
			`{"metadata":{"name":"a"},"spec":{"backends":[null],"defaultBackends":[null],"routes":[null],"hosts":[""]}}`,
			`{"metadata":{"name":"a"},"spec":{"ports":[null,{"targetPort":null},{"targetPort":"x"},{"targetPort":8080}]}}`,
			`{"metadata":{"name":"a"},"spec":{"ports":[{"targetPort":1.5}]}}`,
			`{"subsets":[null,{"addresses":[null],"ports":[null]}]}`,
			`{"endpoints":[null,{"addresses":null,"conditions":{"ready":null}},{"addresses":["10.0.0.1"]}],"ports":null}`,
		} {
			f.Add(byte(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, text []byte) {
		k := kinds[int(kind)%len(kinds)]
		o, err := kube.DecodeJSON(k, text)
		if err != nil {
			var d *kube.DecodeError
			if !errors.As(err, &d) || d.Ref.Kind != k {
				t.Fatalf("%v is not about a %s", err, k)
			}
			return
		}
		if o.Ref().Kind != k {
			t.Fatalf("%s was read as %s", k, o.Ref())
		}
		if got := kube.SalvageRef(k, text); got != o.Ref() {
			t.Fatalf("salvaged %s, decoded %s", got, o.Ref())
		}
	})
}
