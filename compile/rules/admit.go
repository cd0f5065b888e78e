package rules

import (
	"fmt"

	"github.com/routesrv/routesrv/kube"
)

// refuses returns why an object is not compiled: because it is not valid, or [NotSelected] for a foreign class. It returns nil if the object
// is compiled. It validates RouteGroups before it checks the class, so invalid RouteGroups of foreign classes are reported, too. Ingresses
// are validated when they are compiled.
func (s *Set) refuses(o kube.Object) *Problem {
	switch of := o.(type) {
	case *kube.Ingress:
		return s.foreignIngress(of)
	case *kube.RouteGroup:
		return s.refusedGroup(of)
	}
	return nil
}

func (s *Set) refusedGroup(rg *kube.RouteGroup) *Problem {
	if err := validateRouteGroup(rg); err != nil {
		return &Problem{
			Reason: InvalidObject, Severity: Error, Plain: true, Message: "[routegroup] " + err.Error(), Detail: refusedBecause(err),
		}
	}
	if class := rg.Annotations.Get(routeGroupClassAnnotation); class != "" && !s.routeGroupClass.MatchString(class) {
		return notSelected(class, "the annotation "+routeGroupClassAnnotation, s.routeGroupClass.String())
	}
	return nil
}

// foreignIngress checks the annotation and the field: each one that is set must match. It returns nil for an Ingress of the right
// class.
func (s *Set) foreignIngress(ing *kube.Ingress) *Problem {
	if class := ing.Annotations.Get(ingressClassAnnotation); class != "" && !s.ingressClass.MatchString(class) {
		return notSelected(class, "the annotation "+ingressClassAnnotation, s.ingressClass.String())
	}
	if ing.Spec != nil && ing.Spec.IngressClassName != "" && !s.ingressClass.MatchString(ing.Spec.IngressClassName) {
		return notSelected(ing.Spec.IngressClassName, "spec.ingressClassName", s.ingressClass.String())
	}
	return nil
}

func notSelected(class, where, wanted string) *Problem {
	return &Problem{
		Reason: NotSelected, Severity: Info,
		Message: fmt.Sprintf("not selected: the class %q in %s does not match %s", class, where, wanted),
		Detail:  fmt.Sprintf("its class is %q (%s), and only classes that match %q are served here, so nothing of it is served", class, where, wanted),
	}
}
