package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
)

// backendTarget is a resolved Ingress backend: endpoints (none: the route answers 502), or an external name.
type backendTarget struct {
	external     bool
	externalName string
	endpoints    []endpoint // of the external name, too
}

// resolve resolves a backend. ok is false if no route must be created. The default backend has its own messages in the reference.
func (b *ingressBuilder) resolve(backend *kube.IngressBackend, isDefault bool) (t backendTarget, ok bool) {
	failed := func(p Problem, cause string) (backendTarget, bool) {
		if isDefault {
			p.Severity, p.Message, p.About = Error, "Failed to convert default backend: "+cause, ""
		}
		b.add(p)
		return backendTarget{}, false
	}
	svc := b.service(backend)
	if svc == nil {
		if isDefault {
			p := noService(b.ing.Namespace, backend)
			p.About = ""
			failed(p, "service not found")
		}
		return backendTarget{}, false
	}
	wanted := backend.Port()
	port, ok := first(svc.Ports, func(p kube.ServicePort) bool {
		return wanted != "" && p.TargetPort.Set && (wanted == strconv.Itoa(p.Port) || wanted == p.Name)
	})
	if !ok {
		b.noPort(svc, backend, isDefault)
		return backendTarget{}, true // no endpoints
	}
	notAllowed := "ingress with not allowed external name service: " + svc.ExternalName
	switch {
	case svc.Type != externalNameType:
		return backendTarget{endpoints: b.endpoints(backend.Service, port)}, true
	case !b.set.ExternalNames && isDefault:
		return failed(Problem{Reason: BackendRefused}, "ingress is not enabled to reference external name service")
	case !b.set.ExternalNames:
		return failed(Problem{
			Reason: ExternalNames, Severity: Info, Message: fmt.Sprintf("Not enabled to reference external name from ingress: %s/%s", b.ing.Namespace, b.ing.Name),
			Detail: fmt.Sprintf("Service %q is of type ExternalName, which is switched off here, so the routes to it are left out", backend.Service),
		}, "")
	case !b.set.allowedExternalName(svc.ExternalName):
		return failed(Problem{Reason: BackendRefused, Severity: Info, Message: "Not allowed external name: " + notAllowed}, notAllowed)
	}
	return backendTarget{
		external:     true,
		externalName: svc.ExternalName,
		endpoints:    []endpoint{{address: portScheme(port) + "://" + svc.ExternalName + ":" + port.TargetPort.String()}},
	}, true
}

func (b *ingressBuilder) noPort(svc *kube.Service, backend *kube.IngressBackend, isDefault bool) {
	if b.ann.forward && !isDefault {
		return
	}
	given, ports := backend.Port(), portTexts(svc)
	detail := noPort(svc, backend.Service, given) + ", so requests are answered with 502"
	p := Problem{Reason: PortNotFound, Severity: Error, Message: detail, Detail: detail, About: backend.Service + ":" + given}
	if isDefault {
		p.Message = fmt.Sprintf("Failed to find target port %s, %s, for service %s add shuntroute: "+
			"getServicePortV1: service port not found %s given %s", ports, given, backend.Service, ports, given)
		p.About = "default backend"
	}
	b.add(p)
}

func (b *ingressBuilder) service(backend *kube.IngressBackend) *kube.Service {
	var svc *kube.Service
	if backend.Service != "" {
		svc = b.lookups.service(kube.ServiceKeyOf(b.ing.Namespace, backend.Service))
	}
	if svc == nil {
		p := noService(b.ing.Namespace, backend)
		p.Severity, p.Message = Error, fmt.Sprintf("Failed to get service %s, %s", backend.Service, backend.Port())
		p.About = backend.Service + ":" + backend.Port()
		b.add(p)
	}
	return svc
}

func noService(namespace string, backend *kube.IngressBackend) Problem {
	switch {
	case backend.Resource != "":
		return Problem{
			Reason: BackendRefused,
			Detail: fmt.Sprintf("a backend is a resource (%s), and resource backends are not supported, so its routes are left out", backend.Resource),
			Do:     "Use a Service as backend.",
		}
	case backend.Service == "":
		return Problem{Reason: ServiceNotFound, Detail: "a backend names no Service, so its routes are left out", Do: "Name a Service and a port of it."}
	}
	return Problem{Reason: ServiceNotFound, Detail: missingService(namespace, backend.Service)}
}

// portScheme returns https for the number 443 only; "443" is a name.
func portScheme(port kube.ServicePort) string {
	if port.TargetPort.IsNumber(443) {
		return "https"
	}
	return "http"
}

func (b *ingressBuilder) endpoints(name string, port kube.ServicePort) []endpoint {
	if b.set.ForceService {
		return []endpoint{{address: fmt.Sprintf("%s://%s.%s.svc.cluster.local:%s", portScheme(port), name, b.ing.Namespace, port.TargetPort)}}
	}
	key := kube.ServiceKeyOf(b.ing.Namespace, name)
	eps := b.endpointsOf(kube.KindIngress, key, port, b.ing.Annotations)
	if !b.ann.forward {
		b.checkEndpoints(kube.KindIngress, key, port, eps)
	}
	if b.ann.zoneOptOut {
		return eps
	}
	return inZone(eps, b.set.TopologyZone)
}

func (b *ingressBuilder) setBackend(r *eskip.Route, t backendTarget) {
	setEndpoints(r, t.endpoints, b.ann.lbAlgorithm)
	if t.external && !b.set.ExternalNamePreserveHost {
		// Not parsed: the reference inserts the name into filter text, where it could inject filters.
		prepend(r, filter("setRequestHeader", "Host", t.externalName))
	}
	if b.ann.zoneOptOut && r.BackendType == eskip.LBBackend {
		prepend(r, filter(annotateFilter, zoneAwareKey, "false"))
	}
}

func (b *ingressBuilder) defaultBackend() {
	backend := b.ing.Spec.DefaultBackend
	if backend == nil {
		return
	}
	target, ok := b.resolve(backend, true)
	if !ok {
		return
	}
	r := &eskip.Route{Id: routeid.Ingress(b.ing.Namespace, b.ing.Name, "", "", "")}
	if target.external {
		r.Id = routeid.Ingress(b.ing.Namespace, b.ing.Name, "default", "", target.externalName)
	}
	b.setBackend(r, target)
	b.set.application(r, &b.ing.Meta)
	b.forward(r)
	b.finish(&b.Global, r, mainRoute, b.sharers())
	if b.set.EastWest { // name and namespace are swapped in the host, as in the reference
		host := b.ing.Namespace + "." + b.ing.Name + "." + b.set.EastWestDomain
		b.finish(&b.Companions, eastWestCopy(r, host), companion, b.sharers())
	}
}

func portTexts(svc *kube.Service) string {
	texts := make([]string, len(svc.Ports))
	for i, p := range svc.Ports {
		target := "<nil>" // how the reference prints an unset target port
		if p.TargetPort.Set {
			target = p.TargetPort.String()
		}
		texts[i] = fmt.Sprintf("%s %d %s", p.Name, p.Port, target)
	}
	return "[" + strings.Join(texts, " ") + "]"
}
