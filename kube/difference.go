package kube

import "slices"

// Difference returns the objects that only i, and only after, has, in order. It compares pointers, and no filters.
func (i *Intent) Difference(after *Intent) (gone, fresh *Intent) {
	gone, fresh = new(Intent), new(Intent)
	gone.Ingresses, fresh.Ingresses = unshared(i.Ingresses, after.Ingresses)
	gone.RouteGroups, fresh.RouteGroups = unshared(i.RouteGroups, after.RouteGroups)
	return gone, fresh
}

// Difference is [Intent.Difference] for backends.
func (b *Backends) Difference(after *Backends) (gone, fresh *Backends) {
	gone, fresh = new(Backends), new(Backends)
	gone.Services, fresh.Services = unshared(b.Services, after.Services)
	gone.Endpoints, fresh.Endpoints = unshared(b.Endpoints, after.Endpoints)
	gone.EndpointSlices, fresh.EndpointSlices = unshared(b.EndpointSlices, after.EndpointSlices)
	return gone, fresh
}

// Size returns the number of objects.
func (i *Intent) Size() int { return len(i.Ingresses) + len(i.RouteGroups) }

// Size returns the number of objects.
func (b *Backends) Size() int { return len(b.Services) + len(b.Endpoints) + len(b.EndpointSlices) }

// unshared returns the objects of two lists that the other one lacks. Lists in the order of their names need no search.
func unshared[T interface {
	Object
	comparable
}](before, after []T) (gone, fresh []T) {
	i, j := 0, 0
	for i < len(before) && j < len(after) {
		if before[i] == after[j] {
			i, j = i+1, j+1
			continue
		}
		order := before[i].Ref().Compare(after[j].Ref())
		if order <= 0 {
			gone = append(gone, before[i])
			i++
		}
		if order >= 0 {
			fresh = append(fresh, after[j])
			j++
		}
	}
	gone, fresh = append(gone, before[i:]...), append(fresh, after[j:]...)
	if len(gone) == 0 || len(fresh) == 0 {
		return gone, fresh
	}
	lost := make(map[T]int, len(gone)) // lists in another order share some of these
	for _, o := range gone {
		lost[o]++
	}
	drop := func(o T) bool {
		lost[o]--
		return lost[o] >= 0
	}
	fresh = slices.DeleteFunc(fresh, drop)
	return slices.DeleteFunc(gone, func(o T) bool { return !drop(o) }), fresh
}
