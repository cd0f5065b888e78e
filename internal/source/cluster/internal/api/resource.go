package api

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

// Resource is one kind as the API knows it, restricted to the configured namespace and labels.
type Resource struct {
	decode.Type
	group     string // "" means the core group
	plural    string
	namespace string // "" means all
	selector  string // in the syntax of the API
}

// resources are all kinds in the order of the requests. Objects that refer to others are listed before them, so that
// the others are not older. Discovery precedes RouteGroups.
var resources = []struct {
	kind   kube.Kind
	group  string
	plural string
	wanted func(*Config) bool
}{
	{kube.KindIngress, "networking.k8s.io", "ingresses", always},
	{kube.KindRouteGroup, "zalando.org", "routegroups", always},
	{kube.KindService, "", "services", always},
	{kube.KindEndpoints, "", "endpoints", func(c *Config) bool { return !c.EndpointSlices }},
	{kube.KindEndpointSlice, "discovery.k8s.io", "endpointslices", func(c *Config) bool { return c.EndpointSlices }},
}

func always(*Config) bool { return true }

// Resources returns the resources that the configuration reads, in the order of the requests.
func (c *Config) Resources() []Resource {
	var out []Resource
	for _, r := range resources {
		if !r.wanted(c) {
			continue
		}
		version := "v1"
		if r.group != "" {
			version = r.group + "/v1"
		}
		out = append(out, Resource{
			Type:  decode.Type{Kind: r.kind, APIVersion: version},
			group: r.group, plural: r.plural, namespace: c.Namespace, selector: selectorText(c.Selectors[r.kind]),
		})
	}
	return out
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

// Custom reports whether the resource is a custom one. Custom resources arrive only as JSON.
func (r *Resource) Custom() bool { return !decode.HasProtobuf(r.Kind) }

// Name returns the resource as RBAC and kubectl spell it.
func (r *Resource) Name() string {
	if r.group == "" {
		return r.plural
	}
	return r.plural + "." + r.group
}

// path returns the path at which the resource is listed.
func (r *Resource) path() string {
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
func (r *Resource) permission(verb string) string {
	p := `the verb "` + verb + `" on "` + r.plural + `" in API group "` + r.group + `"`
	if r.namespace != "" {
		p += ` in namespace "` + r.namespace + `"`
	}
	return p
}

// request returns a request for the verb, without a query.
func (r *Resource) request(verb string) Request {
	q := Request{path: r.path(), accept: decode.MediaProtobuf + "," + decode.MediaJSON, missing: r.permission(verb)}
	if r.Custom() {
		q.accept = decode.MediaJSON
	}
	return q
}

// List returns the request for a list no older than since; 0 means a consistent list.
func (r *Resource) List(since kube.Revision) Request {
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

// Current returns the revision of a consistent list of the resource. It requests only one object, because an API
// server that cannot answer a consistent list from its cache reads etcd for it.
func (c *Client) Current(ctx context.Context, r *Resource) (revision kube.Revision, err error) {
	request := r.request("list")
	request.query = "limit=1"
	err = c.Get(ctx, request, func(resp *Response) error {
		body, err := resp.Open()
		if err == nil {
			revision, err = c.walker.Page(resp.Media, body, r.Type)
		}
		return err
	})
	return revision, err
}
