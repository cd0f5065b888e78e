package publish_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

// model is what each object should have: its pin, else its version when it was frozen, else its newest one. A version is the path in its filter; empty means
// no object.
type model struct {
	newest  map[string]string // by NAMESPACE/NAME
	pins    map[string]order
	freezes map[publish.Scope]order
	served  map[string]string // after the last read
}

// order is a pin with its version, or a freeze.
type order struct {
	version string
	until   time.Time
}

func (o order) over(now time.Time) bool { return !o.until.IsZero() && !now.Before(o.until) }

// read returns what is served after a read.
func (m *model) read(now time.Time) map[string]string {
	for name, o := range m.pins {
		if o.over(now) {
			delete(m.pins, name)
		}
	}
	for scope, o := range m.freezes {
		if o.over(now) {
			delete(m.freezes, scope)
		}
	}
	next := make(map[string]string)
	for name, version := range m.newest {
		if o, pinned := m.pins[name]; pinned {
			version = o.version
		} else if m.frozen(name) {
			version = m.served[name]
		}
		next[name] = version
	}
	m.served = next
	return next
}

func (m *model) frozen(name string) bool {
	namespace, short, _ := strings.Cut(name, "/")
	for s := range m.freezes {
		if s.Has(kube.Ref{Kind: kube.KindIngress, Namespace: namespace, Name: short}) {
			return true
		}
	}
	return false
}

// paths returns the versions in the served table.
func (c *cluster) paths(names []string) map[string]string {
	c.t.Helper()
	found := make(map[string]string)
	for _, name := range names {
		found[name] = ""
	}
	for line := range strings.Lines(string(c.publisher.Table().Text())) {
		_, rest, ok := strings.Cut(line, `setPath("/`)
		if !ok {
			continue
		}
		path, _, _ := strings.Cut(rest, `"`)
		namespace, rest, _ := strings.Cut(path, "/")
		short, version, _ := strings.Cut(rest, "/")
		if was := found[namespace+"/"+short]; was != "" {
			c.t.Fatalf("%s/%s has two versions: %s and %s", namespace, short, was, version)
		}
		found[namespace+"/"+short] = version
	}
	return found
}

// TestSteeringModel: over random changes, commands, restarts, other replicas and steps of the clock, each object has exactly what the model says, all endpoints
// are those of today, and everything ends on time.
func TestSteeringModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runSteeringModel(t, seed) })
		})
	}
}

func runSteeringModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 24))
	var names []string
	for _, namespace := range []string{"shop", "team"} {
		for i := range 3 {
			names = append(names, fmt.Sprintf("%s/app-%02d", namespace, i))
		}
	}
	m := &model{newest: map[string]string{}, pins: map[string]order{}, freezes: map[publish.Scope]order{}}
	var c *cluster
	cfg := publish.Config{Guard: guard.Config{MaxLoss: 1, MaxBackendLoss: 1}, File: publish.LastKnownGood(t.TempDir())}
	// What a history would tell: the versions that were served last.
	objects := map[string]*kube.Ingress{} // by NAMESPACE/NAME/VERSION
	cfg.Changed = func(newest *kube.Snapshot) (map[kube.Ref]kube.Object, bool) {
		changed := map[kube.Ref]kube.Object{}
		for _, name := range names {
			namespace, short, _ := strings.Cut(name, "/")
			ref := kube.Ref{Kind: kube.KindIngress, Namespace: namespace, Name: short}
			if version := m.served[name]; version == "" {
				changed[ref] = nil
			} else {
				changed[ref] = objects[name+"/"+version]
			}
		}
		return changed, true
	}
	c = newCluster(t, cfg)
	c.ingresses = map[string]*kube.Ingress{}
	set := func(name, version string) {
		m.newest[name] = version
		if version == "" {
			delete(c.ingresses, name)
			return
		}
		namespace, short, _ := strings.Cut(name, "/")
		c.ingress(namespace, short, short+"."+namespace+".example.org", short)
		c.filter(name, fmt.Sprintf("setPath(%q)", "/"+name+"/"+version))
		objects[name+"/"+version] = c.ingresses[name]
	}
	for _, name := range names {
		set(name, "0")
	}
	read := func(step int) {
		t.Helper()
		pod := fmt.Sprintf("10.9.%d.%d", step/250, step%250+1)
		c.pod("shop", "app-00", pod)
		c.read()
		want := m.read(time.Now())
		if got := c.paths(names); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("step %d: served are %v, want %v; pins %v, freezes %v", step, got, want, m.pins, m.freezes)
		}
		if version := want["shop/app-00"]; version != "" && !strings.Contains(string(c.publisher.Table().Text()), pod) {
			t.Fatalf("step %d: the endpoint of today is not served", step)
		}
	}
	read(0)
	scopes := []publish.Scope{{}, shop, {Namespace: "team"}, scopeOf(ingressRef("app-00")), scopeOf(ingressRef("app-01"))}
	for step := 1; step < 60; step++ {
		name, scope := names[random.IntN(len(names))], scopes[random.IntN(len(scopes))]
		until := time.Now().Add(time.Duration(1+random.IntN(5)) * time.Minute)
		if random.IntN(4) == 0 {
			until = time.Time{}
		}
		switch random.IntN(10) {
		case 0, 1, 2:
			set(name, fmt.Sprint(step))
		case 3:
			set(name, "")
		case 4:
			c.steer(publish.Order{Freeze: true, Scope: scope, Until: until})
			m.freezes[scope] = order{until: until}
		case 5:
			version := "" // not to be served
			if m.newest[name] != "" && random.IntN(3) > 0 {
				version = "0"
			}
			namespace, short, _ := strings.Cut(name, "/")
			ref := kube.Ref{Kind: kube.KindIngress, Namespace: namespace, Name: short}
			var object kube.Object
			if version != "" {
				object = objects[name+"/0"]
			}
			c.steer(publish.Order{Pins: []*publish.Kept{publish.Pin(ref, object, "")}, Until: until, Scope: scopeOf(ref)})
			m.pins[name] = order{version, until}
		case 6:
			ended := false
			for s := range m.freezes {
				if s == scope || scope.Name == "" && (scope.Namespace == "" || scope.Namespace == s.Namespace) {
					delete(m.freezes, s)
					ended = true
				}
			}
			for name := range m.pins {
				namespace, short, _ := strings.Cut(name, "/")
				if scope.Has(kube.Ref{Kind: kube.KindIngress, Namespace: namespace, Name: short}) {
					delete(m.pins, name)
					ended = true
				}
			}
			if err := c.publisher.Steer(publish.Order{Release: true, Scope: scope}); (err == nil) != ended {
				t.Fatalf("step %d: release of %v: %v, want an end: %v", step, scope, err, ended)
			}
		case 7:
			time.Sleep(time.Duration(random.IntN(200)) * time.Second)
		case 8: // a restart, during which an object changes
			c.publisher.Flush()
			set(name, fmt.Sprint(step))
			c.start(cfg)
		case 9: // another replica takes over
			list := c.publisher.List()
			c.publisher.Flush()
			cfg.File = publish.LastKnownGood(t.TempDir())
			c.start(cfg)
			c.publisher.TakeOver(list)
		}
		read(step)
	}
	c.publisher.Flush()
}
