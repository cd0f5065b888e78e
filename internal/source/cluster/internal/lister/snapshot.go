package lister

import "github.com/routesrv/routesrv/kube"

// Snapshot combines the contents of the lists and reuses the slices of the previous snapshot where nothing changed.
func (r *Lister) Snapshot() *kube.Snapshot {
	snap := *r.last
	snap.Revision, snap.Newest = r.revisions()
	changed := false
	for _, l := range r.Lists {
		if !l.Changed {
			continue
		}
		changed, l.Changed = true, false
		switch l.Kind {
		case kube.KindIngress:
			snap.Ingresses = collect[*kube.Ingress](l)
		case kube.KindRouteGroup:
			snap.RouteGroups = collect[*kube.RouteGroup](l)
		case kube.KindService:
			snap.Services = collect[*kube.Service](l)
		case kube.KindEndpoints:
			snap.Endpoints = collect[*kube.Endpoints](l)
		case kube.KindEndpointSlice:
			snap.EndpointSlices = collect[*kube.EndpointSlice](l)
		}
	}
	if !changed && snap.Revision == r.last.Revision && snap.Newest == r.last.Newest {
		return r.last
	}
	if changed {
		snap.Bad = nil
		for _, l := range r.Lists {
			snap.Bad = l.appendBad(snap.Bad)
		}
	}
	r.last = &snap
	return r.last
}

// revisions returns the lowest and the highest revision of the lists that were read. Both are 0 if a list has no
// revision.
func (r *Lister) revisions() (lowest, highest kube.Revision) {
	first := true
	for _, l := range r.Lists {
		switch {
		case l.Absent:
			continue
		case l.Seen == 0:
			return 0, 0
		case first || l.Seen < lowest:
			lowest = l.Seen
		}
		first, highest = false, max(highest, l.Seen)
	}
	return lowest, highest
}
