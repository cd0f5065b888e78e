package rules

import (
	"regexp"

	"github.com/routesrv/routesrv/kube"
)

// admits reports whether an object is compiled, and adds the problem of one that is not: it is not valid, or [NotSelected] for a foreign class.
// It validates RouteGroups before it checks the class, so invalid RouteGroups of foreign classes are reported, too. Ingresses are validated
// when they are compiled.
func (s *Set) admits(o kube.Object, u *Unit) bool {
	switch of := o.(type) {
	case *kube.Ingress:
		return u.hasClass(s.ingressClass, of.Annotations.Get(ingressClassAnnotation), "the annotation "+ingressClassAnnotation) &&
			(of.Spec == nil || u.hasClass(s.ingressClass, of.Spec.IngressClassName, "spec.ingressClassName"))
	case *kube.RouteGroup:
		if prefix, err := validateRouteGroup(of); err != nil {
			u.invalid("[routegroup] "+prefix, err)
			return false
		}
		return u.hasClass(s.routeGroupClass, of.Annotations.Get(routeGroupClassAnnotation), "the annotation "+routeGroupClassAnnotation)
	}
	return true
}

// hasClass reports whether a class is served here. An object without a class is always served.
func (u *Unit) hasClass(served *regexp.Regexp, class, where string) bool {
	if class == "" || served.MatchString(class) {
		return true
	}
	u.ownf(Problem{Reason: NotSelected, Severity: Info},
		"its class is %q (%s), and only classes that match %q are served here, so nothing of it is served", class, where, served)
	return false
}
