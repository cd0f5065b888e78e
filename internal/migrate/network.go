package migrate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// network returns the patch of the NetworkPolicy of the base.
//
// Without a policy for the old pods, the new pods accept requests for tables from everywhere, too: proxies on the network of
// their nodes have no namespace that a policy could name, and a policy that blocks them would show only after the switch.
func (m *migration) network() patch {
	var ingress []networkingv1.NetworkPolicyIngressRule
	for _, p := range m.in.Policies {
		if len(p.Spec.PolicyTypes) > 0 && !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		for _, r := range p.Spec.Ingress {
			r := *r.DeepCopy()
			for i := range r.Ports {
				if port := r.Ports[i].Port; port != nil {
					r.Ports[i].Port = new(m.number(*port))
				}
			}
			for i := range r.From {
				m.selecting(r.From[i].PodSelector)
			}
			ingress = append(ingress, r)
		}
		m.notes = append(m.notes, Note{"NetworkPolicy `" + p.Name + "` selects the old pods",
			"the policy of the overlay has its ingress rules. It does not have its egress rules: routesrv needs only the API server, DNS and its other replicas"})
	}
	a := &m.arguments
	if len(m.in.Policies) == 0 {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{Ports: ports(a.main)})
		m.notes = append(m.notes, Note{"no NetworkPolicy selects the old pods", "the policy of the overlay lets every pod ask for tables, as before, but only the namespace `" +
			m.Monitoring + "` read metrics (`--monitoring-namespace`). After the switch, narrow the first rule of networkpolicy.yaml: use `namespaceSelector` for proxies " +
			"with pod addresses, and `ipBlock` with the node addresses for proxies with hostNetwork"})
	}
	replicas := []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{nameLabel: baseName}}}}
	ingress = append(ingress,
		networkingv1.NetworkPolicyIngressRule{From: replicas, Ports: ports(a.main, a.support)},
		networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"kubernetes.io/metadata.name": m.Monitoring},
			}}},
			Ports: ports(a.support),
		})
	api := []int{443, 6443}
	if a.apiPort != 0 && !slices.Contains(api, a.apiPort) {
		api = append(api, a.apiPort)
	}
	udp := ports(53)
	udp[0].Protocol = new(corev1.ProtocolUDP)
	egress := []networkingv1.NetworkPolicyEgressRule{
		{Ports: ports(api...)},
		{To: replicas, Ports: ports(a.main, a.support)},
		{Ports: append(udp, ports(53)...)},
	}
	var p patch
	p.replace("/spec/ingress", ingress)
	p.replace("/spec/egress", egress)
	return p
}

// ports returns TCP ports of a rule.
func ports(numbers ...int) []networkingv1.NetworkPolicyPort {
	var all []networkingv1.NetworkPolicyPort
	for _, n := range numbers {
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(int32(n)))})
	}
	return all
}

// services returns the patches of the two Services of the base.
func (m *migration) services() (service, peers patch) {
	a := &m.arguments
	service.replace("/spec/ports/0/targetPort", a.main)
	service.replace("/spec/ports/1/targetPort", a.support)
	peers.replace("/spec/ports/0/port", a.main)
	peers.replace("/spec/ports/0/targetPort", a.main)
	return service, peers
}

// role returns the patch of the ClusterRole of the base; nil for none.
func (m *migration) role() patch {
	if m.arguments.slices {
		return nil
	}
	var p patch
	p.replace("/rules/3/apiGroups", []string{""})
	p.replace("/rules/3/resources", []string{"endpoints"})
	return p
}
