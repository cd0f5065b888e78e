package found_test

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/robustness/history"
	"github.com/routesrv/routesrv/robustness/plan"
	"github.com/routesrv/routesrv/robustness/plants"
	"github.com/routesrv/routesrv/robustness/world"
)

// TestAWrongAnswerOfTheAPIChangesNothing: a 200 without a list was accepted as an empty list; a single 404 of discovery removed
// all RouteGroups; lists emptied by a broken cache were accepted; and a watch that began with a wrong empty list stayed wrong for
// ten minutes. Without a change of objects, no client must get another table.
func TestAWrongAnswerOfTheAPIChangesNothing(t *testing.T) {
	for _, transport := range []string{"poll", "watch"} {
		t.Run(transport, func(t *testing.T) {
			var quiet time.Duration
			h := play(t, plants.Scenario{
				Members: []history.Member{server("s1", transport), poller("p1", "s1")},
				Play: func(s *plants.Stage) error {
					if err := s.Await("a table", func() bool { return s.Held("p1").Digest != "" }); err != nil {
						return err
					}
					for _, f := range []plan.Fault{
						{Name: world.ListOther, Path: "ingresses"}, {Name: world.ListOther, Path: "endpointslices"},
						{Name: world.ListEmpty, Path: "services"}, {Name: world.ListHalf, Path: "routegroups"},
						{Name: world.DiscoveryFlaps}, {Name: world.DiscoveryFails, Status: 404}, {Name: world.DiscoveryFails, Status: 503},
						{Name: world.WatchEmpty}, {Name: world.WatchGone}, {Name: world.ListShort}, {Name: world.ListStale},
					} {
						f.Link, f.For = "s1>api", 1200*time.Millisecond
						if err := s.Strike(f); err != nil {
							return err
						}
					}
					quiet = s.Now()
					return nil
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
