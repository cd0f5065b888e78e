package validate_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// TestHoldsAreHonest: a server keeps its intent, reports that, and serves the newest endpoints, until the hold ends or the table
// is accepted.
func TestHoldsAreHonest(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		t.Run(fmt.Sprint(accepted), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 1))
			s := newSim(t, "a")
			s.client("c", "a")
			s.shop(20)
			s.read("a", nil)
			s.ask("c", "a")
			s.sleep(10 * time.Second)
			s.lose()
			v := s.servers["a"]
			intent := [2]map[kube.Ref]string{v.lists[0], v.lists[1]}
			end := s.now + s.h.Run.Hold
			if accepted {
				end = s.now + 10*time.Second
			}
			for s.now < end {
				for range r.IntN(3) {
					s.endpoints(fmt.Sprintf("s%02d", r.IntN(20)), fmt.Sprintf("10.2.%d.1", r.IntN(200)))
				}
				if r.IntN(3) == 0 {
					s.ingress(fmt.Sprintf("later%d", r.IntN(5)), "s00")
				}
				s.sleep(time.Second)
				before := *v
				s.read("a", nil)
				text, digest, revision, read := before.text, before.digest, before.revision, v.lists
				v.text, v.digest, v.revision, v.lists[0], v.lists[1], v.state = text, digest, revision, intent[0], intent[1], "held"
				v.publish(s, s.revision)
				v.lists = read
				s.ask("c", "a")
			}
			if accepted {
				s.h.Events = append(s.h.Events, history.Event{At: s.now, Member: "a", Name: "accept"})
			}
			v.state = ""
			s.read("a", nil)
			s.ask("c", "a")
			s.settle()
			s.want()
		})
	}
}

// TestKeptObjectsAreHonest: a server keeps the objects that would be lost, and serves all others as they are read, until it releases the
// kept ones.
func TestKeptObjectsAreHonest(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	s := newSim(t, "a")
	s.client("c", "a")
	s.shop(20)
	s.read("a", nil)
	s.ask("c", "a")
	s.sleep(10 * time.Second)
	kept := s.lose()
	s.ingress("i16", "s03") // at the same time
	for end := s.now + s.h.Run.Hold; s.now < end; {
		for range r.IntN(3) {
			s.endpoints(fmt.Sprintf("s%02d", r.IntN(20)), fmt.Sprintf("10.2.%d.1", r.IntN(200)))
		}
		if r.IntN(3) == 0 {
			s.ingress(fmt.Sprintf("later%d", r.IntN(5)), "s00")
		}
		if s.now > end-20*time.Second && s.objects[g17] != "" {
			s.set(g17.Kind, g17.Name, "", "valid")
		}
		s.sleep(time.Second)
		s.keep("a", kept)
		s.ask("c", "a")
	}
	s.release("a")
	s.read("a", nil)
	s.ask("c", "a")
	s.settle()
	s.want()
}

// g17 is an object that does not get lost.
var g17 = kube.Ref{Kind: kube.KindRouteGroup, Namespace: "shop", Name: "g17"}

// keep makes one read of a server that keeps objects at earlier versions. Those without a text are not served.
func (s *sim) keep(name string, kept map[kube.Ref]string) {
	v := s.servers[name]
	before := *v
	s.read(name, nil)
	read := v.lists
	v.text, v.digest, v.revision = before.text, before.digest, before.revision
	for i := range kinds {
		v.lists[i] = maps.Clone(read[i])
		for ref, text := range kept {
			if ref.Kind == kinds[i] && text == "" {
				delete(v.lists[i], ref)
			} else if ref.Kind == kinds[i] {
				v.lists[i][ref] = text
			}
		}
	}
	if v.state == "" {
		s.h.Events = append(s.h.Events, history.Event{At: s.now, Member: name, Name: "kept", Args: "routes_lost"})
	}
	v.state = "held"
	v.publish(s, s.revision)
	v.lists = read
}

// release ends what keep began, after the time of a hold.
func (s *sim) release(name string) {
	s.sleep(s.h.Run.Hold)
	s.h.Events = append(s.h.Events, history.Event{At: s.now, Member: name, Name: "released"})
	s.servers[name].state = ""
}

// TestALossInStepsThatNoClientSawIsHonest: a server that is killed again and again publishes tables that its clients miss. Each
// is fine compared with the one before.
func TestALossInStepsThatNoClientSawIsHonest(t *testing.T) {
	s := newSim(t, "a")
	s.client("c", "a")
	s.shop(20)
	s.read("a", nil)
	s.ask("c", "a")
	for i := range 16 {
		kind, name := kube.KindIngress, fmt.Sprintf("i%02d", i)
		if i%2 == 1 {
			kind, name = kube.KindRouteGroup, fmt.Sprintf("g%02d", i)
		}
		s.set(kind, name, "", "valid")
		if i%4 == 3 {
			s.sleep(time.Second)
			s.read("a", nil)
			s.logs("a", false)
			s.restart("a")
		}
	}
	s.ask("c", "a")
	s.settle()
	s.want()
}

// TestATableThatNoClientSawIsLoaded: a server publishes a table, is killed before anybody asks, and serves it while the API is
// away.
func TestATableThatNoClientSawIsLoaded(t *testing.T) {
	s := newSim(t, "a")
	s.client("c", "a")
	s.shop(10)
	s.read("a", nil)
	s.ask("c", "a")
	s.sleep(20 * time.Second)
	s.endpoints("s00", "10.9.9.8")
	s.sleep(time.Second)
	s.read("a", nil)
	s.logs("a", false)
	s.h.Faults = append(s.h.Faults, history.Fault{From: s.now, To: s.now + 10*time.Second, Name: "refuse", Link: "a>api"})
	s.restart("a")
	s.ask("c", "a")
	s.sleep(30 * time.Second)
	s.settle()
	s.want()
}

// TestARestoreSendsClientsBack: etcd was restored, revisions start again, and clients go back.
func TestARestoreSendsClientsBack(t *testing.T) {
	s := newSim(t, "a", "b")
	s.client("c", "a", "b")
	s.shop(10)
	saved, revision := map[kube.Ref]string{}, s.revision
	for ref, text := range s.objects {
		saved[ref] = text
	}
	for i := range 5 {
		s.ingress(fmt.Sprintf("new%d", i), "s00")
		s.sleep(time.Second)
		s.read("a", nil)
		s.ask("c", "a")
	}
	s.sleep(time.Second)
	s.objects, s.revision = saved, revision
	s.h.Changes = append(s.h.Changes, history.Change{At: s.now, Revision: revision, Reset: true})
	s.endpoints("s00", "10.7.7.7")
	s.sleep(time.Second)
	s.read("a", nil)
	s.h.Answers = append(s.h.Answers, *s.back("c", "a"))
	s.settle()
	s.want()
}

// back returns an answer to a client that is ahead according to a consistent read.
func (s *sim) back(client, server string) *history.Answer {
	a := *s.ask(client, server)
	s.h.Answers = s.h.Answers[:len(s.h.Answers)-1]
	v := s.servers[server]
	a.Status, a.Form, a.Outcome, a.Digest, a.Revision = 200, "table", history.Applied, v.digest, v.revision
	a.ETag = fmt.Sprintf(`"%s.%d"`, v.digest, v.revision)
	return &a
}

// TestCoverageCountsWhatIsCertain: without changes every route has only one possible state; with changes within each read some
// have several.
func TestCoverageCountsWhatIsCertain(t *testing.T) {
	s := newSim(t, "a")
	s.client("c", "a")
	s.shop(10)
	s.read("a", nil)
	s.ask("c", "a")
	s.settle()
	r := validate.Examine(s.h)
	if r.Coverage.Routes == 0 || r.Coverage.Certain != r.Coverage.Routes {
		t.Errorf("coverage %+v without changes, want all certain", r.Coverage)
	}
	s = newSim(t, "a")
	s.client("c", "a")
	s.shop(10)
	s.read("a", func() { s.endpoints("s00", fmt.Sprintf("10.3.0.%d", s.revision%200+1)) })
	s.ask("c", "a")
	s.settle()
	r = validate.Examine(s.h)
	if r.Coverage.Certain >= r.Coverage.Routes || r.Coverage.Certain == 0 {
		t.Errorf("coverage %+v with changes, want some certain and some not", r.Coverage)
	}
}

// TestZonesAreJudgedByTheirTables: a client of a zone gets only the endpoints of that zone if there are enough.
func TestZonesAreJudgedByTheirTables(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		s := newSim(t, "a")
		s.h.Run.Members = append(s.h.Run.Members, history.Member{Name: "z", Kind: history.Poller, Upstreams: []string{"a"}, Zone: "eu"})
		s.shop(4)
		s.set(kube.KindEndpointSlice, "s00-1", `{"metadata":{"namespace":"shop","name":"s00-1","labels":{"kubernetes.io/service-name":"s00"}},
"addressType":"IPv4","ports":[{"port":8080,"protocol":"TCP"}],"endpoints":[{"addresses":["10.1.0.1"],"zone":"eu"},{"addresses":["10.1.0.2"],"zone":"eu"},
{"addresses":["10.1.0.3"],"zone":"eu"},{"addresses":["10.1.0.4"],"zone":"us"}]}`, "endpoint")
		s.sleep(time.Minute)
		s.read("a", nil)
		v := s.servers["a"]
		routes, err := table.Parse(v.text)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := table.New(routes, v.revision, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if !wrong {
			v.digest = ""
			v.serve(s, string(whole.Zone("eu").Text()), v.revision)
		}
		s.ask("z", "a")
		if wrong {
			s.want(validate.NameIsolated)
		} else {
			s.want()
		}
	}
}

// TestWatchesAreJudgedByTime: a server that watches without faults shows every endpoint after some seconds.
func TestWatchesAreJudgedByTime(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		s := newSim(t, "a")
		s.h.Run.Members[0].Transport = "watch"
		s.client("c", "a")
		s.shop(4)
		s.read("a", nil)
		s.ask("c", "a")
		s.endpoints("s00", "10.9.9.9")
		s.sleep(time.Second)
		if !wrong {
			s.read("a", nil)
		}
		s.sleep(5 * time.Second)
		s.ask("c", "a")
		if wrong {
			s.want(validate.NameLive)
		} else {
			s.want()
		}
	}
}

// TestARelayThatLagsIsHonest: it serves older tables to clients that have nothing newer.
func TestARelayThatLagsIsHonest(t *testing.T) {
	s := newSim(t, "a")
	s.h.Run.Members = append(s.h.Run.Members, history.Member{Name: "r", Kind: history.Relay, Upstreams: []string{"a"}})
	s.client("c", "r")
	s.servers["r"] = &simServer{name: "r"}
	s.shop(6)
	for i := range 10 {
		s.endpoints("s00", fmt.Sprintf("10.9.9.%d", i+1))
		s.sleep(100 * time.Millisecond)
		old := *s.servers["a"]
		s.read("a", nil)
		if i > 0 {
			*s.servers["r"] = old
			s.servers["r"].name = "r"
			s.sleep(20 * time.Second)
			s.ask("c", "r")
		}
	}
	s.want()
}
