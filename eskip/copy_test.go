package eskip_test

import (
	"reflect"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

const everything = `r: Path("/p") && Host(/h/) && PathRegexp(/x/) && Method("GET") && Header("a", "b") && HeaderRegexp("c", /d/) && ` +
	`Weight(1) && None() -> f(1, "a") -> g() -> <random, "http://b?zone=z", "http://a">`

func TestCopyIsCanonicalAndHasNoNilSlices(t *testing.T) {
	if eskip.Copy(nil) != nil || eskip.CopyFilter(nil) != nil || eskip.CopyPredicate(nil) != nil {
		t.Error("the copy of nil is not nil")
	}
	for _, r := range []*eskip.Route{{}, one(t, everything), one(t, "* -> f() -> <shunt>")} {
		c := eskip.Copy(r)
		if !eskip.Eq(c, r) {
			t.Errorf("the copy of %s is %s", r, c)
		}
		if c.Predicates == nil || c.Filters == nil || c.LBEndpoints == nil || c.Path != "" || c.Shunt || c.HostRegexps != nil {
			t.Errorf("the copy of %s is not canonical or has nil slices: %+v", r, c)
		}
		for _, p := range c.Predicates {
			if p.Args == nil {
				t.Errorf("the copy of predicate %s has nil arguments", p)
			}
		}
		for _, f := range c.Filters {
			if f.Args == nil {
				t.Errorf("the copy of filter %s has nil arguments", f)
			}
		}
	}
	for name, got := range map[string]interface{}{
		"CopyRoutes": eskip.CopyRoutes(nil), "CopyFilters": eskip.CopyFilters(nil), "CopyPredicates": eskip.CopyPredicates(nil),
	} {
		if v := reflect.ValueOf(got); v.IsNil() || v.Len() != 0 {
			t.Errorf("%s(nil) is %#v, want an empty slice that is not nil", name, got)
		}
	}
}

func TestCopySharesEndpointsOnly(t *testing.T) {
	r := one(t, everything)
	before := r.String()
	c := eskip.CopyRoutes([]*eskip.Route{r, nil})
	if c[1] != nil {
		t.Error("the copy of nil in a list is not nil")
	}
	if c[0].LBEndpoints[1] != r.LBEndpoints[0] {
		t.Error("endpoints are not shared")
	}
	c[0].LBEndpoints[0] = nil
	spoil(c[0])
	if got := r.String(); got != before {
		t.Errorf("writing to the copy changed the original to %s", got)
	}
}

// spoil writes to everything that a copy of a route does not share.
func spoil(r *eskip.Route) {
	for _, p := range r.Predicates {
		p.Name = "X"
		for i := range p.Args {
			p.Args[i] = "x"
		}
	}
	for _, f := range r.Filters {
		f.Name = "x"
		for i := range f.Args {
			f.Args[i] = "x"
		}
	}
	r.Predicates[0], r.Filters[0] = nil, nil
}

func TestMethodCopyKeepsTheForm(t *testing.T) {
	for _, r := range []*eskip.Route{
		{},
		{HostRegexps: []string{}, Headers: map[string]string{}, Predicates: []*eskip.Predicate{}, Filters: []*eskip.Filter{{Args: []interface{}{}}}},
		{Name: "n", Namespace: "ns", Shunt: true, Predicates: []*eskip.Predicate{nil}, LBEndpoints: []*eskip.LBEndpoint{nil}},
		one(t, everything),
	} {
		if c := r.Copy(); c == r || !reflect.DeepEqual(c, r) {
			t.Errorf("got %+v, want %+v", c, r)
		}
	}
	if (*eskip.Route)(nil).Copy() != nil || (*eskip.Filter)(nil).Copy() != nil || (*eskip.Predicate)(nil).Copy() != nil {
		t.Error("the copy of nil is not nil")
	}
}

func TestMethodCopySharesNothing(t *testing.T) {
	r := one(t, everything)
	before := r.String()
	c := r.Copy()
	c.LBEndpoints[0].Address, c.HostRegexps[0], c.PathRegexps[0] = "spoilt", "spoilt", "spoilt"
	c.Headers["a"], c.HeaderRegexps["c"][0] = "spoilt", "spoilt"
	delete(c.HeaderRegexps, "c")
	spoil(c)
	if got := r.String(); got != before {
		t.Errorf("writing to the copy changed the original to %s", got)
	}
}
