package robustness

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/robustness/faultproxy"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// Scenarios returns the runs that the plants name.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "churn", Members: fleet(2, 4, 2, 2), Play: func(s *Stage) error { return s.Churn(5 * time.Second) }},
		{Name: "invalid", Members: fleet(1, 3, 1, 0), Play: invalid},
		{Name: "quiet", Members: fleet(1, 3, 1, 0), Play: func(s *Stage) error { s.Wait(9 * time.Second); return nil }},
		{Name: "api", Members: fleet(1, 3, 1, 0), Play: api},
		{Name: "other", Members: fleet(1, 3, 1, 0), MaxLoss: 1, Play: func(s *Stage) error {
			return s.During(plan.Fault{Name: ListOther, Link: "s1>api", Path: "routegroups", For: 2 * time.Second}, func() error {
				return s.Churn(3 * time.Second)
			})
		}},
		{Name: "outage", Members: fleet(1, 2, 1, 0), Play: outage},
		{Name: "loss-while-down", Members: fleet(1, 2, 1, 0), Hold: 5 * time.Second, Play: lossWhileDown},
		{Name: "loss", Members: fleet(1, 3, 1, 0), Hold: 9 * time.Second, Play: func(s *Stage) error {
			s.Wait(time.Second)
			if err := s.Delete(0.8, traffic.Ingress, traffic.RouteGroup); err != nil {
				return err
			}
			return s.Move(7 * time.Second)
		}},
		{Name: "restore", Members: fleet(1, 3, 1, 0), Hold: 2 * time.Minute, Play: func(s *Stage) error {
			return restore(s, deleteMost, func(*Stage) error { return nil })
		}},
		{Name: "restore-killed", Members: fleet(1, 3, 1, 0), Hold: 2 * time.Minute, Play: func(s *Stage) error {
			return restore(s, deleteMost, func(s *Stage) error {
				err := s.world.Strike(s.ctx, plan.Fault{Name: plan.Kill, Link: "s1", For: 500 * time.Millisecond})
				return errors.Join(err, s.world.AwaitReady(s.ctx, "s1", starting))
			})
		}},
		{Name: "restore-after-loss", Members: fleet(1, 2, 1, 0), Hold: 2 * time.Minute, Play: func(s *Stage) error {
			s.Wait(7 * time.Second) // until the served table is on disk
			lose := func(s *Stage) error { return deleteWhileDown(s, true) }
			return restore(s, lose, func(*Stage) error { return nil })
		}},
		{Name: "others", Members: fleet(1, 3, 1, 0), Hold: 2 * time.Minute, Play: others},
		{Name: "reused", Members: fleet(1, 3, 1, 0), Hold: 2 * time.Minute, Play: reused},
		{Name: "takeover", Members: fleet(1, 3, 1, 0), KeepTakeovers: true, Play: takenOver},
		{Name: "indirect", Members: fleet(1, 3, 1, 0), KeepTakeovers: true, Play: indirect},
		{Name: "trial", Members: fleet(1, 3, 1, 0), Trial: true, Play: tried},
		{Name: "late", Members: fleet(1, 3, 1, 0), Trial: true, Play: triedLate},
		{Name: "proven", Members: []history.Member{
			{Name: "s1", Kind: history.Server, Transport: "poll"},
			{Name: "d1", Kind: history.Sidecar, Upstreams: []string{"s1"}, Transport: "poll", Mode: "Exec"},
			{Name: "m1", Kind: history.Poller, Upstreams: []string{"d1"}, Mortal: true},
		}, Play: provenFirst},
		{Name: "canary", Members: append(fleet(1, 3, 1, 0), canaries(2)...), Soak: 4 * time.Second, Play: soaked},
		{Name: "watch", Members: watching(fleet(1, 3, 1, 1)), Play: func(s *Stage) error {
			err := s.Churn(2 * time.Second)
			s.Wait(4 * time.Second)
			return err
		}},
		{Name: "broken-body", Members: []history.Member{
			{Name: "s1", Kind: history.Server, Transport: "poll"},
			{Name: "d1", Kind: history.Sidecar, Upstreams: []string{"s1"}, Transport: "poll", Mode: "Exec"},
			{Name: "p1", Kind: history.Poller, Upstreams: []string{"d1"}},
		}, Play: func(s *Stage) error {
			err := s.Churn(2 * time.Second)
			// It lasts longer than the changes, so that the last table is among the corrupted ones. (The server notices a cut
			// connection, and sends that table again.)
			s.Begin(plan.Fault{Name: faultproxy.Corrupt, Link: "d1>s1", For: 3 * time.Second})
			s.Wait(time.Second)
			return err
		}},
		{Name: "drain", Members: fleet(1, 3, 1, 0), Hold: 9 * time.Second, Play: func(s *Stage) error {
			s.Wait(time.Second)
			if err := s.Delete(1, traffic.EndpointSlice); err != nil {
				return err
			}
			s.Wait(6 * time.Second)
			return nil
		}},
	}
}

// fleet returns servers that poll, each with the others as replicas, and clients that ask all of them.
func fleet(servers, pollers, deltas, streams int) []history.Member {
	var all []history.Member
	var asked []string
	for i := range servers {
		name := fmt.Sprintf("s%d", i+1)
		all = append(all, history.Member{Name: name, Kind: history.Server, Transport: "poll"})
		asked = append(asked, name)
	}
	add := func(n int, kind, prefix string) {
		for i := range n {
			all = append(all, history.Member{Name: fmt.Sprintf("%s%d", prefix, i+1), Kind: kind, Upstreams: asked})
		}
	}
	add(pollers, history.Poller, "p")
	add(deltas, history.Delta, "c")
	add(streams, history.Stream, "e")
	return all
}

// canaries are clients of the canary of the first server.
func canaries(n int) (all []history.Member) {
	for i := range n {
		all = append(all, history.Member{Name: fmt.Sprintf("k%d", i+1), Kind: history.Poller, Upstreams: []string{"s1"}, Canary: true})
	}
	return all
}

// watching is the same with servers that watch.
func watching(all []history.Member) []history.Member {
	for i := range all {
		if all[i].Kind == history.Server {
			all[i].Transport = "watch"
		}
	}
	return all
}

// api injects all faults of lists, one after the other.
func api(s *Stage) error {
	for _, f := range []plan.Fault{
		{Name: APIStatus, Status: 500, Path: "endpointslices"},
		{Name: ListHalf, Path: "routegroups"},
		{Name: ListStale, Path: "endpointslices"},
	} {
		f.Link, f.For = "s1>api", 1500*time.Millisecond
		if err := s.During(f, func() error { return s.Churn(2 * time.Second) }); err != nil {
			return err
		}
	}
	return nil
}

// outage restarts the server while the API is down.
func outage(s *Stage) error {
	if err := s.Churn(time.Second); err != nil {
		return err
	}
	s.Wait(7 * time.Second) // until the served table is on disk
	return s.During(plan.Fault{Name: faultproxy.Refuse, Link: "s1>api", For: 15 * time.Second}, func() error {
		s.Wait(500 * time.Millisecond)
		err := s.world.Strike(s.ctx, plan.Fault{Name: plan.Kill, Link: "s1", For: 500 * time.Millisecond})
		s.Wait(10500 * time.Millisecond) // until it must answer
		s.Newcomer("n1", "s1", time.Second)
		return err
	})
}

// lossWhileDown deletes most objects while the server is restarted.
func lossWhileDown(s *Stage) error {
	if err := s.Churn(time.Second); err != nil {
		return err
	}
	s.Wait(7 * time.Second) // until the served table is on disk
	err := deleteWhileDown(s, false)
	s.Wait(2 * time.Second)
	return err
}

// deleteMost deletes most objects at once.
func deleteMost(s *Stage) error { return s.Delete(0.8, traffic.Ingress, traffic.RouteGroup) }

// deleteWhileDown deletes most objects while the server is restarted, and also its history if only tables are to be known then.
func deleteWhileDown(s *Stage, forget bool) error {
	err := s.During(plan.Fault{Name: plan.Kill, Link: "s1", For: 1500 * time.Millisecond}, func() error {
		s.Wait(500 * time.Millisecond)
		if forget {
			if err := os.RemoveAll(filepath.Join(s.Process("s1").Folder, "state", "history")); err != nil {
				return err
			}
		}
		return deleteMost(s)
	})
	return errors.Join(err, s.world.AwaitReady(s.ctx, "s1", starting))
}

// restore deletes most objects, and applies them again one after the other. It calls halfway once, when half of them are back.
func restore(s *Stage, lose, halfway func(*Stage) error) error {
	s.Wait(time.Second)
	before := s.world.API.State()
	if err := lose(s); err != nil {
		return err
	}
	s.Wait(9 * time.Second) // longer than a validator allows for a read to show
	after := s.world.API.State()
	left := len(before) - len(after)
	half := left / 2
	for key, object := range before {
		if after[key] != "" {
			continue
		}
		if left--; left == half {
			if err := halfway(s); err != nil {
				return err
			}
		}
		if err := s.Apply(traffic.Write{Key: key, Object: object, Class: traffic.Mass}); err != nil {
			return err
		}
		if left > 1 {
			s.Wait(100 * time.Millisecond)
		} else {
			s.Wait(time.Second) // until a read shows that one is missing, and that none is
		}
	}
	return nil
}

// others deletes most objects and changes the rest at the same time, and then changes, creates and deletes objects while those are kept.
func others(s *Stage) error {
	s.Wait(time.Second)
	state := s.world.API.State()
	var rest, gone []traffic.Write
	for i, key := range Fronts(state) {
		if i%5 == 0 {
			rest = append(rest, traffic.Write{Key: key, Object: state[key], Class: traffic.Valid})
		} else {
			gone = append(gone, traffic.Write{Key: key, Class: traffic.Mass})
		}
	}
	version := 0
	change := func() error {
		version++
		for i, w := range rest {
			rest[i].Object = strings.ReplaceAll(state[w.Key], "X-Version", fmt.Sprintf("X-Version-%d", version))
		}
		return s.Apply(rest...)
	}
	if err := errors.Join(change(), s.Apply(gone...)); err != nil {
		return err
	}
	s.Wait(5 * time.Second) // longer than a validator allows for a read to show
	if err := errors.Join(change(), s.Apply(App("newcomers", "new", "10.9.0.1")...)); err != nil {
		return err
	}
	s.Wait(5 * time.Second)
	last := rest[len(rest)-1].Key
	if err := s.Apply(traffic.Write{Key: last, Class: traffic.Valid}); err != nil {
		return err
	}
	s.Wait(5 * time.Second)
	return nil
}

// Fronts returns the Ingresses and RouteGroups of a state, sorted.
func Fronts(state map[traffic.Key]string) []traffic.Key {
	var all []traffic.Key
	for key := range state {
		if key.Kind == traffic.Ingress || key.Kind == traffic.RouteGroup {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b traffic.Key) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind))
	})
	return all
}

// App returns the objects of an application with an Ingress and one pod.
func App(namespace, name, address string) []traffic.Write {
	write := func(kind, object string) traffic.Write {
		text := strings.NewReplacer("{namespace}", namespace, "{name}", name, "{address}", address).Replace(object)
		return traffic.Write{Key: traffic.Key{Kind: kind, Namespace: namespace, Name: name}, Object: text, Class: traffic.Valid}
	}
	const meta = `"metadata":{"name":"{name}","namespace":"{namespace}"}`
	return []traffic.Write{
		write(traffic.Service, `{"apiVersion":"v1","kind":"Service",`+meta+`,
			"spec":{"type":"ClusterIP","clusterIP":"10.3.0.1","ports":[{"name":"http","port":80,"targetPort":8080}]}}`),
		write(traffic.EndpointSlice, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"{name}","namespace":"{namespace}",
			"labels":{"kubernetes.io/service-name":"{name}"}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],
			"endpoints":[{"addresses":["{address}"],"conditions":{"ready":true}}]}`),
		write(traffic.Ingress, `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",`+meta+`,"spec":{"rules":[{"host":"{name}.{namespace}.example.org",
			"http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"{name}","port":{"name":"http"}}}}]}}]}}`),
	}
}

// reused deletes most endpoints, and then gives some of their addresses to pods of another service.
func reused(s *Stage) error {
	s.Wait(time.Second)
	state := s.world.API.State()
	if err := s.Delete(0.8, traffic.EndpointSlice); err != nil {
		return err
	}
	s.Wait(2 * time.Second)
	left, n := s.world.API.State(), 0
	for key, object := range state {
		_, rest, _ := strings.Cut(object, `"addresses":["`)
		address, _, found := strings.Cut(rest, `"`)
		if left[key] != "" || !found || n == 10 {
			continue
		}
		n++
		if err := s.Apply(App("thieves", fmt.Sprintf("thief-%d", n), address)...); err != nil {
			return err
		}
	}
	s.Wait(5 * time.Second)
	return nil
}

// filtered is the Ingress of an application in a namespace, with a filter.
func filtered(namespace, value, class string) traffic.Write {
	app := App(namespace, "filters", "10.9.0.1")
	front := app[len(app)-1]
	front.Object = strings.Replace(front.Object, `"metadata":{`, `"metadata":{"annotations":{"zalando.org/skipper-filter":"setResponseHeader(\"X-Tried\", \"`+value+`\")"},`, 1)
	front.Class = class
	return front
}

// provenFirst gives the proxy of a data plane a table of which it dies, once a table is proven, then repairs the object, and restarts the data plane
// without its server.
func provenFirst(s *Stage) error {
	proven := func() bool {
		text, err := os.ReadFile(filepath.Join(s.Process("d1").Folder, "state", "proof.json"))
		return err == nil && strings.Contains(string(text), `"proven"`)
	}
	if err := s.Await("a proven table", proven); err != nil {
		return err
	}
	if err := s.Apply(append(App("deadly", "filters", "10.9.0.1"), filtered("deadly", history.Fatal, traffic.Valid))...); err != nil {
		return err
	}
	if err := s.Await("two deaths", func() bool { return s.rec.Died("m1") >= 2 }); err != nil {
		return err
	}
	s.Wait(2 * time.Second) // time for a third one
	if err := s.Apply(filtered("deadly", "fine", traffic.Valid)); err != nil {
		return err
	}
	fine := func() bool {
		text := s.Text(s.Held("m1").Digest)
		return strings.Contains(text, "fine") && !strings.Contains(text, history.Fatal)
	}
	s.Wait(57 * time.Second) // the newest table is tried again a minute after the second death
	if err := s.Await("the repaired object", fine); err != nil {
		return err
	}
	s.Wait(7 * time.Second) // until what is wrongly written is on disk
	return s.During(plan.Fault{Name: faultproxy.Refuse, Link: "d1>s1", For: 10 * time.Second}, func() error {
		err := s.Strike(plan.Fault{Name: plan.Kill, Link: "d1", For: 500 * time.Millisecond})
		err = errors.Join(err, s.world.AwaitReady(s.ctx, "d1", starting))
		s.Newcomer("n1", "d1", time.Second)
		return err
	})
}

// triedLate applies an object with a filter that the trial proxy refuses, and its Service afterwards: then its effect changes, and the object does not.
func triedLate(s *Stage) error {
	backends := App("late", "filters", "10.9.0.1")[:2]
	for i, writes := range [][]traffic.Write{
		{filtered("late", refusedText, traffic.Refused)}, backends, App("newcomers", "new", "10.9.0.2"), {filtered("late", "fine", traffic.Valid)},
	} {
		if err := s.Apply(writes...); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		s.Wait(4 * time.Second) // longer than a validator allows for a read to show
	}
	return nil
}

// tried applies a filter that the trial proxy refuses, and then one that it accepts. A new object and a change follow each.
func tried(s *Stage) error {
	for i, writes := range [][]traffic.Write{
		App("tried", "filters", "10.9.0.1"), {filtered("tried", refusedText, traffic.Refused)}, App("newcomers", "new", "10.9.0.2"), {filtered("tried", "fine", traffic.Valid)},
	} {
		if err := s.Apply(writes...); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		s.Wait(4 * time.Second) // longer than a validator allows for a read to show
	}
	return nil
}

// invalid makes one RouteGroup invalid, the first in the list, and changes nothing else until every client has seen that.
func invalid(s *Stage) error {
	before := make(map[string]string)
	for _, m := range s.plan.Members {
		if m.Kind != history.Poller && m.Kind != history.Delta {
			continue
		}
		if err := s.Await("the first table of "+m.Name, func() bool { return s.Held(m.Name).Digest != "" }); err != nil {
			return err
		}
		before[m.Name] = s.Held(m.Name).Digest
	}
	if err := s.Apply(s.traffic.Invalidate()); err != nil {
		return err
	}
	for name, digest := range before {
		if err := s.Await("a table after the change for "+name, func() bool { return s.Held(name).Digest != digest }); err != nil {
			return err
		}
	}
	return nil
}
