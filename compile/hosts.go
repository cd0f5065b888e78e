package compile

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
)

type share struct {
	host   string
	object *object          // nil in a pivot
	group  *rules.HostGroup // its routes for the host; nil if it has none
}

func (s share) compare(o share) int {
	return cmp.Or(strings.Compare(s.host, o.host), comparePivots(s.object, o.object))
}

func (o *object) shares() iter.Seq[share] {
	return func(yield func(share) bool) {
		for i := range o.unit.Groups {
			if g := &o.unit.Groups[i]; !yield(share{g.Host, o, g}) {
				return
			}
		}
		for _, host := range o.Hosts() {
			has := slices.ContainsFunc(o.unit.Groups, func(g rules.HostGroup) bool { return g.Host == host })
			if !has && !yield(share{host, o, nil}) {
				return
			}
		}
	}
}

func (s *state) sharing(host string) iter.Seq[share] {
	return func(yield func(share) bool) {
		for one := range from(s.shares, share{host: host}) {
			if one.host != host || !yield(one) {
				return
			}
		}
	}
}

// host is a host of Ingresses, with what they determine about its catch-all. It is immutable.
type host struct {
	name        string
	oldest      *object  // of the objects with the host: the catch-all is as old
	expressions []string // for the host, of the first object
	has         bool     // one of them has a route that counts as a catch-all
	redirect    rules.Redirect
	catchAll    *section // nil if it has one, or none is wanted
}

func (h *host) compare(o *host) int { return strings.Compare(h.name, o.name) }

func (s *state) hostOf(name string) (h *host) {
	for one := range s.sharing(name) {
		g := one.group
		if g == nil {
			continue
		}
		if h == nil {
			h = &host{name: one.host, oldest: one.object, expressions: g.FirstHosts}
		}
		if at, oldest := one.object.Metadata().Created, h.oldest.Metadata().Created; at != 0 && (oldest == 0 || at < oldest) {
			h.oldest = one.object
		}
		h.has = h.has || g.CatchAll
		h.redirect.Disabled = h.redirect.Disabled || g.Redirect.Disabled
		if g.Redirect.Code != 0 {
			h.redirect.Code = g.Redirect.Code // the last one counts
		}
	}
	return h
}

func (c *change) settleHosts() {
	for name := range c.touched {
		was, _ := c.hosts.Get(&host{name: name})
		is := c.hostOf(name)
		if was != nil {
			c.hosts.Delete(was)
			c.faultyHosts.Delete(was)
			c.replace(was.catchAll, nil)
		}
		if is == nil {
			continue
		}
		if !is.has && !c.rules.DisableCatchAllRoutes {
			var unit *rules.Unit
			if was != nil && was.catchAll != nil && was.redirect == is.redirect && slices.Equal(was.expressions, is.expressions) {
				unit = was.catchAll.unit
			} else {
				unit = c.rules.CatchAll(is.name, is.redirect, is.expressions)
			}
			is.catchAll = &section{rank: fromHost, host: is.name, unit: unit, routes: unit.Global, object: is.oldest, catchAll: true}
		}
		c.hosts.Set(is)
		if is.catchAll != nil && len(is.catchAll.unit.Problems()) > 0 {
			c.faultyHosts.Set(is)
		}
		c.replace(nil, is.catchAll)
	}
}

func (c *change) replace(was, is *section) {
	if was != nil {
		c.count(was, -1)
		c.removed = slices.AppendSeq(c.removed, was.claims())
	}
	if is != nil {
		c.count(is, 1)
		c.added = slices.AppendSeq(c.added, is.claims())
	}
}
