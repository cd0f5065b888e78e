package rules

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// validateRouteGroup returns why the whole RouteGroup must be refused, and what the message has before it: the first error in
// the structure, or else all errors in the texts, one per line.
func validateRouteGroup(rg *kube.RouteGroup) (prefix string, err error) {
	if rg.Name == "" {
		return "", errors.New("route group without name")
	}
	if err := validateStructure(rg.Spec); err != nil {
		return fmt.Sprintf("error in route group %s/%s: ", kube.NamespaceOrDefault(rg.Namespace), rg.Name), err
	}
	return "", errors.Join(validateTexts(rg.Spec)...)
}

func validateStructure(spec *kube.RouteGroupSpec) error {
	if spec == nil {
		return errors.New("route group without spec")
	}
	if len(spec.Backends) == 0 {
		return errors.New("route group without backend")
	}
	names := make(map[string]bool, len(spec.Backends))
	for _, b := range spec.Backends {
		if b == nil {
			return errors.New("invalid backend: , unnamed backend") // the reference crashes on null
		}
		if names[b.Name] {
			return fmt.Errorf("backends with duplicate name: %s", b.Name)
		}
		names[b.Name] = true
		if err := validateBackend(b); err != nil {
			return fmt.Errorf("invalid backend: %s, %w", b.Name, err)
		}
	}
	if err := validateReferences(spec.DefaultBackends, names); err != nil {
		return err
	}
	if len(spec.DefaultBackends) == 0 && len(spec.Routes) == 0 {
		return errors.New("missing backend reference")
	}
	for i, r := range spec.Routes {
		if err := validateRoute(r, len(spec.DefaultBackends) > 0, names); err != nil {
			return fmt.Errorf("invalid route at %d, %w", i, err)
		}
	}
	return nil
}

func validateBackend(b *kube.RouteGroupBackend) error {
	// The algorithm comes first: if both are wrong, the algorithm is reported.
	if b.Algorithm != "" && !slices.Contains(catalogue.Algorithms, b.Algorithm) {
		return errors.New("unsupported algorithm")
	}
	typ, ok := routeGroupBackendType(b.Type)
	switch {
	case !ok:
		return fmt.Errorf("unsupported backend type: %s", b.Type)
	case b.Name == "":
		return errors.New("unnamed backend")
	case typ == eskip.NetworkBackend && b.Address == "":
		return fmt.Errorf("address missing in backend: %s", b.Name)
	case typ == serviceBackend && b.ServiceName == "":
		return fmt.Errorf("service name missing in backend: %s", b.Name)
	case typ == serviceBackend && (b.ServicePort <= 0 || b.ServicePort > 65535):
		return fmt.Errorf("invalid service port in backend: %s, %d", b.Name, b.ServicePort)
	case typ == eskip.LBBackend && len(b.Endpoints) == 0:
		return fmt.Errorf("missing LB endpoints in backend: %s", b.Name)
	}
	return nil
}

func validateReferences(refs []*kube.BackendReference, backends map[string]bool) error {
	seen := make(map[string]bool, len(refs))
	for _, ref := range refs {
		switch {
		case ref == nil || ref.BackendName == "": // the reference crashes on null
			return errors.New("unnamed backend reference")
		case seen[ref.BackendName]:
			return fmt.Errorf("duplicate backend reference: %s", ref.BackendName)
		case !backends[ref.BackendName]:
			return fmt.Errorf("invalid backend reference: %s", ref.BackendName)
		case ref.Weight < 0:
			return fmt.Errorf("invalid weight in backend: %s, %d", ref.BackendName, ref.Weight)
		}
		seen[ref.BackendName] = true
	}
	return nil
}

func validateRoute(r *kube.RouteSpec, hasDefaults bool, backends map[string]bool) error {
	if r == nil {
		return errors.New("invalid route spec")
	}
	if len(r.Backends) == 0 && !hasDefaults {
		return errors.New("missing backend reference")
	}
	if err := validateReferences(r.Backends, backends); err != nil {
		return err
	}
	if r.Path != "" && r.PathSubtree != "" {
		return errors.New("path and path subtree in the same route")
	}
	if slices.Contains(r.Methods, "") {
		return errors.New("invalid method")
	}
	return nil
}

func validateTexts(spec *kube.RouteGroupSpec) []error {
	var errs []error
	check := func(what, text string, found int, err error) {
		if err != nil {
			errs = append(errs, err)
		} else if found != 1 {
			errs = append(errs, fmt.Errorf("single %s expected at %q", what, text))
		}
	}
	for _, r := range spec.Routes {
		for _, text := range r.Filters {
			fs, err := eskip.ParseFilters(text)
			check("filter", text, len(fs), err)
		}
	}
	for _, r := range spec.Routes {
		for _, text := range r.Predicates {
			ps, err := eskip.ParsePredicates(text)
			check("predicate", text, len(ps), err)
		}
	}
	for _, b := range spec.Backends {
		if typ, _ := routeGroupBackendType(b.Type); typ == eskip.NetworkBackend {
			if err := validateAddress(b.Address); err != nil {
				errs = append(errs, err)
			}
		}
	}
	seen := make(map[string]bool, len(spec.Hosts))
	for _, h := range spec.Hosts {
		if seen[h] {
			errs = append(errs, fmt.Errorf("duplicate host %q", h))
		}
		seen[h] = true
	}
	return errs
}

func validateAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("failed to parse backend address %q: %w", address, err)
	}
	if u.Path != "" || u.RawQuery != "" || u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("backend address %q does not match scheme://host format", address)
	}
	return nil
}

const serviceBackend eskip.BackendType = -1

func routeGroupBackendType(s string) (eskip.BackendType, bool) {
	if s == "" || s == "service" {
		return serviceBackend, true
	}
	t, err := eskip.BackendTypeFromString(s)
	return t, err == nil
}
