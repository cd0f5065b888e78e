package validate_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// without removes the lines that contain a text from a table.
func without(text, part string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, part) {
			kept = append(kept, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(kept, "\n")
}

// TestValidatorsFindWhatTheyAreFor: each history has one fault, which exactly the named validators must find.
func TestValidatorsFindWhatTheyAreFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		want []string
		run  func(s *sim)
	}{
		{"a table without the objects of a kind", []string{validate.NameComplete, validate.NameGuarded}, func(s *sim) {
			for i := range 20 { // less than half of the requests, and twenty objects of the kind
				s.ingress(fmt.Sprintf("more%02d", i), "s00")
				s.routeGroup(fmt.Sprintf("group%02d", i/2), "s00", "/")
			}
			s.read("a", nil)
			s.ask("c", "a")
			s.ingress("new", "s00")
			s.read("a", nil)
			v := s.servers["a"]
			v.serve(s, without(v.text, "kube_rg__"), v.revision)
			s.ask("c", "a")
			s.read("a", nil)
			s.ask("c", "a")
		}},
		{"a list that failed, and those of another read beside it", []string{validate.NameComplete, validate.NameLive}, func(s *sim) {
			s.endpoints("s00", "10.9.9.9")
			s.sleep(20 * time.Second)
			s.ingress("new", "s01")
			v := s.servers["a"]
			old := v.lists[3]
			s.read("a", nil)
			s.h.Reads[len(s.h.Reads)-1].Whole = false
			v.lists[3] = old
			v.publish(s, s.revision)
			s.ask("c", "a")
		}},
		{"a version of an object that a review refuses", []string{validate.NameReviewed}, func(s *sim) {
			s.set(kube.KindIngress, "taker", strings.ReplaceAll(s.objects[kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "i00"}], `"path":"/"`, `"path":"/deep"`), "refused")
			s.read("a", nil)
			s.ask("c", "a")
		}},
		{"an older table from another replica", []string{validate.NameMonotonic}, func(s *sim) {
			s.read("b", nil)
			s.ingress("new", "s01")
			s.sleep(100 * time.Millisecond)
			s.read("a", nil)
			s.ask("c", "a")
			b := s.servers["b"]
			a := s.ask("c", "b")
			a.Status, a.Form, a.Outcome, a.Digest, a.Revision = 200, "table", history.Applied, b.digest, b.revision
			a.ETag = fmt.Sprintf(`"%s.%d"`, b.digest, b.revision)
			s.read("b", nil)
		}},
		{"an ETag with a revision that is too low", []string{validate.NameMonotonic}, func(s *sim) {
			s.sleep(20 * time.Second)
			before := s.revision
			s.ingress("new", "s01")
			s.sleep(100 * time.Millisecond)
			s.read("a", nil)
			s.servers["a"].revision = before
			s.ask("d", "a")
			s.endpoints("s00", "10.9.9.8")
			s.sleep(100 * time.Millisecond)
			s.read("a", nil)
		}},
		{"a 304 to who holds half of a table", []string{validate.NameAtomic, validate.NameQuiet}, func(s *sim) {
			s.ask("c", "a")
			v := s.servers["a"]
			whole := *v
			v.serve(s, v.text[:strings.LastIndex(v.text, "\n")], v.revision)
			half := v.digest
			s.h.Tables[half] = v.text
			*v = whole
			s.ask("c", "a").Digest = half
		}},
		{"headers of one table with the body of another", []string{validate.NameAtomic}, func(s *sim) {
			s.endpoints("s00", "10.9.9.8")
			s.sleep(100 * time.Millisecond)
			s.read("a", nil)
			s.ask("c", "a").Revision++
		}},
		{"a client that stays where it was", []string{validate.NameConvergent}, func(s *sim) {
			s.client("z", "nobody")
			s.ask("z", "a")
			s.endpoints("s00", "10.9.9.8")
			s.sleep(100 * time.Millisecond)
		}},
		{"a client that hears nothing", []string{validate.NameConvergent}, func(s *sim) { s.client("z", "nobody") }},
		{"a delta that leads somewhere else", []string{validate.NameDeltaEqual, validate.NameQuiet}, func(s *sim) {
			s.endpoints("s00", "10.9.9.8")
			s.sleep(100 * time.Millisecond)
			s.read("a", nil)
			a := s.ask("c", "a")
			was := s.h.Answers[0]
			a.Form, a.Outcome, a.Why, a.Digest = "delta", history.Refused, "digest", was.Digest
		}},
		{"a delta whose name is that of another table", []string{validate.NameDeltaEqual, validate.NameAtomic, validate.NameQuiet}, func(s *sim) {
			s.endpoints("s00", "10.9.9.8")
			s.sleep(100 * time.Millisecond)
			s.read("a", nil)
			a := s.ask("c", "a")
			was := s.h.Answers[0]
			a.Form, a.Digest = "delta", was.Digest
		}},
		{"no table where there was one", []string{validate.NameLastKnownGood}, func(s *sim) {
			s.ask("c", "a")
			a := s.ask("c", "a")
			a.Status, a.Form, a.Outcome, a.Why = 404, "none", history.Failed, "no table"
		}},
		{"another table after a restart", []string{validate.NameLastKnownGood, validate.NameComplete, validate.NameGuarded, validate.NameConvergent}, func(s *sim) {
			s.ask("c", "a")
			s.sleep(20 * time.Second)
			s.h.Faults = append(s.h.Faults, history.Fault{From: s.now, To: s.now + 30*time.Second, Name: "refuse", Link: "a>api"})
			s.restart("a")
			s.sleep(time.Second)
			v := s.servers["a"]
			v.serve(s, v.text[:strings.Index(v.text, "\n")], v.revision+1)
			s.ask("c", "a")
			s.sleep(40 * time.Second)
		}},
		{"a loss without a hold", []string{validate.NameGuarded}, func(s *sim) {
			s.ask("c", "a")
			s.lose()
			s.read("a", nil)
			s.ask("c", "a")
		}},
		{"a loss after a restart, and a table in between that no client saw", []string{validate.NameGuarded}, func(s *sim) {
			s.ask("c", "a")
			s.endpoints("s00", "10.9.9.8")
			s.sleep(time.Second)
			s.read("a", nil)
			s.restart("a")
			s.lose()
			s.read("a", nil)
			s.ask("c", "a")
		}},
		{"a loss that no client saw, and another table that one saw", []string{validate.NameGuarded}, func(s *sim) {
			s.ask("c", "a")
			s.lose()
			s.read("a", nil)
			s.logs("a", false)
			s.restart("a")
			s.endpoints("s01", "10.9.9.8")
			s.sleep(time.Second)
			s.read("a", nil)
			s.ask("c", "a")
		}},
		{"a loss after a hold that was too short", []string{validate.NameGuarded}, func(s *sim) {
			s.ask("c", "a")
			s.lose()
			s.sleep(50 * time.Second)
			s.read("a", nil)
			s.ask("c", "a")
		}},
		{"a route that cannot be read", []string{validate.NameIsolated, validate.NameQuiet}, func(s *sim) {
			v := s.servers["a"]
			v.serve(s, v.text+"\nkube_shop__zz____: Path(\"/) -> <shunt>;", v.revision)
			s.ask("c", "a")
		}},
		{"a route of nobody", []string{validate.NameIsolated, validate.NameQuiet}, func(s *sim) {
			v := s.servers["a"]
			v.serve(s, v.text+"\nkube_shop__zz____: Path(\"/\") -> <shunt>;", v.revision)
			s.ask("c", "a")
		}},
		{"an invalid object that takes another one with it", []string{validate.NameIsolated, validate.NameComplete, validate.NameQuiet}, func(s *sim) {
			s.set(kube.KindRouteGroup, "bad", `{"metadata":{"namespace":"shop","name":"bad"},"spec":{"routes":[{"filters":["broken("]}]}}`, "poison")
			s.sleep(10 * time.Second)
			s.read("a", nil)
			v := s.servers["a"]
			v.serve(s, without(v.text, "g01"), v.revision)
			s.ask("c", "a")
			v.text = ""
			s.read("a", nil)
		}},
		{"a table that changes by itself", []string{validate.NameQuiet, validate.NameComplete}, func(s *sim) {
			s.ask("c", "a")
			s.sleep(30 * time.Second)
			v := s.servers["a"]
			v.serve(s, without(v.text, "g01"), v.revision)
			s.ask("c", "a")
			s.sleep(time.Second)
		}},
		{"a table that is sent again", []string{validate.NameQuiet}, func(s *sim) {
			s.ask("c", "a")
			a := s.ask("c", "a")
			a.Status, a.Form, a.Outcome = 200, "table", history.Applied
		}},
		{"an answer that takes too long", []string{validate.NameBounded}, func(s *sim) {
			a := s.ask("c", "a")
			a.End += 6 * time.Second
			s.sleep(7 * time.Second)
		}},
		{"too much memory", []string{validate.NameBounded}, func(s *sim) {
			s.h.Run.MemoryLimit = 1 << 20
			s.h.Samples = append(s.h.Samples, history.Sample{Member: "a", RSS: 1 << 21})
		}},
		{"endpoints that a hold froze", []string{validate.NameLive}, func(s *sim) {
			s.ask("c", "a")
			s.lose()
			s.endpoints("s00", "10.9.9.8")
			s.sleep(time.Second)
			v := s.servers["a"]
			for range 3 {
				frozen := *v
				s.read("a", nil)
				*v = frozen
				v.state = "held"
				s.sleep(5 * time.Second)
				s.ask("c", "a")
			}
			s.sleep(time.Minute)
			v.state = ""
		}},
		{"endpoints that are gone, and nobody says so", []string{validate.NameLive}, func(s *sim) {
			s.ask("c", "a")
			for i := range 20 {
				s.endpoints(fmt.Sprintf("s%02d", i))
			}
			s.sleep(time.Second)
			v := s.servers["a"]
			frozen := *v
			s.read("a", nil)
			*v = frozen
			s.sleep(5 * time.Second)
			s.ask("c", "a")
			s.sleep(2 * time.Minute)
		}},
		{"an object that would be lost and is not kept", []string{validate.NameGuarded}, func(s *sim) {
			kept := s.lose()
			delete(kept, kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "i02"})
			s.keep("a", kept)
			s.ask("c", "a")
			s.release("a")
		}},
		{"a new object of others while some are kept", []string{validate.NameLive}, func(s *sim) {
			kept := s.lose()
			s.keep("a", kept)
			s.ask("c", "a")
			s.ingress("new", "s00")
			kept[kube.Ref{Kind: kube.KindIngress, Namespace: "shop", Name: "new"}] = ""
			s.sleep(time.Second)
			s.keep("a", kept)
			s.sleep(5 * time.Second)
			s.ask("c", "a")
			s.release("a")
		}},
		{"an object that changed and is kept with those that would be lost", []string{validate.NameLive}, func(s *sim) {
			kept := s.lose()
			kept[g17] = s.objects[g17]
			s.routeGroup(g17.Name, "s03", "/")
			s.keep("a", kept)
			s.ask("c", "a")
			s.sleep(5 * time.Second)
			s.ask("c", "a")
			s.release("a")
		}},
		{"a single object of others that is deleted and stays", []string{validate.NameLive}, func(s *sim) {
			kept := s.lose()
			s.keep("a", kept)
			s.ask("c", "a")
			kept[g17] = s.objects[g17]
			s.sleep(time.Second)
			s.set(g17.Kind, g17.Name, "", "valid")
			s.sleep(time.Second)
			s.keep("a", kept)
			s.sleep(5 * time.Second)
			s.ask("c", "a")
			s.release("a")
		}},
		{"an address that a service lost, and that another one has", []string{validate.NameLive}, func(s *sim) {
			first := s.objects[kube.Ref{Kind: kube.KindEndpointSlice, Namespace: "shop", Name: "s00-1"}]
			for i := range 20 {
				s.endpoints(fmt.Sprintf("s%02d", i))
			}
			slice := kube.Ref{Kind: kube.KindEndpointSlice, Namespace: "thieves", Name: "thief-1"}
			s.revision++
			s.objects[slice] = strings.NewReplacer("shop", "thieves", "s00", "thief").Replace(first)
			s.h.Changes = append(s.h.Changes, history.Change{At: s.now, Revision: s.revision, Kind: string(slice.Kind), Namespace: slice.Namespace,
				Name: slice.Name, Object: s.objects[slice], Class: "endpoint"})
			s.sleep(time.Second)
			v := s.servers["a"]
			frozen := *v
			s.read("a", nil)
			*v = frozen
			v.state = "backends-held"
			s.sleep(5 * time.Second)
			s.ask("c", "a")
			s.sleep(2 * time.Minute)
			v.state = ""
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSim(t, "a", "b")
			s.client("c", "a", "b")
			s.client("d", "b", "a")
			s.shop(20)
			s.read("a", nil)
			s.ask("c", "a")
			s.read("b", nil)
			s.ask("d", "b")
			s.want()
			s.sleep(time.Second)
			tt.run(s)
			s.settle()
			s.want(tt.want...)
		})
	}
}

// lose deletes most objects, and returns them.
func (s *sim) lose() map[kube.Ref]string {
	before := maps.Clone(s.objects)
	for i := range 16 {
		if i%2 == 0 {
			s.set(kube.KindIngress, fmt.Sprintf("i%02d", i), "", "mass")
		} else {
			s.set(kube.KindRouteGroup, fmt.Sprintf("g%02d", i), "", "mass")
		}
	}
	s.sleep(100 * time.Millisecond)
	maps.DeleteFunc(before, func(ref kube.Ref, _ string) bool { return s.objects[ref] != "" })
	return before
}
