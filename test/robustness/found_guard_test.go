package robustness

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// TestWhatIsLostAtOnceIsHeld requires that a client keeps routes for at least half of the requests that it could answer, which is the
// guard's limit, until the hold ends. It does not require all of them: a server may read the API in the middle of a deletion, and publishes a loss within the
// limit.
func TestWhatIsLostAtOnceIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		hold  time.Duration
		play  func(*Stage) error
		count string // the counted routes contain it
	}{
		// All endpoints disappeared within two seconds: every route answered 502, without any alarm.
		"endpoints": {20 * time.Second, func(s *Stage) error { return s.Delete(1, traffic.EndpointSlice) }, "http://10."},
		// After the loss of every object, the routes for health checks and redirects formed a table that was not empty, and it
		// was served in the end.
		"all but what is generated": {time.Second, allAtOnce, ""},
		"all but what is generated, after a part": {time.Second, func(s *Stage) error {
			before := s.Held("p1").Digest
			if err := s.Delete(0.4, traffic.Ingress, traffic.RouteGroup); err != nil {
				return err
			}
			if err := s.Await("the table without a part", func() bool { return s.Held("p1").Digest != before }); err != nil {
				return err
			}
			return allAtOnce(s)
		}, ""},
		// Each step was below the limit of one half, and soon nothing was left.
		"steps below the limit": {20 * time.Second, func(s *Stage) error {
			for range 4 {
				if err := s.Delete(0.4, traffic.Ingress, traffic.RouteGroup); err != nil {
					return err
				}
				s.Wait(700 * time.Millisecond)
			}
			return nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var quiet time.Duration
			h := play(t, Scenario{
				Members: []history.Member{server("s1", "poll"), poller("p1", "s1")}, Hold: c.hold,
				Play: func(s *Stage) error {
					if err := s.Await("a table", func() bool { return s.Held("p1").Digest != "" }); err != nil {
						return err
					}
					if err := c.play(s); err != nil {
						return err
					}
					s.Wait(3 * time.Second)
					quiet = s.Now()
					return nil
				},
			})
			first := ""
			tables(h, "p1", func(a history.Answer, text string) {
				if first == "" {
					first = text
				}
				// The guard counts each host of a route, so its half can be a little less than half here.
				if now, all := requests(t, text, c.count), requests(t, first, c.count); a.End < quiet && 5*now < 2*all {
					t.Errorf("at %v: %d of %d requests are left", a.End, now, all)
				}
			})
		})
	}
}

// allAtOnce deletes every object while all reads of the server fail, so that one read shows all of it: what is left after a part, such
// as the Ingresses of a read that began before, may be served when the hold has ended.
func allAtOnce(s *Stage) error {
	blind := plan.Fault{Name: APIStatus, Link: plan.Link("s1", plan.APIName), Status: 503, For: 5 * time.Second}
	return s.During(blind, func() error {
		s.Wait(time.Second)
		return s.Delete(1, traffic.Ingress, traffic.RouteGroup)
	})
}

// TestARouteThatEndsProxiesReachesNobody: a filter with a duration of zero passes every check of a proxy and then crashes its
// process, on each instance and after each restart. Other objects of the cluster must not be affected.
func TestARouteThatEndsProxiesReachesNobody(t *testing.T) {
	const object = `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"poison","namespace":"team-0",
		"annotations":{"zalando.org/skipper-filter":"admissionControl(\"web\", \"active\", \"0s\", 10, 10, 0.5, 0.1, 0.5)"}},
		"spec":{"rules":[{"host":"poison.example.org","http":{"paths":[{"path":"/","pathType":"Prefix",
		"backend":{"service":{"name":"app-000","port":{"name":"http"}}}}]}}]}}`
	h := play(t, Scenario{
		Members: []history.Member{server("s1", "poll"), server("s2", "watch"), poller("p1", "s1"), poller("p2", "s2")},
		Play: func(s *Stage) error {
			err := s.Apply(traffic.Write{Key: traffic.Key{Kind: traffic.Ingress, Namespace: "team-0", Name: "poison"}, Object: object, Class: traffic.Poison})
			if err != nil {
				return err
			}
			return s.Churn(3 * time.Second)
		},
	})
	tables(h, "", func(a history.Answer, text string) {
		if strings.Contains(text, "admissionControl") {
			t.Errorf("%s has it at %v", a.Client, a.End)
		}
	})
}
