package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Classes of writes.
const (
	Valid    = "valid"
	Invalid  = "invalid"
	Poison   = "poison"
	Mass     = "mass"
	Repair   = "repair"
	Endpoint = "endpoint"
	Refused  = "refused" // a review refuses the version of the object
	Halted   = "halted"  // the version of the object is halted on the canary
)

// Write is one write to the API.
type Write struct {
	Key
	Object string // as JSON; empty deletes it
	Class  string
}

// Config describes the cluster.
type Config struct {
	Seed uint64
	Apps int // services with endpoints, each with an Ingress or a RouteGroup
	// MassEvery is after how many writes most objects are deleted, and RepairAfter after how many further writes, at most, they
	// are restored. Zero means never.
	MassEvery, RepairAfter int
}

// Traffic is a sequence of writes. It must be used by one goroutine only.
type Traffic struct {
	cfg     Config
	rng     *rand.Rand
	apps    []app
	state   map[Key]string // the stored objects
	version int
	guests  []app // temporary apps
	guest   int   // for their names

	sinceMass int
	repairIn  int // writes until the repair; 0 if nothing needs repair
	broken    map[Key]string
}

// New returns the traffic for a seed, before the first write.
func New(cfg Config) *Traffic {
	t := &Traffic{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), state: make(map[Key]string)}
	for i := range max(1, cfg.Apps) {
		t.apps = append(t.apps, app{
			namespace: fmt.Sprintf("team-%d", i%max(1, cfg.Apps/12)), name: fmt.Sprintf("app-%03d", i), group: i%3 == 2,
		})
	}
	return t
}

// Begin returns the writes that create the cluster.
func (t *Traffic) Begin() []Write {
	var out []Write
	for _, a := range t.apps {
		out = append(out, t.whole(a, Valid)...)
	}
	return out
}

// whole returns writes for all objects of an app, valid.
func (t *Traffic) whole(a app, class string) []Write {
	return []Write{
		t.put(a.service(), service(a, 0), class), t.put(a.slice(), slice(a, 2+t.rng.IntN(6), t.rng), class), t.front(a, class),
	}
}

func (t *Traffic) front(a app, class string) Write {
	t.version++
	if a.group {
		return t.put(a.front(), routeGroup(a, t.version, t.rng), class)
	}
	return t.put(a.front(), ingress(a, t.version, t.rng), class)
}

func (t *Traffic) put(k Key, o object, class string) Write {
	text := o.String()
	t.state[k] = text
	return Write{k, text, class}
}

func (t *Traffic) remove(k Key, class string) Write {
	delete(t.state, k)
	return Write{k, "", class}
}

// Next returns the next writes: one, or many at once.
func (t *Traffic) Next() []Write {
	if t.repairIn > 0 {
		if t.repairIn--; t.repairIn == 0 {
			return t.repair()
		}
	} else if t.sinceMass++; t.cfg.MassEvery > 0 && t.sinceMass >= t.cfg.MassEvery {
		t.sinceMass = 0
		t.repairIn = 1 + t.rng.IntN(max(1, t.cfg.RepairAfter))
		return t.mass()
	}
	a := t.apps[t.rng.IntN(len(t.apps))]
	switch p := t.rng.IntN(100); {
	case p < 38:
		return one(t.front(a, Valid))
	case p < 72:
		return one(t.put(a.slice(), slice(a, 1+t.rng.IntN(8), t.rng), Endpoint))
	case p < 76:
		return one(t.put(a.slice(), slice(a, 0, t.rng), Endpoint)) // until its next change
	case p < 80:
		t.version++
		return one(t.put(a.service(), service(a, t.version), Valid))
	case p < 88:
		return t.visit()
	case p < 94:
		return one(t.put(a.front(), invalid(a, t.rng.IntN(100), t.rng), Invalid))
	case p < 97:
		return one(t.put(a.front(), poison(a, t.rng.IntN(100), t.rng), Poison))
	default:
		return one(t.remove(a.front(), Valid)) // until its next change
	}
}

func one(w Write) []Write { return []Write{w} }

// Invalidate returns a write that makes the first RouteGroup, by namespace and name, invalid as a whole.
func (t *Traffic) Invalidate() Write {
	groups := slices.DeleteFunc(slices.Clone(t.apps), func(a app) bool { return !a.group })
	first := slices.MinFunc(groups, func(a, b app) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return t.put(first.front(), invalid(first, 0, t.rng), Invalid)
}

// visit adds or removes a guest. Some have names whose routes would have the ids of others.
func (t *Traffic) visit() []Write {
	if n := len(t.guests); n > 0 && t.rng.IntN(n) > 3 {
		i := t.rng.IntN(n)
		a := t.guests[i]
		t.guests = slices.Delete(t.guests, i, i+1)
		return []Write{t.remove(a.front(), Valid), t.remove(a.slice(), Endpoint), t.remove(a.service(), Valid)}
	}
	t.guest++
	a := app{namespace: "guests", name: fmt.Sprintf("guest-%05d", t.guest), group: t.rng.IntN(2) == 0}
	if t.rng.IntN(8) == 0 {
		of := t.apps[t.rng.IntN(len(t.apps))]
		a = app{namespace: of.namespace + "--" + of.name, name: fmt.Sprintf("g%d", t.guest), group: of.group}
	}
	t.guests = append(t.guests, a)
	return t.whole(a, Valid)
}

// mass deletes so much that a guard must react.
func (t *Traffic) mass() []Write {
	keys := slices.SortedFunc(maps.Keys(t.state), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	t.broken = maps.Clone(t.state)
	var out []Write
	how, share := t.rng.IntN(5), 60+t.rng.IntN(40)
	namespace := t.apps[t.rng.IntN(len(t.apps))].namespace
	for _, k := range keys {
		front := k.Kind == Ingress || k.Kind == RouteGroup
		switch {
		case how == 0 && front && t.rng.IntN(100) < share,
			how == 1 && front,
			how == 2 && k.Kind == EndpointSlice,
			how == 3 && k.Kind == Ingress,
			how == 4 && k.Namespace == namespace:
			out = append(out, t.remove(k, Mass))
		}
	}
	return out
}

// repair restores what a mass delete removed, unless it has been created again.
func (t *Traffic) repair() []Write {
	var out []Write
	for k, text := range t.broken {
		if _, there := t.state[k]; !there && !t.left(k) {
			t.state[k] = text
			out = append(out, Write{k, text, Repair})
		}
	}
	t.broken = nil
	slices.SortFunc(out, func(a, b Write) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// left reports whether an object belongs to a guest that has left meanwhile.
func (t *Traffic) left(k Key) bool {
	for _, a := range slices.Concat(t.apps, t.guests) {
		if k == a.front() || k == a.service() || k == a.slice() {
			return false
		}
	}
	return true
}

// Marker returns the path of a route created by the last write of End, which identifies the last table.
func (t *Traffic) Marker() string { return fmt.Sprintf("/the-end-of-%d", t.cfg.Seed) }

// End returns the writes that leave everything valid, with a route for the path Marker.
func (t *Traffic) End() []Write {
	out := t.repair()
	for _, a := range t.apps {
		out = append(out, t.whole(a, Repair)...)
	}
	a := app{namespace: "guests", name: "marker"}
	o := ingress(a, 0, t.rng)
	o["spec"].(object)["rules"].([]any)[0].(object)["http"].(object)["paths"].([]any)[0].(object)["path"] = t.Marker()
	out = append(out, t.put(a.service(), service(a, 0), Repair), t.put(a.slice(), slice(a, 2, t.rng), Repair))
	return append(out, t.put(a.front(), o, Repair))
}

// Rewind sets the stored objects after a restore of the API.
func (t *Traffic) Rewind(state map[Key]string) {
	t.state = maps.Clone(state)
	t.broken, t.repairIn = nil, 0
}

// State returns the stored objects.
func (t *Traffic) State() map[Key]string { return maps.Clone(t.state) }
