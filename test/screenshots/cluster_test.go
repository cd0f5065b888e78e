package screenshots

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// namespaces are the teams of a shop, with the number of services of each.
var namespaces = []struct {
	name     string
	services []string
}{
	{"checkout", []string{"cart", "address", "payment-page", "confirmation", "vouchers", "gift-cards"}},
	{"search", []string{"query", "suggest", "facets", "ranking", "similar"}},
	{"catalog", []string{"product-page", "reviews", "images", "sizes", "brands", "outlet", "wishlist"}},
	{"accounts", []string{"login", "profile", "orders", "returns", "newsletter"}},
	{"payments", []string{"gateway", "invoices", "refunds", "fraud"}},
	{"media", []string{"cdn-origin", "thumbnails", "video"}},
	{"partners", []string{"feed", "stock", "onboarding", "reports"}},
	{"internal-tools", []string{"dashboards", "wiki", "oncall"}},
}

const domain = ".shop.example.org"

// countries give each service several hosts.
var countries = []string{"de", "fr", "it", "nl", "pl"}

// objects returns the objects of a cluster without problems.
func objects() string {
	var b strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for n, ns := range namespaces {
		for i, name := range ns.services {
			b.WriteString(service(ns.name, name, endpoints(n, i, 3+random.IntN(3))))
			for _, country := range countries {
				b.WriteString(ingress(ns.name, name+"-"+country, name+"-"+country, name))
			}
		}
		b.WriteString(routeGroup(ns.name, ns.services[0]))
	}
	return b.String()
}

// endpoints returns addresses of pods.
func endpoints(namespace, service, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("10.2.%d.%d", namespace*16+service, 10+i))
	}
	return all
}

var zones = []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"}

func service(namespace, name string, addresses []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {type: ClusterIP, clusterIP: 10.3.0.1, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
`, namespace, name)
	for i, a := range addresses {
		fmt.Fprintf(&b, "- {addresses: [%s], zone: %s, conditions: {ready: true}}\n", a, zones[i%len(zones)])
	}
	b.WriteString("---\n")
	return b.String()
}

func ingress(namespace, name, host, backend string) string {
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[2]s, namespace: %[1]s, creationTimestamp: "2026-03-01T09:00:00Z"}
spec: {rules: [{host: %[3]s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[4]s, port: {number: 80}}}}]}}]}
---
`, namespace, name, host+domain, backend)
}

func routeGroup(namespace, backend string) string {
	return fmt.Sprintf(`apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: %[1]s-api, namespace: %[1]s, creationTimestamp: "2026-02-01T09:00:00Z"}
spec:
  hosts: [api-%[1]s%[3]s]
  backends: [{name: main, type: service, serviceName: %[2]s, servicePort: 80}]
  defaultBackends: [{backendName: main}]
  routes:
  - {pathSubtree: /v1}
  - {pathSubtree: /v2, predicates: ['Header("X-Preview", "1")'], filters: ['ratelimit(100, "1m")']}
  - {pathSubtree: /v2/items, methods: [GET, HEAD], filters: ['setResponseHeader("Cache-Control", "max-age=60")']}
---
`, namespace, backend, domain)
}

// mistakes returns objects with typical mistakes of teams.
func mistakes() string {
	return ingress("checkout", "express", "express", "express-checkout") + // no such service
		ingress("search", "old-search", "query-de", "query") + // shadows another one
		service("media", "transcoder", nil) + ingress("media", "transcoder", "transcoder", "transcoder") + // no pods
		strings.Replace(ingress("partners", "portal", "portal", "feed"), "number: 80", "number: 8443", 1) + // no such port
		strings.Replace(ingress("accounts", "beta", "beta", "login"), "metadata: {", `metadata: {annotations: {zalando.org/skipper-filter: "setPathh(\"/beta\")"}, `, 1) +
		strings.Replace(routeGroup("payments", "gateway"), "payments-api", "payouts", 1) +
		strings.Replace(strings.Replace(routeGroup("payments", "ledger"), "payments-api", "ledger", 1), "api-payments", "ledger", 1)
}

// lost returns the references to all Ingresses except those of the first namespaces.
func lost(after int) (all []kube.Ref) {
	for _, ns := range namespaces[after:] {
		for _, name := range ns.services {
			for _, country := range countries {
				all = append(all, kube.Ref{Kind: kube.KindIngress, Namespace: ns.name, Name: name + "-" + country})
			}
		}
	}
	return all
}
