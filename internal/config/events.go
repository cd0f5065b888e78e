package config

// Events adds the flag of Kubernetes Events. The parser must have the flags of a route server and of a relay.
func (p *Parser) Events(c *RouteServer) {
	g := p.Group(GroupEvents)
	g.Own("events", Bool(&c.Events, false), "Write problems of objects as Kubernetes Events, which kubectl describe shows. "+
		"Of several replicas only one writes: they compete for the Lease routesrv-events in their namespace. This needs the rights of components/events.")
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
