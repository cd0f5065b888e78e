package compile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

// step is one update of a memory: everything that must be recompiled.
type step struct {
	*memory
	peers    []*memory // memories whose units can be reused here
	gone     []*object
	compiled []*object           // in order
	hosts    map[string]struct{} // hosts of the objects in both lists, now or before
}

// compile compiles all marked objects in order. A volatile unit depends on the objects before it, which are compiled in this
// step, too.
func (w *step) compile() {
	clear(w.cluster.resolved)
	for _, o := range w.gone {
		w.noteHosts(o.unit)
		w.noteProblems(o.unit, nil)
		w.use(o, nil)
	}
	for _, k := range []*objects{&w.ingresses, &w.groups} {
		for _, o := range k.sorted {
			if o.dirty != w.generation {
				continue
			}
			now := w.borrow(o)
			if now == nil {
				now = w.make(o)
			}
			w.noteHosts(o.unit)
			w.noteHosts(now)
			w.noteProblems(o.unit, now)
			w.use(o, now)
			w.compiled = append(w.compiled, o)
		}
	}
}

// make compiles an object.
func (w *step) make(o *object) *unit {
	u := newUnit(w.set, w.cluster, o.Ref())
	w.cluster.at = o.at
	failed := isolated(func() {
		switch of := o.Object.(type) {
		case *kube.Ingress:
			compileIngress(w.set, u, of)
		case *kube.RouteGroup:
			compileRouteGroup(w.set, u, of)
		}
		u.checkSize()
	})
	if failed != nil {
		u.lose(failed)
	}
	u.lookups.cluster = nil // the unit may outlive it
	return u
}

func (w *step) noteHosts(u *unit) {
	if u == nil {
		return
	}
	for i := range u.groups {
		w.hosts[u.groups[i].host] = struct{}{}
	}
}

// noteProblems records whether replacing one unit by another changes the list of problems. Either may be nil.
func (w *step) noteProblems(before, now *unit) {
	var was, is []Problem
	certificates := false
	if before != nil {
		was, certificates = before.list, len(before.certificates) > 0
	}
	if now != nil {
		is, certificates = now.list, certificates || len(now.certificates) > 0
	}
	w.stale = w.stale || certificates || !slices.Equal(was, is)
}

// assemble replaces the routes of the recompiled objects.
func (w *step) assemble() {
	c := &w.candidates
	c.expect(w.count())
	if w.fixed == nil {
		w.fixed = newFixedRoutes(w.set)
		c.replace(&w.fixed.section, w.fixed.section.routes)
	}
	for _, o := range w.gone {
		c.replace(&o.global, nil)
		if o.companions != nil {
			c.replace(o.companions, nil)
		}
	}
	for _, o := range w.compiled {
		rank := fromIngress
		if _, ok := o.Object.(*kube.RouteGroup); ok {
			rank = fromRouteGroup
		}
		o.global.rank, o.global.object = rank, o
		c.replace(&o.global, o.unit.global)
		if o.companions == nil && len(o.unit.companions) > 0 {
			o.companions = &section{rank: fromCompanions, object: o}
		}
		if o.companions != nil {
			c.replace(o.companions, o.unit.companions)
		}
	}
	w.assembleHosts()
}

// count returns how many routes the objects of this step have.
func (w *step) count() int {
	n := 0
	for _, o := range w.compiled {
		n += len(o.unit.global) + len(o.unit.companions)
		for i := range o.unit.groups {
			n += len(o.unit.groups[i].routes)
		}
	}
	return n
}

// assembleHosts rebuilds the hosts for which something has changed.
func (w *step) assembleHosts() {
	changed := make(map[*object]struct{}, len(w.gone)+len(w.compiled))
	for _, o := range slices.Concat(w.gone, w.compiled) {
		changed[o] = struct{}{}
	}
	for name := range w.hosts {
		h := w.memory.hosts[name]
		if h == nil {
			h = &host{section: section{rank: fromHost, host: strings.Clone(name)}} // see ownKey
			h.section.parts = &h.parts
			w.memory.hosts[h.section.host] = h
			continue
		}
		h.parts = slices.DeleteFunc(h.parts, func(p hostPart) bool { _, ok := changed[p.object]; return ok })
	}
	for _, o := range w.compiled {
		for i := range o.unit.groups {
			g := &o.unit.groups[i]
			h := w.memory.hosts[g.host]
			h.parts = append(h.parts, hostPart{o, g})
		}
	}
	for name := range w.hosts {
		h := w.memory.hosts[name]
		slices.SortFunc(h.parts, func(a, b hostPart) int { return a.object.at - b.object.at })
		w.candidates.replace(&h.section, w.sharedRoutes(name, w.hostRoutes(h)))
		if len(h.parts) == 0 {
			delete(w.memory.hosts, name)
		}
		_, was := w.faulty[name]
		if delete(w.faulty, name); h.catchAll != nil && len(h.catchAll.list) > 0 {
			w.faulty[h.section.host] = struct{}{}
			was = true
		}
		w.stale = w.stale || was
	}
}

// host is a host with the contributions of all Ingresses.
type host struct {
	section
	parts    []hostPart    // in the order of the objects
	catchAll *catchAllUnit // nil if the host has none
}

type hostPart struct {
	object *object
	group  *hostGroup
}

// hostRoutes returns the routes of a host: those of its objects, then its catch-all.
func (w *step) hostRoutes(h *host) []made {
	var routes []made
	var key catchAllKey
	has := w.set.DisableCatchAllRoutes || len(h.parts) == 0
	for _, p := range h.parts {
		routes = append(routes, p.group.routes...)
		has = has || p.group.catchAll
		key.disabled = key.disabled || p.group.redirectDisabled
		if p.group.redirectCode != 0 {
			key.code = p.group.redirectCode // the last one counts
		}
	}
	if has {
		h.catchAll = nil
		return routes
	}
	key.expressions = strings.Join(h.parts[0].group.firstHosts, "\x00")
	if h.catchAll == nil || h.catchAll.key != key {
		h.catchAll = w.catchAll(h.section.host, key, h.parts[0].group.firstHosts)
	}
	return append(routes, h.catchAll.routes...)
}

// sharedRoutes returns a peer's routes for the host if they are the same, so that memory holds them once.
func (w *step) sharedRoutes(name string, routes []made) []made {
	for _, p := range w.peers {
		if h := p.hosts[name]; h != nil && slices.Equal(h.section.routes, routes) {
			return h.section.routes
		}
	}
	return routes
}

// catchAllKey is everything that the catch-all of a host depends on.
type catchAllKey struct {
	expressions string
	code        int
	disabled    bool
}

// catchAllUnit is the compiled catch-all of a host.
type catchAllUnit struct {
	findings
	key    catchAllKey
	routes []made
}

// catchAll returns the catch-all of a host, the peer's one if it is the same.
func (w *step) catchAll(name string, key catchAllKey, expressions []string) *catchAllUnit {
	for _, p := range w.peers {
		if h := p.hosts[name]; h != nil && h.catchAll != nil && h.catchAll.key == key {
			return h.catchAll
		}
	}
	return w.set.compileCatchAll(name, key, expressions)
}

// compileCatchAll compiles the route for requests that no other route of the host takes, with its redirect companions.
func (s *settings) compileCatchAll(host string, key catchAllKey, expressions []string) *catchAllUnit {
	r := &eskip.Route{Id: routeid.CatchAll(host), HostRegexps: expressions, BackendType: eskip.ShuntBackend}
	all := []*eskip.Route{r}
	if key.code != 0 {
		all = append(all, enablingCompanion(r, key.code))
	}
	if key.disabled {
		all = append(all, disablingCompanion(r))
	}
	u := &catchAllUnit{key: key}
	failed := isolated(func() {
		for _, r := range all {
			u.routes = finisher{set: s}.finish(u.routes, r, &u.findings, companion)
		}
	})
	if failed != nil {
		u.routes = nil
		u.add(*failed)
	}
	return u
}

func (m *memory) catchAllProblems() []Problem {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(m.faulty)) {
		problems = append(problems, m.hosts[name].catchAll.list...)
	}
	return problems
}

// eastWestProblems reports the companions of default backends, with the numbers that the reference logs.
func (m *memory) eastWestProblems() []Problem {
	before, n := 0, 0
	for _, o := range m.ingresses.sorted {
		before += len(o.unit.global)
		n += len(o.unit.companions)
	}
	if n == 0 {
		return nil
	}
	for _, h := range m.hosts {
		before += len(h.section.routes)
	}
	return []Problem{{
		Reason: EastWestEnabled, Severity: Info, Plain: true,
		Message: fmt.Sprintf("Enabled east west routes: %d %d %d %d", before, before+n, n, len(m.hosts)),
	}}
}

// fixedRoutes are the routes that depend only on the options.
type fixedRoutes struct {
	section section
	findings
}

func newFixedRoutes(set *settings) *fixedRoutes {
	f := &fixedRoutes{section: section{rank: fromOptions}}
	out := finisher{set: set}
	var routes []made
	if set.Healthcheck {
		for _, r := range healthcheckRoutes(set) {
			routes = out.finish(routes, r, &f.findings, companion)
		}
	}
	if set.HTTPSRedirect {
		routes = out.finish(routes, globalRedirect(set.HTTPSRedirectCode), &f.findings, companion)
	}
	if set.OAuthGrantCallback {
		// It is added after the default filters, so it has none.
		routes = out.edit(routes, oauthCallback(set.OAuthCallbackPath), &f.findings, companion)
	}
	f.section.routes = routes
	return f
}
