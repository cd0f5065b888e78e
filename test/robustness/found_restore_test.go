package robustness

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// TestARestoreInStepsDelaysNobodyElse: all of three hundred Ingresses are deleted at once and restored in steps of one percent, and the
// server is killed in the middle. Meanwhile another team creates Ingresses and changes a RouteGroup. Every table answers every host, and
// the changes of the other team are served after two reads. A hold of the whole table had kept everybody waiting until the last step.
func TestARestoreInStepsDelaysNobodyElse(t *testing.T) {
	const apps, step = 450, 3 // two apps of three have an Ingress, the others have a RouteGroup
	type change struct {
		at   time.Duration
		text string // is in every table that has the change
	}
	var changes []change
	var all []string // hosts
	h := play(t, Scenario{
		Members: []history.Member{server("s1", "poll"), poller("p1", "s1")}, Hold: 2 * time.Minute, Apps: apps,
		Play: func(s *Stage) error {
			if err := s.Await("a table", func() bool { return s.Held("p1").Digest != "" }); err != nil {
				return err
			}
			all = answered(s.Text(s.Held("p1").Digest))
			state := s.State()
			var lost []traffic.Write
			var group traffic.Key
			for _, key := range Fronts(state) {
				if key.Kind == traffic.RouteGroup {
					group = key
					continue
				}
				lost = append(lost, traffic.Write{Key: key, Class: traffic.Mass})
			}
			// The server stands still meanwhile, so that one read shows all of it: the first steps of a loss that is read in steps are lost.
			still := plan.Fault{Name: plan.Freeze, Link: "s1", For: 5 * time.Second}
			if err := s.During(still, func() error { s.Wait(time.Second); return s.Apply(lost...) }); err != nil {
				return err
			}
			if err := s.Await("the hold", func() bool { return s.Held("p1").State == "held" }); err != nil {
				return err
			}
			for n := 0; n < len(lost); n += step {
				for _, w := range lost[n : n+step] {
					w.Object = state[w.Key]
					if err := s.Apply(w); err != nil {
						return err
					}
				}
				if n%(10*step) == 0 {
					name := fmt.Sprintf("new-%d", n)
					changed := strings.ReplaceAll(state[group], "X-Version", "X-"+name)
					err := s.Apply(append(App("newcomers", name, "10.9.0.1"), traffic.Write{Key: group, Object: changed, Class: traffic.Valid})...)
					if err != nil {
						return err
					}
					made := s.Now()
					both := []change{{made, name + "[.]newcomers"}, {made, `"X-` + name + `"`}}
					err = s.Await("the change of another team", func() bool {
						text := s.Text(s.Held("p1").Digest)
						return !slices.ContainsFunc(both, func(c change) bool { return !strings.Contains(text, c.text) })
					})
					if err != nil {
						return err
					}
					changes = append(changes, both...)
				}
				if n == len(lost)/2 {
					if err := s.Strike(plan.Fault{Name: plan.Kill, Link: "s1", For: 300 * time.Millisecond}); err != nil {
						return err
					}
				}
				s.Wait(200 * time.Millisecond)
			}
			return s.Await("the end of the hold", func() bool { return s.Held("p1").State == "" })
		},
	})
	if len(all) != apps || len(changes) == 0 {
		t.Fatalf("%d hosts, want %d; %d changes", len(all), apps, len(changes))
	}
	tables(h, "p1", func(a history.Answer, text string) {
		now := answered(text)
		for _, host := range all {
			if _, ok := slices.BinarySearch(now, host); !ok {
				t.Fatalf("at %v: no backend for %s in a table of %d hosts", a.End, host, len(now))
			}
		}
	})
	for i, c := range changes {
		due := thirdRead(h, c.at)
		replaced := h.Run.Calm
		if i+2 < len(changes) {
			replaced = changes[i+2].at // of the RouteGroup, by the next one
		}
		for _, a := range h.Answers {
			if a.Begin < due || a.End >= replaced || a.Digest == "" || a.Server != "s1" {
				continue
			}
			if !strings.Contains(h.Tables[a.Digest], c.text) {
				t.Errorf("at %v, two reads after a change at %v, the table has no %s", a.End, c.at, c.text)
				break
			}
		}
	}
}

// answered returns the names of the apps that a table routes to an address, sorted.
func answered(table string) []string {
	var hosts []string
	for line := range strings.Lines(table) {
		_, host, _ := strings.Cut(line, "Host(")
		if name, _, found := strings.Cut(host, "[.]"); found && strings.Contains(name, "app-") && strings.Contains(line, `"http://10.`) {
			hosts = append(hosts, name[strings.Index(name, "app-"):])
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// thirdRead returns when the third read after a time began: until then the second one was served. A read begins with the Ingresses.
func thirdRead(h *history.History, at time.Duration) time.Duration {
	n := 0
	for _, r := range h.Reads {
		if r.At > at && r.Kind == traffic.Ingress && r.Verb == "list" {
			if n++; n == 3 {
				return r.At
			}
		}
	}
	return h.Run.Duration
}
