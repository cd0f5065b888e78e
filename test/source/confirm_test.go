package source_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/test/kubetest"
)

// polling is a Source under a clock of its own that reads every three seconds.
type polling struct {
	*cluster.Source
	t      *testing.T
	server *kubetest.Server
	log    func() string
}

func pollInBubble(t *testing.T, f func(*testing.T, *polling)) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t)
		log, text := logger()
		source := newSource(t, cluster.Config{
			REST: &rest.Config{Host: "http://fake", Transport: localTransport(server)}, Logger: log,
		})
		f(t, &polling{source, t, server, func() string { synctest.Wait(); return text.String() }})
	})
}

// poll waits for the next poll and reads.
func (p *polling) poll() (*kube.Snapshot, error) {
	time.Sleep(3 * time.Second)
	return p.Read(p.t.Context(), kube.ReadOptions{})
}

func TestAKindIsGoneWhenItIsConfirmed(t *testing.T) {
	pollInBubble(t, func(t *testing.T, p *polling) {
		before := read(t, p.Source)
		p.server.SetDefined(false)
		begin := time.Now()
		for n := 1; ; n++ {
			s, err := p.poll()
			if err == nil {
				if s.RouteGroups != nil || n < 3 || time.Since(begin) < 10*time.Second || time.Since(begin) > 20*time.Second {
					t.Errorf("read %d after %v: %s", n, time.Since(begin), summary(s))
				}
				break
			}
			if !strings.Contains(err.Error(), "no longer seems to have RouteGroups") || !strings.Contains(err.Error(), "the old ones are kept") {
				t.Fatalf("error %v", err)
			}
		}
		if n := strings.Count(p.log(), "CRD is not installed"); n != 1 {
			t.Errorf("%d warnings:\n%s", n, p.log())
		}
		if _, err := p.poll(); err != nil {
			t.Error(err)
		}
		p.server.SetDefined(true)
		if s, err := p.poll(); err != nil || len(s.RouteGroups) != 1 || s.RouteGroups[0] != before.RouteGroups[0] {
			t.Errorf("%s, %v: want the route group again", summary(s), err)
		}
	})
}

func TestAKindThatIsNotFoundForAMomentStays(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		pollInBubble(t, func(t *testing.T, p *polling) {
			before := read(t, p.Source)
			p.server.SetDefined(false)
			if s, err := p.poll(); err == nil {
				t.Fatalf("%s: the kind is gone at once", summary(s))
			}
			p.server.SetDefined(true)
			if s, err := p.poll(); err != nil || !s.SameObjects(before) {
				t.Errorf("%s, %v: want the objects from before", summary(s), err)
			}
		})
	})
	t.Run("again and again", func(t *testing.T) {
		pollInBubble(t, func(t *testing.T, p *polling) {
			read(t, p.Source)
			for i := range 30 {
				p.server.SetDefined(i%3 == 2)
				if s, err := p.poll(); (err == nil) != (i%3 == 2) || err == nil && len(s.RouteGroups) != 1 {
					t.Fatalf("read %d: %s, %v", i, summary(s), err)
				}
			}
		})
	})
	t.Run("with a list of groups that has it", func(t *testing.T) {
		pollInBubble(t, func(t *testing.T, p *polling) {
			read(t, p.Source)
			p.server.SetFault(kubetest.Discovery, kubetest.Fault{Status: http.StatusNotFound})
			for range 20 {
				if s, err := p.poll(); err == nil || !strings.Contains(err.Error(), "contradict each other") {
					t.Fatalf("%s, %v", summary(s), err)
				}
			}
		})
	})
	for name, fault := range map[string]kubetest.Fault{
		"forbidden": {Status: http.StatusForbidden}, "broken": {Status: http.StatusInternalServerError},
		"nothing": {Body: []byte(`{}`)}, "no groups": {Body: []byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)},
		"another kind": {Body: []byte(`{"kind":"APIResourceList","groups":[{"name":"x"}]}`)}, "garbage": {Body: []byte(`<html>`)},
	} {
		t.Run("without a list of groups: "+name, func(t *testing.T) {
			pollInBubble(t, func(t *testing.T, p *polling) {
				read(t, p.Source)
				p.server.SetDefined(false)
				p.server.SetFault(kubetest.Groups, fault)
				for range 20 {
					if s, err := p.poll(); err == nil || !strings.Contains(err.Error(), "/apis") {
						t.Fatalf("%s, %v", summary(s), err)
					}
				}
			})
		})
	}
}

func TestAKindThatWasNeverThereDelaysNothing(t *testing.T) {
	pollInBubble(t, func(t *testing.T, p *polling) {
		p.server.SetDefined(false)
		begin := time.Now()
		if s := read(t, p.Source); len(s.Ingresses) != 2 || s.RouteGroups != nil || time.Since(begin) > 0 {
			t.Errorf("%s after %v", summary(s), time.Since(begin))
		}
		for _, r := range p.server.Requests() {
			if r.Path == kubetest.Groups {
				t.Errorf("%s is asked for without need", r)
			}
		}
	})
}

// emptyList is a right answer that lacks everything.
func emptyList(path string) kubetest.Fault {
	return kubetest.Fault{Body: kubetest.EncodeJSON(kube.Kind(kindOf(path)), 100, nil)}
}

func TestAListThatLosesEverythingIsConfirmed(t *testing.T) {
	for _, path := range []string{pathIngresses, pathRouteGroups, pathServices, pathEndpoints} {
		t.Run(path, func(t *testing.T) {
			pollInBubble(t, func(t *testing.T, p *polling) {
				before := read(t, p.Source)
				// The first request for ingresses tells the revision only.
				fault := emptyList(path)
				if fault.Times = 1; path == pathIngresses {
					fault.Times = 2
				}
				p.server.SetFault(path, fault)
				p.server.Requests()
				s, err := p.poll()
				if err != nil || !s.SameObjects(before) {
					t.Fatalf("%s, %v: want the objects from before", summary(s), err)
				}
				if !strings.Contains(p.log(), logUnconfirmed) {
					t.Errorf("nothing is logged:\n%s", p.log())
				}
				var queries []string
				for _, r := range p.server.Requests() {
					if r.Path == path && r.Query != "limit=1" {
						queries = append(queries, r.Query)
					}
				}
				if len(queries) != 2 || queries[0] == "" || queries[1] != "" {
					t.Errorf("asked for %q, want what is not older and then a consistent list", queries)
				}

				p.server.SetFault(path, emptyList(path))
				s, err = p.poll()
				if err != nil || s.SameObjects(before) {
					t.Errorf("%s, %v: want what two lists agree on", summary(s), err)
				}
				p.server.SetFault(path, kubetest.Fault{})
				if s, err = p.poll(); err != nil || len(s.Ingresses) != 2 || len(s.RouteGroups) != 1 || len(s.Services) != 1 {
					t.Errorf("%s, %v: want everything again", summary(s), err)
				}
			})
		})
	}
}

func TestALossThatCannotBeConfirmedFailsTheRead(t *testing.T) {
	pollInBubble(t, func(t *testing.T, p *polling) {
		before := read(t, p.Source)
		fault := emptyList(pathServices)
		p.server.OnRequest(func(r kubetest.Request) {
			if r.Path == pathServices && r.Query == "" {
				p.server.SetFault(pathServices, kubetest.Fault{Status: http.StatusInternalServerError})
			} else if r.Path == pathServices {
				p.server.SetFault(pathServices, fault)
			}
		})
		s, err := p.poll()
		if err == nil || !strings.Contains(err.Error(), "confirm with a consistent list that 1 of 1 objects were removed: ") {
			t.Fatalf("%s, %v", summary(s), err)
		}
		p.server.OnRequest(nil)
		p.server.SetFault(pathServices, kubetest.Fault{})
		if s, err := p.poll(); err != nil || !s.SameObjects(before) {
			t.Errorf("%s, %v: want the objects from before", summary(s), err)
		}
	})
}
