package config

import "errors"

// Events adds the flags of Kubernetes Events. The parser must have the flags of a route server and of a relay.
func (p *Parser) Events(c *RouteServer) {
	g := p.group(GroupEvents)
	g.own("events", boolean(&c.Events, false), "Write problems of objects as Kubernetes Events, which kubectl describe shows. "+
		"Of several replicas only one writes. This needs the rights of components/events.")
	g.own("events-namespace", checked("NAMESPACE", &c.EventsNamespace, "routesrv", func(s string) error {
		if s == "" {
			return errors.New("want the name of a namespace")
		}
		return nil
	}), "Namespace of the Lease routesrv-events, for which the replicas compete.")
	p.check(func() {
		switch {
		case !c.Events:
			return
		case len(c.Upstream.URLs) > 0:
			p.warn("events", "has no effect with --upstream: a relay does not know the objects")
		case !c.Source.Kubernetes:
			p.warn("events", "has no effect with --manifests: there is no API to write to")
		default:
			return
		}
		c.Events = false
		p.Derive("events", "false", "no API to write to")
	})
}
