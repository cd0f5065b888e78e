// Package traffic changes a generated cluster: valid, invalid and poisonous objects, changing endpoints, and mass deletes with
// their repair. Its writes depend only on a seed, so that a run can be repeated.
package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Kinds of objects.
const (
	Ingress       = "Ingress"
	RouteGroup    = "RouteGroup"
	Service       = "Service"
	EndpointSlice = "EndpointSlice"
)

// Key identifies an object.
type Key struct{ Kind, Namespace, Name string }

// zones are the zones of endpoints.
var zones = []string{"eu-1a", "eu-1b", "eu-1c"}

// app is a service with its endpoints, and an Ingress or a RouteGroup that leads to it.
type app struct {
	namespace, name string
	group           bool // it has a RouteGroup instead of an Ingress
}

func (a app) front() Key {
	if a.group {
		return Key{RouteGroup, a.namespace, a.name}
	}
	return Key{Ingress, a.namespace, a.name}
}

func (a app) service() Key { return Key{Service, a.namespace, a.name} }
func (a app) slice() Key   { return Key{EndpointSlice, a.namespace, a.name + "-x"} }

type object map[string]any

func (o object) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // cannot happen: maps of plain values
	}
	return string(text)
}

func meta(k Key, annotations object) object {
	m := object{"name": k.Name, "namespace": k.Namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
	if len(annotations) > 0 {
		m["annotations"] = annotations
	}
	return m
}

// ingress returns a valid Ingress; n varies it. Most of its routes keep their ids: no real cluster has half of its ids replaced
// every few seconds, and a guard would hold it for ever.
func ingress(a app, n int, r *rand.Rand) object {
	annotations := object{"zalando.org/skipper-filter": fmt.Sprintf(`setResponseHeader("X-Version", "%d")`, n)}
	switch r.IntN(8) {
	case 0:
		annotations["zalando.org/skipper-predicate"] = `Header("X-Canary", "true")`
	case 1:
		annotations["zalando.org/skipper-routes"] = `old: Method("DELETE") -> status(405) -> <shunt>`
	case 2:
		annotations["zalando.org/skipper-loadbalancer"] = "leastRequests"
	}
	backend := object{"service": object{"name": a.name, "port": object{"name": "http"}}}
	paths := []any{object{"path": "/", "pathType": "Prefix", "backend": backend}}
	for i := range r.IntN(3) {
		paths = append(paths, object{"path": fmt.Sprintf("/v%d", i), "pathType": "Exact", "backend": backend})
	}
	return object{
		"apiVersion": "networking.k8s.io/v1", "kind": Ingress, "metadata": meta(a.front(), annotations),
		"spec": object{"rules": []any{object{"host": a.name + "." + a.namespace + ".example.org", "http": object{"paths": paths}}}},
	}
}

// routeGroup returns a valid RouteGroup; n varies it.
func routeGroup(a app, n int, r *rand.Rand) object {
	routes := []any{
		object{"pathSubtree": "/", "filters": []any{fmt.Sprintf(`setResponseHeader("X-Version", "%d")`, n)}},
	}
	for i := range r.IntN(3) {
		routes = append(routes, object{
			"path": fmt.Sprintf("/g%d", i), "methods": []any{"GET", "POST"}[:1+r.IntN(2)],
			"predicates": []any{`Header("X-Canary", "true")`},
		})
	}
	return object{
		"apiVersion": "zalando.org/v1", "kind": RouteGroup, "metadata": meta(a.front(), nil),
		"spec": object{
			"hosts": []any{a.name + "." + a.namespace + ".example.org"},
			"backends": []any{
				object{"name": "main", "type": "service", "serviceName": a.name, "servicePort": 80},
				object{"name": "gone", "type": "shunt"},
			},
			"defaultBackends": []any{object{"backendName": "main"}}, "routes": routes,
		},
	}
}

func service(a app, n int) object {
	ports := []any{object{"name": "http", "port": 80, "targetPort": 8080}}
	if n%3 == 1 {
		ports = append(ports, object{"name": "metrics", "port": 9090, "targetPort": "metrics"})
	}
	return object{
		"apiVersion": "v1", "kind": Service, "metadata": meta(a.service(), nil),
		"spec": object{"type": "ClusterIP", "clusterIP": "10.3.0.1", "ports": ports},
	}
}

// slice returns an EndpointSlice with that many endpoints.
func slice(a app, endpoints int, r *rand.Rand) object {
	list := make([]any, 0, endpoints)
	at := r.IntN(250)
	for i := range endpoints {
		list = append(list, object{
			"addresses": []any{fmt.Sprintf("10.2.%d.%d", r.IntN(4), (at+i)%250+1)}, "zone": zones[i%len(zones)],
			"conditions": object{"ready": true, "serving": true, "terminating": false},
		})
	}
	m := meta(a.slice(), nil)
	m["labels"] = object{"kubernetes.io/service-name": a.name}
	return object{
		"apiVersion": "discovery.k8s.io/v1", "kind": EndpointSlice, "metadata": m, "addressType": "IPv4",
		"ports": []any{object{"name": "http", "port": 8080, "protocol": "TCP"}}, "endpoints": list,
	}
}

// invalid returns an object that is refused as a whole or in part; how selects the mistake.
func invalid(a app, how int, r *rand.Rand) object {
	if !a.group {
		o := ingress(a, 0, r)
		annotations := o["metadata"].(object)["annotations"].(object)
		rule := o["spec"].(object)["rules"].([]any)[0].(object)
		path := rule["http"].(object)["paths"].([]any)[0].(object)
		switch how % 5 {
		case 0:
			annotations["zalando.org/skipper-filter"] = `setResponseHeader("X`
		case 1:
			path["backend"] = object{"service": object{"name": "nobody", "port": object{"number": 80}}}
		case 2:
			path["backend"] = object{"service": object{"name": a.name, "port": object{"name": "no-such-port"}}}
		case 3:
			annotations["zalando.org/skipper-predicate"] = `Path("/a") && ) -> "`
		case 4:
			path["path"], path["pathType"] = "/[", "ImplementationSpecific"
		}
		return o
	}
	o := routeGroup(a, 0, r)
	spec := o["spec"].(object)
	first := spec["routes"].([]any)[0].(object)
	switch how % 5 {
	case 0:
		spec["defaultBackends"] = []any{object{"backendName": "nobody"}}
	case 1:
		first["filters"] = []any{`status(200) -> "`}
	case 2:
		first["pathRegexp"] = "["
	case 3:
		spec["hosts"] = []any{}
	case 4:
		spec["backends"].([]any)[0].(object)["servicePort"] = 81
	}
	return o
}

// poison returns an object that affects others if it is let through.
func poison(a app, how int, r *rand.Rand) object {
	filters := []string{
		`admissionControl("web", "active", "0s", 10, 10, 0.5, 0.1, 0.5)`,
		`setPath("/a\"b")`,
		"inlineContent(\"a\nb\")",
		`setResponseHeader("X", "} -> <shunt>; other: * -> <shunt>;")`,
		`setResponseHeader("X", "` + "\u2028\xef\xbf\xbd" + `")`,
	}
	filter := filters[how%len(filters)]
	if a.group {
		o := routeGroup(a, 0, r)
		o["spec"].(object)["routes"].([]any)[0].(object)["filters"] = []any{filter}
		return o
	}
	o := ingress(a, 0, r)
	o["metadata"].(object)["annotations"].(object)["zalando.org/skipper-filter"] = filter
	return o
}
