package validate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// sim generates histories: an API with changes, servers that poll it, and clients that ask them, in virtual time.
type sim struct {
	t        testing.TB
	h        *history.History
	now      time.Duration
	revision uint64
	objects  map[kube.Ref]string
	servers  map[string]*simServer
}

// simServer is a correct server. Tests modify what it serves.
type simServer struct {
	name     string
	compiler *compile.Compiler
	text     string
	digest   string
	revision uint64
	state    string
	lists    [4]map[kube.Ref]string // of the read that produced the table
}

var kinds = [4]kube.Kind{kube.KindIngress, kube.KindRouteGroup, kube.KindService, kube.KindEndpointSlice}

func newSim(t testing.TB, servers ...string) *sim {
	s := &sim{t: t, objects: map[kube.Ref]string{}, servers: map[string]*simServer{}, h: &history.History{
		Run: history.Run{
			Interval: time.Second, Hold: time.Minute, MaxLoss: 0.5, Options: history.Options{EndpointSlices: true},
		},
		Tables: map[string]string{},
	}}
	for _, name := range servers {
		c, err := compile.New(rules.Options{EndpointSlices: true})
		if err != nil {
			t.Fatal(err)
		}
		s.servers[name] = &simServer{name: name, compiler: c}
		s.h.Run.Members = append(s.h.Run.Members, history.Member{Name: name, Kind: history.Server, Transport: "poll"})
	}
	return s
}

// client adds a client of the servers.
func (s *sim) client(name string, servers ...string) {
	s.h.Run.Members = append(s.h.Run.Members, history.Member{Name: name, Kind: history.Poller, Upstreams: servers})
}

func (s *sim) sleep(d time.Duration) { s.now += d }

// set writes an object; empty text deletes it.
func (s *sim) set(kind kube.Kind, name, object, class string) {
	s.revision++
	ref := kube.Ref{Kind: kind, Namespace: "shop", Name: name}
	if object == "" {
		delete(s.objects, ref)
	} else {
		s.objects[ref] = object
	}
	s.h.Changes = append(s.h.Changes, history.Change{
		At: s.now, Revision: s.revision, Kind: string(kind), Namespace: "shop", Name: name, Object: object, Class: class,
	})
}

func (s *sim) ingress(name, service string) {
	s.set(kube.KindIngress, name, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"rules":[{"host":"%s.example.org","http":{"paths":[
{"path":"/","pathType":"Prefix","backend":{"service":{"name":%q,"port":{"number":80}}}}]}}]}}`, name, name, service), "valid")
}

func (s *sim) routeGroup(name, service, path string) {
	s.set(kube.KindRouteGroup, name, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"hosts":["%s.example.net"],
"backends":[{"name":"b","type":"service","serviceName":%q,"servicePort":80}],"defaultBackends":[{"backendName":"b"}],
"routes":[{"pathSubtree":%q}]}}`, name, name, service, path), "valid")
}

func (s *sim) service(name string, addresses ...string) {
	ref := kube.Ref{Kind: kube.KindService, Namespace: "shop", Name: name}
	if _, ok := s.objects[ref]; !ok {
		s.set(kube.KindService, name, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"type":"ClusterIP","clusterIP":"10.3.0.1",
"ports":[{"port":80,"targetPort":8080}]}}`, name), "valid")
	}
	s.endpoints(name, addresses...)
}

func (s *sim) endpoints(name string, addresses ...string) {
	type endpoint struct {
		Addresses []string `json:"addresses"`
	}
	var all []endpoint
	for _, a := range addresses {
		all = append(all, endpoint{[]string{a}})
	}
	list, err := json.Marshal(all)
	if err != nil {
		s.t.Fatal(err)
	}
	s.set(kube.KindEndpointSlice, name+"-1", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%s-1","labels":{"kubernetes.io/service-name":%q}},
"addressType":"IPv4","endpoints":%s,"ports":[{"port":8080,"protocol":"TCP"}]}`, name, name, list), "endpoint")
}

// list returns one list of a read, and records it.
func (s *sim) list(server *simServer, i int) (objects map[kube.Ref]string, revision uint64) {
	objects = map[kube.Ref]string{}
	for ref, text := range s.objects {
		if ref.Kind == kinds[i] {
			objects[ref] = text
		}
	}
	s.h.Reads = append(s.h.Reads, history.Read{
		At: s.now, Member: server.name, Kind: string(kinds[i]), Verb: "list", Revision: s.revision, Whole: true,
	})
	return objects, s.revision
}

// read makes one complete read, with changes between its lists, and serves the result.
func (s *sim) read(name string, between func()) {
	server := s.servers[name]
	var newest uint64
	for i := range kinds {
		objects, revision := s.list(server, i)
		server.lists[i], newest = objects, max(newest, revision)
		s.sleep(10 * time.Millisecond)
		if between != nil {
			between()
		}
	}
	server.publish(s, newest)
}

// publish serves the content of the lists.
func (v *simServer) publish(s *sim, revision uint64) {
	snapshot := &kube.Snapshot{}
	for _, list := range v.lists {
		for _, ref := range sortedRefs(list) {
			o, err := kube.DecodeJSON(ref.Kind, []byte(list[ref]))
			if err != nil {
				continue
			}
			switch o := o.(type) {
			case *kube.Ingress:
				snapshot.Ingresses = append(snapshot.Ingresses, o)
			case *kube.RouteGroup:
				snapshot.RouteGroups = append(snapshot.RouteGroups, o)
			case *kube.Service:
				snapshot.Services = append(snapshot.Services, o)
			case *kube.EndpointSlice:
				snapshot.EndpointSlices = append(snapshot.EndpointSlices, o)
			}
		}
	}
	t := table.Of(v.compiler.Compile(snapshot).Routes, revision, time.Time{})
	v.serve(s, string(t.Text()), revision)
}

// serve serves a text. An equal text keeps its revision.
func (v *simServer) serve(s *sim, text string, revision uint64) {
	sum := sha256.Sum256([]byte(text))
	digest := hex.EncodeToString(sum[:])
	if digest == v.digest {
		return
	}
	v.text, v.digest, v.revision = text, digest, revision
}

// logs records that a server published what it serves, once for each table.
func (s *sim) logs(server string, stale bool) {
	v := s.servers[server]
	for i := len(s.h.Publications) - 1; i >= 0; i-- {
		if p := &s.h.Publications[i]; p.Member == server {
			if p.Digest == v.digest && p.Stale == stale {
				return
			}
			break
		}
	}
	s.h.Publications = append(s.h.Publications, history.Publication{At: s.now, Member: server, Digest: v.digest, Revision: v.revision, Stale: stale})
}

// restart kills a server and starts it again, with what it served.
func (s *sim) restart(server string) {
	s.h.Events = append(s.h.Events, history.Event{At: s.now, Member: server, Name: "killed"}, history.Event{At: s.now + time.Second, Member: server, Name: "started"})
	s.sleep(time.Second)
	s.logs(server, true)
}

// ask makes a client ask a server. It returns the answer, which a test may modify.
func (s *sim) ask(client, server string) *history.Answer {
	v := s.servers[server]
	s.logs(server, false)
	a := history.Answer{Begin: s.now, End: s.now + 5*time.Millisecond, Client: client, Server: server, Status: 200, Form: "table", State: v.state,
		ETag: fmt.Sprintf("%q", fmt.Sprintf("%s.%d", v.digest, v.revision)), Revision: v.revision, Digest: v.digest, Outcome: history.Applied}
	for i := len(s.h.Answers) - 1; i >= 0; i-- {
		if before := &s.h.Answers[i]; before.Client == client && before.Digest != "" {
			a.Base = before.ETag
			if before.Digest == v.digest {
				a.Status, a.Form, a.Outcome = 304, "none", history.Unchanged
			} else if strings.Contains(before.ETag, ".") && revisionOf(before) > v.revision {
				a.Status, a.Form, a.Outcome, a.ETag, a.Digest, a.Revision = 304, "none", history.Unchanged, before.ETag, before.Digest, v.revision
			}
			break
		}
	}
	s.h.Tables[v.digest] = v.text
	s.h.Answers = append(s.h.Answers, a)
	s.sleep(5 * time.Millisecond)
	return &s.h.Answers[len(s.h.Answers)-1]
}

func revisionOf(a *history.Answer) (r uint64) {
	_, after, _ := strings.Cut(strings.Trim(a.ETag, `"`), ".")
	_, _ = fmt.Sscan(after, &r)
	return r
}

// settle ends the run.
func (s *sim) settle() {
	s.h.Run.Calm = s.now
	s.sleep(2 * time.Second)
	for name, server := range s.servers {
		s.read(name, nil)
		for _, m := range s.h.Run.Members {
			if m.Kind == history.Poller && len(m.Upstreams) > 0 && m.Upstreams[0] == server.name {
				s.ask(m.Name, name)
			}
		}
	}
	s.sleep(time.Second)
	s.h.Run.Settled, s.h.Run.Duration = s.now, s.now
}

// shop creates some services, Ingresses and RouteGroups.
func (s *sim) shop(n int) {
	for i := range n {
		s.service(fmt.Sprintf("s%02d", i), fmt.Sprintf("10.2.0.%d", i+1), fmt.Sprintf("10.2.1.%d", i+1))
		if i%2 == 0 {
			s.ingress(fmt.Sprintf("i%02d", i), fmt.Sprintf("s%02d", i))
		} else {
			s.routeGroup(fmt.Sprintf("g%02d", i), fmt.Sprintf("s%02d", i), "/")
		}
		s.sleep(time.Millisecond)
	}
	s.sleep(10 * time.Second)
}

// want fails unless exactly the named validators find something.
func (s *sim) want(names ...string) {
	s.t.Helper()
	found := map[string][]validate.Violation{}
	for _, v := range validate.All(s.h) {
		found[v.Validator] = append(found[v.Validator], v)
	}
	for _, name := range names {
		if len(found[name]) == 0 {
			s.t.Errorf("%s finds nothing", name)
		}
		delete(found, name)
	}
	for _, all := range found {
		s.t.Errorf("%d violations, the first: %v", len(all), all[0])
	}
}

// TestHonestRunsHaveNoViolations: constant changes between and within the reads of two servers, and clients that alternate
// between them.
func TestHonestRunsHaveNoViolations(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := newSim(t, "a", "b")
			s.client("c", "a", "b")
			s.client("d", "b", "a")
			s.shop(20)
			change := func() {
				for range r.IntN(3) {
					n := r.IntN(20)
					name := fmt.Sprintf("s%02d", n)
					switch r.IntN(5) {
					case 0:
						s.ingress(fmt.Sprintf("i%02d", n), name)
					case 1:
						s.routeGroup(fmt.Sprintf("g%02d", n), name, fmt.Sprintf("/%d", r.IntN(3)))
					case 2:
						s.set(kube.KindIngress, fmt.Sprintf("i%02d", n), "", "valid")
					case 3:
						s.set(kube.KindRouteGroup, fmt.Sprintf("g%02d", n), `{"metadata":{"namespace":"shop","name":"x"},"spec":{"routes":[{"filters":["broken("]}]}}`, "invalid")
					default:
						s.endpoints(name, fmt.Sprintf("10.2.%d.%d", r.IntN(9), r.IntN(9)+1))
					}
				}
			}
			for range 60 {
				for _, server := range []string{"a", "b"} {
					s.read(server, change)
					for _, client := range []string{"c", "d"} {
						s.ask(client, []string{"a", "b"}[r.IntN(2)])
					}
					change()
					s.sleep(time.Duration(r.IntN(400)) * time.Millisecond)
				}
			}
			s.settle()
			s.want()
		})
	}
}
