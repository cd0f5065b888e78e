package deploy

import (
	"net"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// TestReplicasFindEachOther: the flag names a headless Service of the ready pods, at the port of the main listener, and the
// policy lets a replica connect to the others.
func TestReplicasFindEachOther(t *testing.T) {
	for render := range rendered {
		if !slices.ContainsFunc(rendered[render], func(o *object) bool { return o.kind == "Deployment" && o.name == "routesrv" }) {
			continue
		}
		d, c := routeServer(t, render)
		host, port, err := net.SplitHostPort(flagOf(c.Args, "--peers"))
		if err != nil {
			t.Fatalf("%s: %v", render, err)
		}
		service := as[corev1.Service](t, find(t, render, "Service", "routesrv-peers"))
		if want := service.Name + "." + service.Namespace + ".svc"; host != want || strconv.Itoa(ports(c)["http"]) != port {
			t.Errorf("%s: peers at %s:%s, the Service is %s with port %d behind it", render, host, port, want, ports(c)["http"])
		}
		if service.Spec.ClusterIP != corev1.ClusterIPNone || service.Spec.PublishNotReadyAddresses {
			t.Errorf("%s: the Service has no addresses of ready pods: %+v", render, service.Spec)
		}
		for label, value := range service.Spec.Selector {
			if d.Spec.Template.Labels[label] != value {
				t.Errorf("%s: the Service selects %s=%s, which the pods do not have", render, label, value)
			}
		}
		policy := as[networkingv1.NetworkPolicy](t, find(t, render, "NetworkPolicy", "routesrv"))
		if !slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
			return len(rule.To) == 1 && rule.To[0].PodSelector != nil && rule.Ports[0].Port.String() == port
		}) {
			t.Errorf("%s: the policy does not let a replica out to the others", render)
		}
	}
}

// TestReplicasTrustEachOther: with mutual TLS the certificate of a replica is valid for the name of the peers, and as a client
// certificate.
func TestReplicasTrustEachOther(t *testing.T) {
	const render = "component-mtls"
	_, c := routeServer(t, render)
	serving := certificate(t, render, "routesrv")
	host, _, _ := net.SplitHostPort(flagOf(c.Args, "--peers"))
	if !slices.Contains(serving.DNSNames, host) || !slices.Contains(serving.Usages, "client auth") {
		t.Errorf("the certificate is for %q and %q, peers are asked at %s", serving.DNSNames, serving.Usages, host)
	}
	value := func(name string) string {
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "ROUTESRV_FLAG_"+name })
		if i < 0 {
			t.Fatalf("no %s", name)
		}
		return c.Env[i].Value
	}
	if got, want := value("UPSTREAM_TLS"), "ca="+value("MTLS_AUTHN_CA")+",cert="+value("TLS_CERT")+",key="+value("TLS_KEY"); got != want {
		t.Errorf("UPSTREAM_TLS is %s, want %s", got, want)
	}
}
