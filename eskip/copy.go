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

// CopyRoutes applies [Copy] to each route. The result is not nil.
func CopyRoutes(r []*Route) []*Route {
	out := make([]*Route, len(r))
	for i := range r {
		out[i] = Copy(r[i])
	}
	return out
}

// CopyPredicate returns a copy with its own slice of arguments, which is not nil. CopyPredicate(nil) is nil.
func CopyPredicate(p *Predicate) *Predicate {
	if p == nil {
		return nil
	}
	return &Predicate{Name: p.Name, Args: append([]interface{}{}, p.Args...)}
}

// CopyPredicates applies [CopyPredicate] to each predicate. The result is not nil.
func CopyPredicates(p []*Predicate) []*Predicate {
	out := make([]*Predicate, len(p))
	for i := range p {
		out[i] = CopyPredicate(p[i])
	}
	return out
}

// CopyFilter returns a copy with its own slice of arguments, which is not nil. CopyFilter(nil) is nil.
func CopyFilter(f *Filter) *Filter {
	if f == nil {
		return nil
	}
	return &Filter{Name: f.Name, Args: append([]interface{}{}, f.Args...)}
}

// CopyFilters applies [CopyFilter] to each filter. The result is not nil.
func CopyFilters(f []*Filter) []*Filter {
	out := make([]*Filter, len(f))
	for i := range f {
		out[i] = CopyFilter(f[i])
	}
	return out
}

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
	c.Predicates = slices.Clone(r.Predicates)
	for i, p := range c.Predicates {
		c.Predicates[i] = p.Copy()
	}
	c.Filters = slices.Clone(r.Filters)
	for i, f := range c.Filters {
		c.Filters[i] = f.Copy()
	}
	c.LBEndpoints = slices.Clone(r.LBEndpoints)
	for i, ep := range c.LBEndpoints {
		if ep != nil {
			e := *ep
			c.LBEndpoints[i] = &e
		}
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
func (f *Filter) Copy() *Filter {
	if f == nil {
		return nil
	}
	return &Filter{Name: f.Name, Args: slices.Clone(f.Args)}
}
