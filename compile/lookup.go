package compile

import (
	"slices"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// cluster is the snapshot made ready for lookups. It lives for one compilation.
type cluster struct {
	services  map[kube.ServiceKey]*kube.Service
	endpoints map[kube.ServiceKey]*kube.Endpoints
	slices    map[kube.ServiceKey]*mergedSlices
	secrets   map[kube.ServiceKey]*kube.Secret
	filters   *filterTexts

	// ingressEndpoints is the reference's cache of endpoints, which only services with ambiguous ports need
	// (endpoints.go).
	ingressEndpoints map[endpointsKey][]endpoint
}

// newCluster indexes the snapshot. What it can it takes over from the cluster before, so that unchanged things keep
// their pointers.
func newCluster(s *kube.Snapshot, slicesMode bool, before *cluster) (*cluster, []Problem) {
	c := &cluster{
		services:         make(map[kube.ServiceKey]*kube.Service, len(s.Services)),
		ingressEndpoints: make(map[endpointsKey][]endpoint),
	}
	problems := c.indexServices(s.Services)
	if slicesMode {
		c.slices = mergeSlices(s.EndpointSlices, before.mergedSlices())
	} else {
		c.endpoints = make(map[kube.ServiceKey]*kube.Endpoints, len(s.Endpoints))
		for _, e := range s.Endpoints {
			c.endpoints[serviceKey(e.Namespace, e.Name)] = e
		}
	}
	c.secrets = make(map[kube.ServiceKey]*kube.Secret, len(s.Secrets))
	for _, sec := range s.Secrets {
		if !sec.Incomplete {
			c.secrets[serviceKey(sec.Namespace, sec.Name)] = sec
		}
	}
	if before != nil && before.filters.source() == s.DefaultFilters {
		c.filters = before.filters
	} else if s.DefaultFilters != nil {
		c.filters = &filterTexts{from: s.DefaultFilters, parsed: map[kube.ServiceKey]parsedFilters{}}
	}
	return c, problems
}

func (c *cluster) mergedSlices() map[kube.ServiceKey]*mergedSlices {
	if c == nil {
		return nil
	}
	return c.slices
}

// indexServices keys services by name; of two with one name the later counts, as in the reference.
func (c *cluster) indexServices(services []*kube.Service) []Problem {
	var problems []Problem
	for _, svc := range services {
		if !svc.Incomplete {
			c.services[serviceKey(svc.Namespace, svc.Name)] = svc
			continue
		}
		problems = append(problems, Problem{
			Owner: svc.Ref(), Reason: InvalidService, Severity: Error, Plain: true,
			Message: "Invalid service resource detected.",
		})
	}
	return problems
}

// serviceKey is the key of a Service, Endpoints or Secret: their empty namespace counts as "default".
func serviceKey(ns, name string) kube.ServiceKey {
	return kube.ServiceKey{Namespace: kube.NamespaceOrDefault(ns), Name: name}
}

// lookups records what the compilation of one object looked up: as long as all of it is the same, so is the result.
type lookups struct {
	cluster  *cluster
	services []serviceLookup
	secrets  []secretLookup
	// volatile marks a result that depends on the other objects of the load, too; it is never kept.
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

// service looks up a service and with it everything that belongs to it.
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

// holds reports whether the cluster would answer every lookup as it was answered.
func (l *lookups) holds(c *cluster) bool {
	if l.volatile {
		return false
	}
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

// mergedSlices is what all slices of one service say together.
type mergedSlices struct {
	from      []*kube.EndpointSlice
	endpoints []sliceAddress
	ports     []kube.EndpointPort // of the last slice that has a list of ports
}

type sliceAddress struct{ address, zone string }

// mergeSlices groups the slices by service, in list order, and merges each group. A group of the very same slices as
// before is taken over.
func mergeSlices(all []*kube.EndpointSlice, before map[kube.ServiceKey]*mergedSlices) map[kube.ServiceKey]*mergedSlices {
	groups := make(map[kube.ServiceKey]*mergedSlices, len(all))
	for _, s := range all {
		if s.NoPorts {
			continue
		}
		// The namespace as it is: a slice without one is never found (there is no default here).
		key := kube.ServiceKey{Namespace: s.Namespace, Name: s.Service}
		g := groups[key]
		if g == nil {
			g = &mergedSlices{}
			groups[key] = g
		}
		g.from = append(g.from, s)
	}
	for key, g := range groups {
		if b := before[key]; b != nil && slices.Equal(b.from, g.from) {
			groups[key] = b
			continue
		}
		g.merge()
	}
	return groups
}

// merge collects the ready addresses. An address that terminates anywhere is out, whatever the order of the slices.
func (g *mergedSlices) merge() {
	position := make(map[string]int)
	terminating := make(map[string]bool)
	for _, s := range g.from {
		g.ports = s.Ports
		for _, e := range s.Endpoints {
			switch {
			case e.Address == "" || terminating[e.Address]:
			case e.Terminating:
				terminating[e.Address] = true
			case e.Ready:
				if i, ok := position[e.Address]; ok {
					g.endpoints[i].zone = e.Zone // the last zone counts
					continue
				}
				position[e.Address] = len(g.endpoints)
				g.endpoints = append(g.endpoints, sliceAddress{e.Address, e.Zone})
			}
		}
	}
	g.endpoints = slices.DeleteFunc(g.endpoints, func(a sliceAddress) bool { return terminating[a.address] })
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

func (f *filterTexts) source() *kube.DefaultFilters {
	if f == nil {
		return nil
	}
	return f.from
}

// get gives the default filters of a service. The result is shared: callers copy.
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
		f.parsed[key] = p
	}
	return p.filters, p.err
}

// Addresses gives the ready addresses of a service in the snapshot, sorted as strings: all of its subsets, or its merged
// EndpointSlices. It serves the shard endpoints (an unknown service has none).
func Addresses(s *kube.Snapshot, endpointSlices bool, namespace, name string) []string {
	var out []string
	if endpointSlices {
		var own []*kube.EndpointSlice
		for _, es := range s.EndpointSlices {
			if es.Namespace == namespace && es.Service == name {
				own = append(own, es)
			}
		}
		for _, g := range mergeSlices(own, nil) {
			for _, a := range g.endpoints {
				out = append(out, a.address)
			}
		}
	} else {
		key := serviceKey(namespace, name)
		for _, e := range s.Endpoints {
			if serviceKey(e.Namespace, e.Name) != key {
				continue
			}
			out = nil // of two with one name the later counts
			for _, sub := range e.Subsets {
				out = append(out, sub.Addresses...)
			}
		}
	}
	slices.Sort(out)
	return out
}
