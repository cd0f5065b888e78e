package migrate

import (
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// network returns the patch of the NetworkPolicy of the base, which has three rules for requests (clients, replicas, Prometheus) and
// three for connections (the API server, replicas, DNS).
//
// Without a policy for the old pods, the new pods accept requests for tables from everywhere, too: proxies on the network of
// their nodes have no namespace that a policy could name, and a policy that blocks them would show only after the switch.
func (m *migration) network() (p patch, err error) {
	a := &m.arguments
	port := func(number int) map[string]any { return map[string]any{"protocol": "TCP", "port": number} }
	for _, path := range []string{"/spec/ingress/1/ports", "/spec/egress/1/ports"} { // replicas
		p.op("replace", path, []any{port(a.main), port(a.support)})
	}
	p.op("replace", "/spec/ingress/2", map[string]any{
		"from":  []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": m.Monitoring}}}},
		"ports": []any{port(a.support)},
	})
	if a.api != 0 {
		p.op("add", "/spec/egress/0/ports/-", port(a.api))
	}
	clients := []any{map[string]any{"ports": []any{port(a.main)}}}
	if len(m.in.Policies) == 0 {
		m.note("the policy of the overlay lets every pod ask for tables, as before, but only the namespace `"+m.Monitoring+"` read metrics (`--monitoring-namespace`). "+
			"After the switch, narrow the first rule of networkpolicy.yaml: use `namespaceSelector` for proxies with pod addresses, and `ipBlock` with the node addresses "+
			"for proxies with hostNetwork", "no NetworkPolicy selects the old pods")
	} else {
		clients = nil
	}
	for _, old := range m.in.Policies {
		if len(old.Spec.PolicyTypes) > 0 && !slices.Contains(old.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		spec, err := m.carried(old.Spec, nil)
		if err != nil {
			return nil, fmt.Errorf("NetworkPolicy %s: %w", old.Name, err)
		}
		m.selecting(spec["ingress"])
		rules, _ := spec["ingress"].([]any)
		clients = append(clients, rules...)
		m.note("the policy of the overlay has its ingress rules. It does not have its egress rules: routesrv needs only the API server, DNS and its other replicas",
			"NetworkPolicy `%s` selects the old pods", old.Name)
	}
	p.op("remove", "/spec/ingress/0", nil)
	for _, rule := range clients {
		p.op("add", "/spec/ingress/0", rule)
	}
	return p, nil
}

// services returns the patches of the two Services of the base.
func (m *migration) services() (service, peers patch) {
	a := &m.arguments
	service.op("replace", "/spec/ports/0/targetPort", a.main)
	service.op("replace", "/spec/ports/1/targetPort", a.support)
	peers.op("replace", "/spec/ports/0/port", a.main)
	peers.op("replace", "/spec/ports/0/targetPort", a.main)
	return service, peers
}

// role returns the patch of the ClusterRole of the base; nil for none.
func (m *migration) role() (p patch) {
	if !m.arguments.Source.EndpointSlices {
		p.op("replace", "/rules/3/apiGroups", []string{""})
		p.op("replace", "/rules/3/resources", []string{"endpoints"})
	}
	return p
}
