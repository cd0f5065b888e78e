package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// owned is a finished route with the object that asked for it. There is one for every route of the table at a time, so it
// is small.
type owned struct {
	route *table.Route
	owner *kube.Ref
}

// assembly puts the routes of all units in the order of the reference, which decides who keeps an id.
type assembly struct {
	routes   []owned
	problems []Problem
}

func (a *assembly) add(owner *kube.Ref, routes []table.Route) {
	for i := range routes {
		a.routes = append(a.routes, owned{&routes[i], owner})
	}
}

// assemble gives the routes of the table: unique ids, sorted.
func (c *Compiler) assemble(ingresses, groups []*unit) ([]table.Route, []Problem) {
	a := &assembly{routes: make([]owned, 0, c.size+c.size/64)}
	for _, u := range ingresses {
		a.add(&u.owner, u.global)
	}
	hosts := c.hostGroups(a, ingresses)
	c.eastWestDefaults(a, ingresses, hosts)
	for _, u := range groups {
		a.add(&u.owner, u.global)
	}
	if c.fixed == nil {
		c.fixed = newFixedRoutes(c.set)
	}
	a.add(&c.fixed.owner, c.fixed.routes)
	a.problems = append(a.problems, c.fixed.list...)
	c.size = len(a.routes)
	return a.unique(), a.problems
}

// fixedRoutes are those that depend on the options alone.
type fixedRoutes struct {
	routes []table.Route
	findings
}

func newFixedRoutes(set *settings) *fixedRoutes {
	f := &fixedRoutes{}
	out := finisher{set}
	if set.Healthcheck {
		for _, r := range healthcheckRoutes(set) {
			f.routes = out.finish(f.routes, r, &f.findings)
		}
	}
	if set.HTTPSRedirect {
		f.routes = out.finish(f.routes, globalRedirect(set.HTTPSRedirectCode), &f.findings)
	}
	if set.OAuthGrantCallback {
		// It is added after the default filters were, so it has none.
		f.routes = out.edit(f.routes, []*eskip.Route{oauthCallback(set.OAuthCallbackPath)}, &f.findings)
	}
	return f
}

// hostRoutes is a host with all that the Ingresses say about it.
type hostRoutes struct {
	parts            []hostPart
	catchAll         bool
	redirectCode     int
	redirectDisabled bool
}

type hostPart struct {
	owner *kube.Ref
	group *hostGroup
}

// hostGroups adds the routes of each host and its catch-all, in sorted order of hosts (the reference takes them at
// random). It gives the number of hosts.
func (c *Compiler) hostGroups(a *assembly, units []*unit) int {
	hosts := make(map[string]*hostRoutes)
	for _, u := range units {
		for i := range u.groups {
			g := &u.groups[i]
			h := hosts[g.host]
			if h == nil {
				h = &hostRoutes{}
				hosts[g.host] = h
			}
			h.parts = append(h.parts, hostPart{&u.owner, g})
			h.catchAll = h.catchAll || g.catchAll
			h.redirectDisabled = h.redirectDisabled || g.redirectDisabled
			if g.redirectCode != 0 {
				h.redirectCode = g.redirectCode // the last one counts
			}
		}
	}
	names := make([]string, 0, len(hosts))
	for host := range hosts {
		names = append(names, host)
	}
	slices.Sort(names)
	kept := make(map[catchAllKey]*catchAllUnit, len(c.catchAll))
	for _, host := range names {
		h := hosts[host]
		for _, p := range h.parts {
			a.add(p.owner, p.group.routes)
		}
		if !h.catchAll && !c.set.DisableCatchAllRoutes {
			key := catchAllKey{
				host: host, expressions: strings.Join(h.parts[0].group.firstHosts, "\x00"),
				code: h.redirectCode, disabled: h.redirectDisabled,
			}
			own := c.catchAll[key]
			if own == nil {
				own = c.compileCatchAll(key, h.parts[0].group.firstHosts)
			}
			kept[key] = own
			a.add(h.parts[0].owner, own.routes)
			a.problems = append(a.problems, own.list...)
		}
	}
	c.catchAll = kept
	return len(hosts)
}

// catchAllKey is all that the catch-all of a host depends on.
type catchAllKey struct {
	host, expressions string
	code              int
	disabled          bool
}

// catchAllUnit is the catch-all of a host, finished.
type catchAllUnit struct {
	findings
	routes []table.Route
}

// compileCatchAll makes the route that answers what no other route of the host takes, with its redirect companions.
func (c *Compiler) compileCatchAll(key catchAllKey, expressions []string) *catchAllUnit {
	r := &eskip.Route{Id: catchAllID(key.host), HostRegexps: expressions, BackendType: eskip.ShuntBackend}
	all := []*eskip.Route{r}
	if key.code != 0 {
		all = append(all, enablingCompanion(r, key.code))
	}
	if key.disabled {
		all = append(all, disablingCompanion(r))
	}
	u := &catchAllUnit{}
	for _, r := range all {
		u.routes = finisher{c.set}.finish(u.routes, r, &u.findings)
	}
	return u
}

// eastWestDefaults adds the east-west companions of default backends.
func (c *Compiler) eastWestDefaults(a *assembly, units []*unit, hosts int) {
	before := len(a.routes)
	for _, u := range units {
		a.add(&u.owner, u.companions)
	}
	if n := len(a.routes) - before; n > 0 {
		a.problems = append(a.problems, Problem{
			Reason: EastWestEnabled, Severity: Info, Plain: true,
			Message: fmt.Sprintf("Enabled east west routes: %d %d %d %d", before, len(a.routes), n, hosts),
		})
	}
}

// unique sorts by id and keeps the first route of each id. A different one that is left out is a problem of its owner.
func (a *assembly) unique() []table.Route {
	slices.SortStableFunc(a.routes, func(x, y owned) int { return strings.Compare(x.route.ID, y.route.ID) })
	routes := make([]table.Route, 0, len(a.routes))
	for i := range a.routes {
		r := a.routes[i].route
		if n := len(routes); n > 0 && routes[n-1].ID == r.ID {
			if routes[n-1].Text != r.Text {
				a.problems = append(a.problems, Problem{
					Owner: *a.routes[i].owner, Route: r.ID, Reason: DuplicateID, Severity: Error, Plain: true,
					Message: fmt.Sprintf("Ignoring route with the same id %s, existing: %s, ignored: %s",
						r.ID, expression(&routes[n-1]), expression(r)),
				})
			}
			continue
		}
		routes = append(routes, *r)
	}
	return routes
}

// expression is the text of a route without its id.
func expression(r *table.Route) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Text, r.ID+": "), ";")
}
