package robustness

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// TestAWrongAnswerOfTheAPIChangesNothing: a 200 without a list was accepted as an empty list; a single 404 of discovery removed
// all RouteGroups; lists emptied by a broken cache were accepted; and a watch that began with a wrong empty list stayed wrong for
// ten minutes. Without a change of objects, no client must get another table.
func TestAWrongAnswerOfTheAPIChangesNothing(t *testing.T) {
	for _, transport := range []string{"poll", "watch"} {
		t.Run(transport, func(t *testing.T) {
			var quiet time.Duration
			h := play(t, Scenario{
				Members: []history.Member{server("s1", transport), poller("p1", "s1")},
				Play: func(s *Stage) error {
					if err := s.Await("a table", func() bool { return s.Held("p1").Digest != "" }); err != nil {
						return err
					}
					for _, f := range []plan.Fault{
						{Name: ListOther, Path: "ingresses"}, {Name: ListOther, Path: "endpointslices"},
						{Name: ListEmpty, Path: "services"}, {Name: ListHalf, Path: "routegroups"},
						{Name: DiscoveryFlaps}, {Name: DiscoveryFails, Status: 404}, {Name: DiscoveryFails, Status: 503},
						{Name: WatchGone}, {Name: ListShort}, {Name: ListStale},
					} {
						f.Link, f.For = "s1>api", 1200*time.Millisecond
						if err := s.Strike(f); err != nil {
							return err
						}
					}
					quiet = s.Now()
					return everyKindIsBack(s)
				},
			})
			digests := make(map[string]bool)
			tables(h, "p1", func(a history.Answer, _ string) {
				if a.End < quiet {
					digests[a.Digest] = true
				}
			})
			if len(digests) != 1 {
				t.Errorf("the client got %d tables", len(digests))
			}
		})
	}
}

// everyKindIsBack waits until a change of each kind of objects has reached the client p1: a broken watch is tried again after a while,
// and what the run ends with must not depend on which one is the last.
func everyKindIsBack(s *Stage) error {
	const name, address = "every-kind", "10.9.9.9"
	write := func(kind, object string) traffic.Write {
		return traffic.Write{Key: traffic.Key{Kind: kind, Namespace: "team-0", Name: name}, Object: object, Class: traffic.Valid}
	}
	const meta = `"metadata":{"name":"` + name + `","namespace":"team-0"}`
	err := s.Apply(
		write(traffic.Service, `{"apiVersion":"v1","kind":"Service",`+meta+`,
			"spec":{"type":"ClusterIP","clusterIP":"10.3.0.1","ports":[{"name":"http","port":80,"targetPort":8080}]}}`),
		write(traffic.EndpointSlice, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"`+name+`","namespace":"team-0",
			"labels":{"kubernetes.io/service-name":"`+name+`"}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],
			"endpoints":[{"addresses":["`+address+`"],"conditions":{"ready":true}}]}`),
		write(traffic.Ingress, `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",`+meta+`,"spec":{"rules":[{"host":"i.example.org",
			"http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"`+name+`","port":{"name":"http"}}}}]}}]}}`),
		write(traffic.RouteGroup, `{"apiVersion":"zalando.org/v1","kind":"RouteGroup",`+meta+`,"spec":{"hosts":["g.example.org"],
			"backends":[{"name":"main","type":"service","serviceName":"`+name+`","servicePort":80}],
			"defaultBackends":[{"backendName":"main"}],"routes":[{"pathSubtree":"/"}]}}`),
	)
	if err != nil {
		return err
	}
	return s.Await("a change of each kind", func() bool {
		return strings.Count(s.Text(s.Held("p1").Digest), address) == 2 // one of the Ingress, one of the RouteGroup
	})
}
