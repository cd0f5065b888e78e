package validate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/robustness/history"
)

// TestTheOracleRemembersNothing: whatever was compiled before, the lines equal those of a new compiler.
func TestTheOracleRemembersNothing(t *testing.T) {
	object := func(kind kube.Kind, text string) kube.Object {
		o, err := kube.DecodeJSON(kind, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	service := object(kube.KindService, `{"metadata":{"namespace":"n","name":"s"},"spec":{"ports":[{"port":80,"targetPort":8080}]}}`)
	r := newOracle(history.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true})
	for i := range 6 {
		s := func() *kube.Snapshot {
			s := &kube.Snapshot{}
			addTo(s, object(kube.KindIngress, fmt.Sprintf(`{"metadata":{"namespace":"n","name":"i"},"spec":{"rules":[{"host":"h%d.example","http":{"paths":[
{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}}`, i%3)))
			addTo(s, service)
			if i%2 == 0 {
				addTo(s, object(kube.KindEndpointSlice, fmt.Sprintf(`{"metadata":{"namespace":"n","name":"e","labels":{"kubernetes.io/service-name":"s"}},
"endpoints":[{"addresses":["10.2.0.%d"]}],"ports":[{"port":8080,"protocol":"TCP"}]}`, i+1)))
			}
			return s
		}
		c, err := compile.New(rules.Options{EndpointSlices: true, Healthcheck: true, HealthcheckAccessLog: true, HTTPSRedirect: true})
		if err != nil {
			t.Fatal(err)
		}
		var want []line
		for route := range table.Of(c.Compile(s()).Routes, 0, time.Time{}).Routes().All() {
			want = append(want, line{route.ID, route.Text})
		}
		if got := compiled(r.all, s(), ""); len(got) < 5 || !slices.Equal(got, want) {
			t.Errorf("%d: %d lines, want those of a new compiler, %d:\n%v\n%v", i, len(got), len(want), got, want)
		}
	}
}
