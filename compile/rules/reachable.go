package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// checkEndpoints reports a service port whose requests fail, all or some of them, with the cause as far as the objects show it.
func (u *Unit) checkEndpoints(kind kube.Kind, key kube.ServiceKey, port kube.ServicePort, eps []endpoint) {
	of := u.lookups.backing(key)
	c := &portCheck{kind: kind, name: key.Name, port: port, slices: u.set.EndpointSlices, backing: of}
	var p Problem
	switch {
	case len(eps) == 0:
		p.Reason, p.Severity = NoEndpoints, Warning
		p.Detail, p.Do = c.unserved()
		p.Detail += ", so requests are answered with 502"
	case strings.HasSuffix(eps[0].address, ":0"):
		p.Reason, p.Severity = PortNotFound, Error
		p.Detail, p.Do = c.noNumber()
		p.Detail += ", so proxies cannot connect"
	default:
		if p.Detail = c.differs(); p.Detail == "" {
			return
		}
		p.Reason, p.Severity = PortDiffers, Warning
	}
	p.Message, p.About = p.Detail, key.Name+":"+strconv.Itoa(port.Port)
	u.add(p)
}

type portCheck struct {
	kind kube.Kind
	name string
	port kube.ServicePort
	*backing
	slices bool // whether EndpointSlices are read, or Endpoints
}

func (c *portCheck) target() string {
	return fmt.Sprintf("the port %q, which is the target of its port %d", c.port.TargetPort, c.port.Port)
}

func (c *portCheck) unserved() (why, do string) {
	ready, notReady := c.Readiness()
	switch {
	case !c.slices && c.isNamedOtherwise():
		return c.namedOtherwise()
	case ready > 0 && c.slices:
		return fmt.Sprintf("no ready pod of Service %q declares %s: its EndpointSlices list no port", c.name, c.target()), c.declare()
	case ready > 0:
		return fmt.Sprintf("no ready pod of Service %q has %s", c.name, c.target()), c.declare()
	case notReady == 1:
		return fmt.Sprintf("Service %q has one pod, which is not ready", c.name), "Look at the readiness of the pod."
	case notReady > 1:
		return fmt.Sprintf("Service %q has %d pods, and none of them is ready", c.name, notReady), "Look at the readiness of the pods."
	case c.unused > 0 && c.slices:
		return fmt.Sprintf("Service %q has Endpoints, and only EndpointSlices count", c.name), "Unset -enable-kubernetes-endpointslices, or add the EndpointSlices."
	case c.unused > 0:
		return fmt.Sprintf("Service %q has EndpointSlices, and only Endpoints count", c.name), "Set -enable-kubernetes-endpointslices, or add the Endpoints."
	case !c.Service.Selector && c.slices:
		return fmt.Sprintf("Service %q has no selector, and no EndpointSlice has the label %s: %s", c.name, kube.ServiceNameLabel, c.name),
			"Give the Service a selector, or its EndpointSlices the label."
	case !c.Service.Selector:
		return fmt.Sprintf("Service %q has no selector, and there are no Endpoints with addresses of its name", c.name),
			"Give the Service a selector, or create the Endpoints."
	case !c.slices && c.port.TargetPort.IsName: // Endpoints do not list pods that lack the port
		return fmt.Sprintf("no running pod behind Service %q declares %s", c.name, c.target()),
			c.declare() + " If they have it, compare the selector of the Service with the labels of the pods."
	default:
		return fmt.Sprintf("no pod is behind Service %q: its selector matches none, or none runs", c.name), ""
	}
}

func (c *portCheck) declare() string {
	if c.port.TargetPort.IsName {
		return fmt.Sprintf("Give a port of the containers the name %q, or the Service a number as targetPort.", c.port.TargetPort)
	}
	return fmt.Sprintf("Let the pods listen on the port %s, or correct the targetPort of the Service.", c.port.TargetPort)
}

// isNamedOtherwise reports whether a RouteGroup does not find a target port that an Ingress would find.
func (c *portCheck) isNamedOtherwise() bool {
	if c.kind != kube.KindRouteGroup || !c.port.TargetPort.IsName {
		return false
	}
	has := func(ports []kube.EndpointPort) bool {
		return slices.ContainsFunc(ports, func(p kube.EndpointPort) bool { return p.Name == c.port.Name })
	}
	if c.endpoints != nil && slices.ContainsFunc(c.endpoints.Subsets, func(s kube.Subset) bool { return len(s.Addresses) > 0 && has(s.Ports) }) {
		return true
	}
	return slices.ContainsFunc(c.backing.slices, func(s *kube.EndpointSlice) bool { return has(s.Ports) })
}

func (c *portCheck) namedOtherwise() (why, do string) {
	return fmt.Sprintf("a RouteGroup looks up %s, among the names of the ports of the endpoints, which are those of Service %q itself (%q)",
			c.target(), c.name, c.port.Name),
		fmt.Sprintf("Give the port of the Service the name of its target, %q, or a number as targetPort.", c.port.TargetPort)
}

func (c *portCheck) noNumber() (why, do string) {
	with, protocol := 0, ""
	for _, s := range c.backing.slices {
		if _, ok := slicePort(c.kind, s.Ports, c.port); ok {
			with++
		}
		for _, p := range s.Ports {
			tcp := p
			tcp.Protocol = "TCP"
			if _, ok := slicePort(c.kind, []kube.EndpointPort{tcp}, c.port); ok && p.Protocol != "TCP" {
				protocol = cmp.Or(p.Protocol, "of no protocol")
			}
		}
	}
	switch {
	case with > 0:
		return fmt.Sprintf("Service %q has %s, in %d of %d EndpointSlices, and the last one, which decides for all pods, lacks it",
			c.name, c.target(), with, len(c.backing.slices)), "Finish the rollout, so that all pods declare the port. " + c.declare()
	case protocol != "":
		return fmt.Sprintf("the pods of Service %q have %s, but it is %s, not TCP", c.name, c.target(), protocol),
			"Give the port of the Service the protocol TCP."
	case c.isNamedOtherwise():
		return c.namedOtherwise()
	default:
		return fmt.Sprintf("no pod of Service %q has %s", c.name, c.target()), c.declare()
	}
}

// differs reports that some pods lack a port, or use a different number for it than proxies do; "" if none.
func (c *portCheck) differs() string {
	if c.endpoints != nil {
		first, all := 0, 0
		for _, s := range c.endpoints.Subsets {
			if _, ok := subsetPort(c.kind, &s, c.port); ok {
				if all += len(s.Addresses); first == 0 {
					first = all
				}
			}
		}
		if all > first {
			return fmt.Sprintf("%d of %d ready pods of Service %q get no requests, because they have another number for %s", all-first, all, c.name, c.target())
		}
		return ""
	}
	if len(c.backing.slices) < 2 || fixedNumber(c.kind, c.port) {
		return ""
	}
	last := len(c.backing.slices) - 1
	used, _ := slicePort(c.kind, c.backing.slices[last].Ports, c.port)
	differ := make(map[string]bool)
	for _, s := range c.backing.slices[:last] {
		if p, ok := slicePort(c.kind, s.Ports, c.port); !ok || p.Port != used.Port {
			for _, e := range (mergedSlices{s}).endpoints() {
				differ[e.address] = true
			}
		}
	}
	n, all := 0, c.backing.slices.endpoints()
	for _, e := range all {
		if differ[e.address] {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("proxies call all %d endpoints of Service %q at %d, the number of %s, in the last EndpointSlice, and %d of them have another number or none, so requests to these fail",
		len(all), c.name, used.Port, c.target(), n)
}

// Readiness counts the pods behind a service, whatever ports they have. One with addresses of both families counts once.
func (b *backing) Readiness() (ready, notReady int) {
	isReady := make(map[string]bool)
	if e := b.endpoints; e != nil {
		for i := range e.Subsets {
			notReady += e.Subsets[i].NotReady
			for _, a := range e.Subsets[i].Addresses {
				isReady[a] = true
			}
		}
		return len(isReady), notReady
	}
	all := slices.Concat(b.slices, b.unlisted)
	for _, e := range all.endpoints() {
		isReady[e.address] = true
	}
	without := make(map[string]bool)
	for _, s := range all {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; e.NoAddress && !e.Ready {
				notReady++
			} else if !isReady[e.Address] && !e.NoAddress {
				without[e.Address] = true
			}
		}
	}
	return pods(isReady), notReady + pods(without)
}

// pods counts the pods with some addresses: each has one of each family.
func pods(addresses map[string]bool) int {
	six := 0
	for a := range addresses {
		if strings.Contains(a, ":") {
			six++
		}
	}
	return max(six, len(addresses)-six)
}
