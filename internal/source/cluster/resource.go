package cluster

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/internal/source/cluster/internal/decode"
	"github.com/routesrv/routesrv/kube"
)

// resource is one kind as the API knows it, restricted to the configured namespace and labels.
type resource struct {
	decode.Type
	group     string // "" means the core group
	plural    string
	namespace string // "" means all
	selector  string // in the syntax of the API
}

// newResource returns a kind in the version v1 of its group.
func newResource(kind kube.Kind, group, plural string) resource {
	return resource{Type: decode.Type{Kind: kind, APIVersion: strings.TrimPrefix(group+"/v1", "/")}, group: group, plural: plural}
}

// resources returns the resources that the configuration reads, in the order of the requests. Objects that refer to others are
// listed before them, so that the others are not older. Discovery precedes RouteGroups.
func (c *Config) resources() []resource {
	all := []resource{
		newResource(kube.KindIngress, "networking.k8s.io", "ingresses"),
		newResource(kube.KindRouteGroup, "zalando.org", "routegroups"),
		newResource(kube.KindService, "", "services"),
		newResource(kube.KindEndpoints, "", "endpoints"),
	}
	if c.EndpointSlices {
		all[3] = newResource(kube.KindEndpointSlice, "discovery.k8s.io", "endpointslices")
	}
	if c.Namespaces && c.Namespace == "" {
		all = append(all, newResource(kube.KindNamespace, "", "namespaces"))
	}
	if c.Orders != "" {
		all = append(all, newResource(kube.KindConfigMap, "", "configmaps"))
	}
	for i := range all {
		all[i].namespace, all[i].selector = c.Namespace, selectorText(c.Selectors[all[i].Kind])
		if all[i].Kind == kube.KindConfigMap {
			all[i].namespace = c.Orders
		}
	}
	return all
}

// selectorText returns the selector in the syntax of the API, sorted so that every replica makes the same request.
func selectorText(m map[string]string) string {
	terms := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if v := m[k]; v != "" {
			k += "=" + v
		}
		terms = append(terms, k)
	}
	return strings.Join(terms, ",")
}

// custom reports whether the resource is a custom one. Custom resources arrive only as JSON.
func (r *resource) custom() bool { return !decode.HasProtobuf(r.Kind) }

// Name returns the resource as RBAC and kubectl spell it.
func (r *resource) Name() string {
	return strings.TrimSuffix(r.plural+"."+r.group, ".")
}

// path returns the path at which the resource is listed.
func (r *resource) path() string {
	p := "/apis/" + r.group + "/v1/"
	if r.group == "" {
		p = "/api/v1/"
	}
	if r.namespace != "" {
		p += "namespaces/" + url.PathEscape(r.namespace) + "/"
	}
	return p + r.plural
}

// permission describes the permission that a service account needs for the verb.
func (r *resource) permission(verb string) string {
	p := `the verb "` + verb + `" on "` + r.plural + `" in API group "` + r.group + `"`
	if r.namespace != "" {
		p += ` in namespace "` + r.namespace + `"`
	}
	return p
}

// request returns a request for the verb, without a query.
func (r *resource) request(verb string) request {
	q := request{path: r.path(), accept: decode.MediaProtobuf + "," + decode.MediaJSON, missing: r.permission(verb)}
	if r.custom() {
		q.accept = decode.MediaJSON
	}
	return q
}

// List returns the request for a list no older than since; 0 means a consistent list.
func (r *resource) List(since kube.Revision) request {
	q := url.Values{}
	if r.selector != "" {
		q.Set("labelSelector", r.selector)
	}
	if since != 0 {
		q.Set("resourceVersion", strconv.FormatUint(uint64(since), 10))
		q.Set("resourceVersionMatch", "NotOlderThan")
	}
	request := r.request("list")
	request.query = q.Encode()
	return request
}

// current returns the revision of a consistent list of the resource. It requests only one object, because an API
// server that cannot answer a consistent list from its cache reads etcd for it.
func (c *client) current(ctx context.Context, r *resource) (revision kube.Revision, err error) {
	request := r.request("list")
	request.query = "limit=1"
	err = c.get(ctx, request, func(resp *response) error {
		body, err := resp.open()
		if err == nil {
			revision, err = c.walker.Page(resp.Media, body, r.Type)
		}
		return err
	})
	return revision, err
}
