package publish_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// soakWorld checks after each step what a canary promises, whatever else keeps objects.
type soakWorld struct {
	*cluster
	names   []string
	allowed map[string]bool // whose version an operator has just chosen or promoted

	fleet, canary map[string]string
	since         map[string]time.Time // when the canary got its version
	apart         map[string]time.Time // since when fleet and canary differ; zero if they do not
}

func pathsOf(t *table.Table, names []string) map[string]string {
	found := make(map[string]string)
	for _, name := range names {
		found[name] = ""
	}
	for line := range strings.Lines(string(t.Text())) {
		if _, rest, ok := strings.Cut(line, `setPath("/`); ok {
			path, _, _ := strings.Cut(rest, `"`)
			if i := strings.LastIndexByte(path, '/'); i > 0 {
				found[path[:i]] = path[i+1:]
			}
		}
	}
	return found
}

func refOf(name string) kube.Ref {
	namespace, short, _ := strings.Cut(name, "/")
	return kube.Ref{Kind: kube.KindIngress, Namespace: namespace, Name: short}
}

func (w *soakWorld) newest(name string) string {
	ing := w.ingresses[name]
	if ing == nil {
		return ""
	}
	text, _ := ing.Annotations.Lookup("zalando.org/skipper-filter")
	return strings.TrimSuffix(text[strings.LastIndexByte(text, '/')+1:], `")`)
}

// check expects what the page of guarantees says.
func (w *soakWorld) check(step string, read bool) {
	w.t.Helper()
	now, fleet, canary := time.Now(), pathsOf(w.publisher.Table(), w.names), pathsOf(w.publisher.Canary(), w.names)
	kept, soaks := make(map[kube.Ref]*publish.Kept), make(map[kube.Ref]*publish.Kept)
	for _, k := range w.publisher.Kept() {
		kept[k.Ref] = k
	}
	for _, k := range w.publisher.Soaking() {
		soaks[k.Ref] = k
	}
	for _, name := range w.names {
		ref := refOf(name)
		if kept[ref] != nil && soaks[ref] != nil {
			w.t.Errorf("%s: %s has two entries", step, name)
		}
		if canary[name] != w.canary[name] {
			w.since[name] = now
		}
		if changed := fleet[name] != w.fleet[name]; changed && !w.allowed[name] && w.fleet != nil {
			on, apart := now.Sub(w.since[name]), w.apart[name]
			if w.canary[name] != fleet[name] || on < soak && (apart.IsZero() || now.Sub(apart) < 3*soak) {
				w.t.Errorf("%s: %s of the fleet went from %q to %q, the canary had %q for %v", step, name, w.fleet[name], fleet[name], w.canary[name], on)
			}
		}
		s := soaks[ref]
		switch {
		case fleet[name] == canary[name]:
			w.apart[name] = time.Time{}
		case w.apart[name].IsZero():
			w.apart[name] = now
		}
		switch halted := s != nil && s.Soak.Halted != ""; {
		case fleet[name] != canary[name] && (s == nil || halted):
			w.t.Errorf("%s: %s is %q for the fleet and %q for the canary, and does not soak", step, name, fleet[name], canary[name])
		case read && kept[ref] == nil && !halted && canary[name] != w.newest(name):
			w.t.Errorf("%s: %s is %q for the canary, its newest version is %q", step, name, canary[name], w.newest(name))
		}
	}
	w.fleet, w.canary, w.allowed = fleet, canary, make(map[string]bool)
}

// TestCanaryModel: over random changes, accidents, reviews, orders, verdicts and restarts, no version reaches the fleet before it has soaked, whatever keeps
// objects is kept from both tables, and in the end everything is promoted.
func TestCanaryModel(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runCanaryModel(t, seed) })
		})
	}
}

func runCanaryModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 39))
	reviews := reviewer{"-bad": died("bad"), "-take": {Reason: publish.ReasonTakeover, Detail: "takes"}}
	cfg := judged(publish.Config{File: publish.LastKnownGood(t.TempDir()), Review: reviews.review})
	w := &soakWorld{since: make(map[string]time.Time), apart: make(map[string]time.Time), allowed: make(map[string]bool)}
	for i := range 3 {
		w.names = append(w.names, fmt.Sprintf("shop/app-%02d", i), fmt.Sprintf("team/app-%02d", i))
	}
	var served *kube.Snapshot // what a history would tell
	cfg.Changed = func(newest *kube.Snapshot) (map[kube.Ref]kube.Object, bool) {
		was, changed := map[kube.Ref]kube.Object{}, map[kube.Ref]kube.Object{}
		for o := range served.Objects() {
			was[o.Ref()], changed[o.Ref()] = o, o
		}
		for o := range newest.Objects() {
			if was[o.Ref()] == nil {
				changed[o.Ref()] = nil
			}
		}
		return changed, true
	}
	w.cluster = newCluster(t, cfg)
	set := func(name, version string) {
		ref := refOf(name)
		w.ingress(ref.Namespace, ref.Name, ref.Name+"."+ref.Namespace+".example.org", ref.Name)
		w.filter(name, fmt.Sprintf("setPath(%q)", "/"+name+"/"+version))
	}
	for _, name := range w.names {
		set(name, "0")
	}
	w.read()
	w.check("start", true)
	served = w.publisher.Served().Snapshot
	firing := false
	verdict := func() {
		w.publisher.Judge(publish.Verdict{At: time.Now(), Firing: firing, Text: "x"})
	}
	read := func(step string) {
		w.read()
		w.check(step, true)
		served = w.publisher.Served().Snapshot
	}
	lost := map[string]*kube.Ingress{}
	for step := 1; step < 80; step++ {
		name, what := w.names[random.IntN(len(w.names))], random.IntN(14)
		say := fmt.Sprintf("step %d (%d %s)", step, what, name)
		switch what {
		case 0, 1, 2, 3:
			set(name, fmt.Sprint(step, []string{"", "", "", "-bad", "-take"}[random.IntN(5)]))
		case 4:
			delete(w.ingresses, name)
		case 5, 6, 7:
			time.Sleep(time.Duration(random.IntN(200)) * time.Second)
			verdict()
			w.publisher.Promote()
		case 8:
			firing = !firing
			verdict()
		case 9: // an accident, or its end
			for name, ing := range w.ingresses {
				if len(lost) == 0 && strings.HasPrefix(name, "shop/") {
					lost[name] = ing
				}
			}
			if step%2 == 0 {
				for name, ing := range lost {
					w.ingresses[name] = ing
				}
				lost = map[string]*kube.Ingress{}
			} else {
				for name := range lost {
					delete(w.ingresses, name)
				}
			}
		case 10:
			w.steer(publish.Order{Freeze: true, Scope: scopeOf(refOf(name)), Until: time.Now().Add(time.Duration(random.IntN(600)) * time.Second)})
		case 11:
			w.steer(publish.Order{Pins: []*publish.Kept{publish.Pin(refOf(name), nil, "")}, Until: time.Now().Add(time.Duration(random.IntN(600)) * time.Second)})
			w.allowed[name] = true
		case 12:
			o := publish.Order{Promote: random.IntN(2) == 0, Scope: scopeOf(refOf(name)), By: "ann", Why: "because"}
			o.Halt = !o.Promote
			if w.publisher.Steer(o) == nil {
				w.allowed[name] = o.Promote
			}
		case 13:
			w.publisher.Flush()
			set(name, fmt.Sprint(step))
			w.start(cfg)
		}
		if what != 13 {
			w.check(say+", before a read", false)
		}
		read(say)
		if t.Failed() {
			return
		}
	}
	// Everything ends.
	for _, name := range w.names {
		set(name, "end")
	}
	firing = false
	for i := range 60 {
		time.Sleep(2 * time.Minute)
		verdict()
		if i == 40 && w.publisher.Steer(publish.Order{Promote: true}) == nil { // deletions that were halted
			continue
		}
		w.check("the end, before a read", false)
		read("the end")
	}
	if len(w.publisher.Soaking())+len(w.publisher.Kept()) > 0 || !w.publisher.Table().Equal(w.publisher.Canary()) {
		t.Errorf("in the end %d soak, %d are kept", len(w.publisher.Soaking()), len(w.publisher.Kept()))
	}
	w.publisher.Flush()
}
