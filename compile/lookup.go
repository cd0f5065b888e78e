package compile

import (
	"iter"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// cluster is a snapshot prepared for lookups. Unchanged objects keep their pointers from one snapshot to the next.
type cluster struct {
	services  map[kube.ServiceKey]*kube.Service
	endpoints map[kube.ServiceKey]*kube.Endpoints
	slices    map[kube.ServiceKey]*mergedSlices // nil unless EndpointSlices are used
	secrets   map[kube.ServiceKey]*kube.Secret
	filters   *filterTexts
	// problems are the problems of the objects themselves, by kind; faulty means that the last advance may have changed them.
	problems map[kube.Kind][]Problem
	faulty   bool

	// resolved is the reference's cache of endpoints, which only services with ambiguous ports need (endpoints.go). It is valid
	// for one compilation.
	resolved map[endpointsKey]resolution
	at       int // position of the object being compiled

	now     kube.Backends          // the content of this version
	version uint64                 // number of this version
	touched map[lookupKey]struct{} // keys that differ from the previous version
}

// newCluster returns an empty cluster.
func newCluster(slicesMode bool, filters *kube.DefaultFilters) *cluster {
	c := &cluster{
		services:  make(map[kube.ServiceKey]*kube.Service),
		endpoints: make(map[kube.ServiceKey]*kube.Endpoints),
		secrets:   make(map[kube.ServiceKey]*kube.Secret),
		problems:  make(map[kube.Kind][]Problem),
		resolved:  make(map[endpointsKey]resolution),
	}
	if slicesMode {
		c.slices = make(map[kube.ServiceKey]*mergedSlices)
	}
	if filters != nil {
		c.filters = &filterTexts{from: filters, parsed: map[kube.ServiceKey]parsedFilters{}}
	}
	return c
}

func (c *cluster) setProblems(kind kube.Kind, problems []Problem) {
	c.faulty = c.faulty || !slices.Equal(c.problems[kind], problems)
	c.problems[kind] = problems
}

// maxTouched is how many keys of differences between two versions are kept.
const maxTouched = 1024

// lookupKey is the key of a lookup: a service with everything that belongs to it, or a secret.
type lookupKey struct {
	kube.ServiceKey
	secret bool
}

// advance applies the differences from the previous backends, and records their keys. It shares merged slices with peers.
func (c *cluster) advance(now *kube.Backends, peers []*memory) {
	before, touched := &c.now, make(map[lookupKey]struct{})
	c.updateServices(keysOf(before.Services, now.Services, func(s *kube.Service) kube.ServiceKey {
		return serviceKey(s.Namespace, s.Name)
	}), now.Services, touched)
	if c.slices != nil {
		// The namespace is used as is: a slice without one is never found (it does not default to "default" here).
		c.updateSlices(keysOf(before.EndpointSlices, now.EndpointSlices, sliceKey), now.EndpointSlices, touched, peers)
	} else {
		keyOf := func(e *kube.Endpoints) kube.ServiceKey { return serviceKey(e.Namespace, e.Name) }
		keys := keysOf(before.Endpoints, now.Endpoints, keyOf)
		reindex(c.endpoints, keys, now.Endpoints, keyOf)
		if len(keys) > 0 {
			c.setProblems(kube.KindEndpoints, endpointsProblems(now.Endpoints))
		}
		for key := range keys {
			touched[lookupKey{key, false}] = struct{}{}
		}
	}
	keyOf := func(s *kube.Secret) kube.ServiceKey { return serviceKey(s.Namespace, s.Name) }
	keys := keysOf(before.Secrets, now.Secrets, keyOf)
	reindex(c.secrets, keys, slices.DeleteFunc(slices.Clone(now.Secrets), func(s *kube.Secret) bool { return s.Incomplete }), keyOf)
	for key := range keys {
		touched[lookupKey{key, true}] = struct{}{}
	}
	c.now, c.touched = *now, touched
	if c.version++; len(touched) > maxTouched {
		c.touched = nil
		c.version++ // skip a version, so that units of the previous one check everything
	}
}

// keysOf returns the keys of objects that are in only one of the lists. If the common ones are in another order, it returns all
// keys: of two objects with the same key, the later one counts.
func keysOf[T any](before, now []*T, keyOf func(*T) kube.ServiceKey) map[kube.ServiceKey]struct{} {
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	if len(before) == 0 && len(now) == 0 {
		return nil
	}
	place := make(map[*T]int, len(before))
	for i, o := range before {
		place[o] = i
	}
	keys := make(map[kube.ServiceKey]struct{})
	last, ordered := -1, true
	kept := make(map[int]struct{}, len(before))
	for _, o := range now {
		i, known := place[o]
		if !known {
			keys[keyOf(o)] = struct{}{}
			continue
		}
		kept[i] = struct{}{}
		ordered = ordered && i > last
		last = i
	}
	for i, o := range before {
		if _, ok := kept[i]; !ok || !ordered {
			keys[keyOf(o)] = struct{}{}
		}
	}
	if !ordered {
		for _, o := range now {
			keys[keyOf(o)] = struct{}{}
		}
	}
	return keys
}

// reindex looks up the keys in the list again; of two objects with the same key, the later one counts.
func reindex[T any](index map[kube.ServiceKey]*T, keys map[kube.ServiceKey]struct{}, list []*T, keyOf func(*T) kube.ServiceKey) {
	if len(keys) == 0 {
		return
	}
	for key := range keys {
		delete(index, key)
	}
	for _, o := range list {
		key := keyOf(o)
		if _, ok := keys[key]; ok {
			index[key] = o
		}
	}
}

// updateServices indexes services; incomplete ones are problems.
func (c *cluster) updateServices(keys map[kube.ServiceKey]struct{}, all []*kube.Service, touched map[lookupKey]struct{}) {
	if len(keys) == 0 {
		return
	}
	var problems []Problem
	complete := make([]*kube.Service, 0, len(all))
	for _, svc := range all {
		problems = appendNulls(problems, svc.Ref(), svc.Nulls)
		if !svc.Incomplete {
			complete = append(complete, svc)
			continue
		}
		problems = append(problems, Problem{
			Owner: svc.Ref(), Reason: InvalidService, Severity: Error, Plain: true,
			Message: "Invalid service resource detected.",
		})
	}
	c.setProblems(kube.KindService, problems)
	reindex(c.services, keys, complete, func(s *kube.Service) kube.ServiceKey { return serviceKey(s.Namespace, s.Name) })
	for key := range keys {
		touched[lookupKey{key, false}] = struct{}{}
	}
}

// ownKey copies the strings of a key. All strings of an object share one allocation, so a key that outlives its object would keep the
// whole allocation in memory.
func ownKey(key kube.ServiceKey) kube.ServiceKey {
	return kube.ServiceKey{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
}

// serviceKey returns the key of a Service, Endpoints or Secret: an empty namespace counts as "default".
func serviceKey(ns, name string) kube.ServiceKey {
	return kube.ServiceKey{Namespace: kube.NamespaceOrDefault(ns), Name: name}
}

// lookups records the lookups during the compilation of one object: while all their results stay the same, so does the unit.
type lookups struct {
	cluster  *cluster // set while the object is compiled
	services []serviceLookup
	secrets  []secretLookup
	// volatile marks a result that also depends on other objects: it is recompiled in each compilation.
	volatile bool
}

type serviceLookup struct {
	key       kube.ServiceKey
	service   *kube.Service
	endpoints *kube.Endpoints
	slices    *mergedSlices
}

type secretLookup struct {
	key    kube.ServiceKey
	secret *kube.Secret
}

// service looks up a service and everything that belongs to it.
func (l *lookups) service(key kube.ServiceKey) *kube.Service {
	for i := range l.services {
		if l.services[i].key == key {
			return l.services[i].service
		}
	}
	c := l.cluster
	l.services = append(l.services, serviceLookup{key, c.services[key], c.endpoints[key], c.slices[key]})
	return c.services[key]
}

func (l *lookups) secret(key kube.ServiceKey) *kube.Secret {
	sec := l.cluster.secrets[key]
	l.secrets = append(l.secrets, secretLookup{key, sec})
	return sec
}

// hold reports whether the cluster would return the same result for every lookup.
func (l *lookups) hold(c *cluster) bool {
	for i := range l.services {
		s := &l.services[i]
		if c.services[s.key] != s.service || c.endpoints[s.key] != s.endpoints || c.slices[s.key] != s.slices {
			return false
		}
	}
	for _, s := range l.secrets {
		if c.secrets[s.key] != s.secret {
			return false
		}
	}
	return true
}

// keys yields the keys of the lookups, possibly repeatedly.
func (l *lookups) keys() iter.Seq[lookupKey] {
	return func(yield func(lookupKey) bool) {
		for i := range l.services {
			if !yield(lookupKey{l.services[i].key, false}) {
				return
			}
		}
		for _, s := range l.secrets {
			if !yield(lookupKey{s.key, true}) {
				return
			}
		}
	}
}

// mergedSlices are all slices of one service. They are merged on use, which is rare.
type mergedSlices struct{ from []*kube.EndpointSlice }

type sliceAddress struct{ address, zone string }

func sliceKey(s *kube.EndpointSlice) kube.ServiceKey {
	return kube.ServiceKey{Namespace: s.Namespace, Name: s.Service}
}

// updateSlices collects the slices of the given services again. It keeps a group whose slices are unchanged.
func (c *cluster) updateSlices(keys map[kube.ServiceKey]struct{}, all []*kube.EndpointSlice, touched map[lookupKey]struct{}, peers []*memory) {
	if len(keys) == 0 {
		return
	}
	c.setProblems(kube.KindEndpointSlice, sliceProblems(all))
	groups := groupSlices(all, keys)
	for key := range keys {
		g, before := groups[key], c.slices[key]
		switch {
		case g == nil && before == nil:
			continue
		case g == nil:
			delete(c.slices, key)
		case before != nil && slices.Equal(before.from, g.from):
			continue
		default:
			delete(c.slices, key)
			key = sliceKey(g.from[0]) // the old key may share the memory of removed slices
			c.slices[key] = onlyOnce(key, g, peers)
		}
		touched[lookupKey{key, false}] = struct{}{}
	}
}

// onlyOnce returns the slices of a peer if they are the same: lookups compare the pointer.
func onlyOnce(key kube.ServiceKey, g *mergedSlices, peers []*memory) *mergedSlices {
	for _, p := range peers {
		if theirs := p.cluster.slices[key]; theirs != nil && slices.Equal(theirs.from, g.from) {
			return theirs
		}
	}
	return g
}

// groupSlices groups the slices of the given services, in the order of the list.
func groupSlices(all []*kube.EndpointSlice, keys map[kube.ServiceKey]struct{}) map[kube.ServiceKey]*mergedSlices {
	groups := make(map[kube.ServiceKey]*mergedSlices, len(keys))
	for _, s := range all {
		key := sliceKey(s)
		if _, wanted := keys[key]; s.NoPorts || !wanted {
			continue
		}
		g := groups[key]
		if g == nil {
			g = &mergedSlices{}
			groups[key] = g
		}
		g.from = append(g.from, s)
	}
	return groups
}

// ports returns the ports: those of the last slice with a list of them.
func (g *mergedSlices) ports() []kube.EndpointPort { return g.from[len(g.from)-1].Ports }

// endpoints returns the ready addresses. An address that terminates in any slice is excluded, whatever the order of the slices.
func (g *mergedSlices) endpoints() []sliceAddress {
	const few = 16 // addresses, among which looking is faster than a map
	n := 0
	for _, s := range g.from {
		n += len(s.Endpoints)
	}
	all := make([]sliceAddress, 0, n)
	var position map[string]int
	if n > few {
		position = make(map[string]int, n)
	}
	find := func(address string) int {
		if n <= few {
			return slices.IndexFunc(all, func(a sliceAddress) bool { return a.address == address })
		}
		if i, ok := position[address]; ok {
			return i
		}
		return -1
	}
	var terminating map[string]bool
	for _, s := range g.from {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			switch {
			case e.NoAddress:
			case e.Terminating:
				if terminating == nil {
					terminating = make(map[string]bool)
				}
				terminating[e.Address] = true
			case e.Ready:
				if i := find(e.Address); i >= 0 {
					all[i].zone = e.Zone // the last zone counts
					continue
				}
				if n > few {
					position[e.Address] = len(all)
				}
				all = append(all, sliceAddress{e.Address, e.Zone})
			}
		}
	}
	if terminating == nil {
		return all
	}
	return slices.DeleteFunc(all, func(a sliceAddress) bool { return terminating[a.address] })
}

// filterTexts are the default filters of services, parsed on first use.
type filterTexts struct {
	from   *kube.DefaultFilters
	parsed map[kube.ServiceKey]parsedFilters
}

type parsedFilters struct {
	filters []*eskip.Filter
	err     error
}

// get returns the default filters of a service. The result is shared: callers must copy it.
func (f *filterTexts) get(key kube.ServiceKey) ([]*eskip.Filter, error) {
	if f == nil {
		return nil, nil
	}
	text, ok := f.from.Texts[key]
	if !ok {
		return nil, nil
	}
	p, ok := f.parsed[key]
	if !ok {
		p.filters, p.err = eskip.ParseFilters(text)
		f.parsed[ownKey(key)] = p
	}
	return p.filters, p.err
}

// Addresses returns the ready addresses of a service in the snapshot, sorted as strings: from all its subsets, or from its merged
// EndpointSlices. It serves the shard endpoints; an unknown service has no addresses.
func Addresses(s *kube.Snapshot, endpointSlices bool, namespace, name string) []string {
	var out []string
	if endpointSlices {
		key := kube.ServiceKey{Namespace: namespace, Name: name}
		if g := groupSlices(s.EndpointSlices, map[kube.ServiceKey]struct{}{key: {}})[key]; g != nil {
			for _, a := range g.endpoints() {
				out = append(out, a.address)
			}
		}
	} else {
		key := serviceKey(namespace, name)
		for _, e := range s.Endpoints {
			if serviceKey(e.Namespace, e.Name) != key {
				continue
			}
			out = nil // the later one with the same name counts
			for _, sub := range e.Subsets {
				out = append(out, sub.Addresses...)
			}
		}
	}
	slices.Sort(out)
	return out
}
