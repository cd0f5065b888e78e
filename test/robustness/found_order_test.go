package robustness

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// TestProxyIsNotSentBackByASidecarThatForgot: a data plane that computes its table is killed, and restarts in mode Exec behind a
// lagging relay. It has no table to compare with, and the proxy has a newer one than the relay. The proxy was sent the older one,
// because the sidecar trusted the route server unconditionally.
func TestProxyIsNotSentBackByASidecarThatForgot(t *testing.T) {
	play(t, Scenario{
		Members: []history.Member{
			server("s1", "poll"),
			{Name: "r1", Kind: history.Relay, Transport: "poll", Upstreams: []string{"s1"}},
			{Name: "d1", Kind: history.Sidecar, Transport: "poll", Mode: "False", Upstreams: []string{"r1"}},
			poller("p1", "d1"),
		},
		Play: func(s *Stage) error {
			return s.During(plan.Fault{Name: "refuse", Link: "r1>s1", For: 6 * time.Second}, func() error {
				if err := s.Churn(2 * time.Second); err != nil {
					return err
				}
				if err := s.SetMode("d1", "Exec!"); err != nil {
					return err
				}
				if err := s.Strike(plan.Fault{Name: plan.Kill, Link: "d1", For: 200 * time.Millisecond}); err != nil {
					return err
				}
				s.Wait(2 * time.Second)
				return nil
			})
		},
	})
}

// TestARestoredClusterReachesProxiesAllTheSame is the opposite case: the source really went back in time, and all clients must
// follow.
func TestARestoredClusterReachesProxiesAllTheSame(t *testing.T) {
	play(t, Scenario{
		Members: []history.Member{
			server("s1", "poll"),
			{Name: "r1", Kind: history.Relay, Transport: "poll", Upstreams: []string{"s1"}},
			{Name: "d1", Kind: history.Sidecar, Transport: "poll", Mode: "Exec", Upstreams: []string{"r1"}},
			poller("p1", "d1"), poller("p2", "r1", "s1"),
		},
		Play: func(s *Stage) error {
			if err := s.Churn(3 * time.Second); err != nil {
				return err
			}
			mark := traffic.New(traffic.Config{Seed: 4711})
			writes := mark.End() // has a route with the marker of another seed
			since := time.Now()
			if err := s.Apply(writes[len(writes)-3:]...); err != nil { // its service, its endpoints, and the Ingress
				return err
			}
			marked := func() bool { return strings.Contains(s.Text(s.Held("p1").Digest), mark.Marker()) }
			if err := s.Await("the proxy to have a table of after", marked); err != nil {
				return err
			}
			// The end of the churn goes as well: a busy machine takes its time until the API goes back.
			if err := s.Restore(time.Since(since) + time.Second); err != nil {
				return err
			}
			return s.Await("the proxy to have a table of before", func() bool { return !marked() })
		},
	})
}
