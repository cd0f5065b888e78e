package migrate

import (
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// clients returns the rules for requests of clients.
//
// Without a policy for the old pods, the new pods accept requests for tables from everywhere, too: proxies on the network of
// their nodes have no namespace that a policy could name, and a policy that blocks them would show only after the switch.
func (m *migration) clients() (rules []any, err error) {
	if len(m.in.Policies) == 0 {
		m.note("the policy of the overlay lets every pod ask for tables, as before, but only the namespace `"+m.Monitoring+"` read metrics (`--monitoring-namespace`). "+
			"After the switch, narrow the first rule of networkpolicy.yaml: use `namespaceSelector` for proxies with pod addresses, and `ipBlock` with the node addresses "+
			"for proxies with hostNetwork", "no NetworkPolicy selects the old pods")
		return []any{object{"ports": []object{{"protocol": "TCP", "port": m.arguments.main}}}}, nil
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
		ofOld, _ := spec["ingress"].([]any)
		rules = append(rules, ofOld...)
		m.note("the policy of the overlay has its ingress rules. It does not have its egress rules: routesrv needs only the API server, DNS and its other replicas",
			"NetworkPolicy `%s` selects the old pods", old.Name)
	}
	return rules, nil
}
