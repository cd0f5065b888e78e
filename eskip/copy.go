package eskip

import (
	"maps"
	"slices"
)

// Copy returns a [Canonical] copy of r with its own predicates, filters and slices, which are not nil even if empty. It shares
// endpoints and the values of arguments with r. Copy(nil) is nil. See [Route.Copy] for a copy that keeps the form of r.
func Copy(r *Route) *Route {
	if r == nil {
		return nil
	}
	c := Canonical(r)
	c.Predicates = CopyPredicates(c.Predicates)
	c.Filters = CopyFilters(c.Filters)
	c.LBEndpoints = append([]*LBEndpoint{}, c.LBEndpoints...)
	return c
}

// copied applies a function to each element. The result is not nil.
func copied[T any](list []*T, one func(*T) *T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = one(list[i])
	}
	return out
}

// CopyRoutes applies [Copy] to each route. The result is not nil.
func CopyRoutes(r []*Route) []*Route { return copied(r, Copy) }

// CopyPredicate returns a copy with its own slice of arguments, which is not nil. CopyPredicate(nil) is nil.
func CopyPredicate(p *Predicate) *Predicate {
	if p == nil {
		return nil
	}
	return &Predicate{Name: p.Name, Args: append([]interface{}{}, p.Args...)}
}

// CopyPredicates applies [CopyPredicate] to each predicate. The result is not nil.
func CopyPredicates(p []*Predicate) []*Predicate { return copied(p, CopyPredicate) }

// CopyFilter returns a copy with its own slice of arguments, which is not nil. CopyFilter(nil) is nil.
func CopyFilter(f *Filter) *Filter { return (*Filter)(CopyPredicate((*Predicate)(f))) }

// CopyFilters applies [CopyFilter] to each filter. The result is not nil.
func CopyFilters(f []*Filter) []*Filter { return copied(f, CopyFilter) }

// Copy returns a copy in the same form, which shares only the values of arguments with r.
func (r *Route) Copy() *Route {
	if r == nil {
		return nil
	}
	c := *r
	c.HostRegexps = slices.Clone(r.HostRegexps)
	c.PathRegexps = slices.Clone(r.PathRegexps)
	c.Headers = maps.Clone(r.Headers)
	c.HeaderRegexps = maps.Clone(r.HeaderRegexps)
	for k, v := range c.HeaderRegexps {
		c.HeaderRegexps[k] = slices.Clone(v)
	}
	if c.Predicates != nil {
		c.Predicates = copied(c.Predicates, (*Predicate).Copy)
	}
	if c.Filters != nil {
		c.Filters = copied(c.Filters, (*Filter).Copy)
	}
	if c.LBEndpoints != nil {
		c.LBEndpoints = copied(c.LBEndpoints, (*LBEndpoint).copy)
	}
	return &c
}

// Copy returns a copy that shares only the values of arguments with p.
func (p *Predicate) Copy() *Predicate {
	if p == nil {
		return nil
	}
	return &Predicate{Name: p.Name, Args: slices.Clone(p.Args)}
}

// Copy returns a copy that shares only the values of arguments with f.
func (f *Filter) Copy() *Filter { return (*Filter)((*Predicate)(f).Copy()) }

func (ep *LBEndpoint) copy() *LBEndpoint {
	if ep == nil {
		return nil
	}
	c := *ep
	return &c
}
