package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster/internal/decode"
)

// resource is one kind as the API knows it, restricted to the configured namespace and labels.
type resource struct {
	Kind      kube.Kind
	plural    string
	namespace string // "" means all
	selector  string // in the syntax of the API
}

// group returns the API group; "" means the core group.
func (r *resource) group() string {
	return strings.TrimSuffix(strings.TrimSuffix(r.Kind.APIVersion(), "v1"), "/")
}

// resources returns the resources that the configuration reads, in the order of the requests. Objects that refer to others are
// listed before them, so that the others are not older. Discovery precedes RouteGroups.
func (c *Config) resources() []resource {
	all := []resource{
		{Kind: kube.KindIngress, plural: "ingresses"},
		{Kind: kube.KindRouteGroup, plural: "routegroups"},
		{Kind: kube.KindService, plural: "services"},
		{Kind: kube.KindEndpoints, plural: "endpoints"},
	}
	if c.EndpointSlices {
		all[3] = resource{Kind: kube.KindEndpointSlice, plural: "endpointslices"}
	}
	if c.Namespaces && c.Namespace == "" {
		all = append(all, resource{Kind: kube.KindNamespace, plural: "namespaces"})
	}
	for i := range all {
		all[i].namespace, all[i].selector = c.Namespace, selectorText(c.Selectors[all[i].Kind])
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

// Name returns the resource as RBAC and kubectl spell it.
func (r *resource) Name() string {
	return strings.TrimSuffix(r.plural+"."+r.group(), ".")
}

// path returns the path at which the resource is listed.
func (r *resource) path() string {
	p := "/apis/"
	if r.group() == "" {
		p = "/api/"
	}
	p += r.Kind.APIVersion() + "/"
	if r.namespace != "" {
		p += "namespaces/" + url.PathEscape(r.namespace) + "/"
	}
	return p + r.plural
}

// request returns a request for the verb, without a query, and with the permission that a service account needs for it.
func (r *resource) request(verb string) request {
	missing := `the verb "` + verb + `" on "` + r.plural + `" in API group "` + r.group() + `"`
	if r.namespace != "" {
		missing += ` in namespace "` + r.namespace + `"`
	}
	q := request{path: r.path(), accept: decode.MediaProtobuf + "," + decode.MediaJSON, missing: missing}
	if !decode.HasProtobuf(r.Kind) { // custom resources arrive only as JSON
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
			revision, err = c.walker.Page(resp.Media, body, r.Kind)
		}
		return err
	})
	return revision, err
}

const (
	// routeGroupVersion is the API group and version of RouteGroups.
	routeGroupVersion = "zalando.org/v1"
	// discoveryPath is where the API lists the resources of that group; groupsPath is where it lists all groups.
	discoveryPath = "/apis/" + routeGroupVersion
	groupsPath    = "/apis"
)

// getJSON reads a small answer in JSON.
func (c *client) getJSON(ctx context.Context, path string, into any) error {
	return c.get(ctx, request{
		path: path, accept: decode.MediaJSON,
		missing: `the verb "get" on the non-resource URL "` + path + `", as the cluster role system:discovery does`,
	}, func(resp *response) error {
		if resp.Media != decode.MediaJSON {
			return fmt.Errorf("content type %q: must be %s", resp.Media, decode.MediaJSON)
		}
		r, err := resp.open()
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, into)
	})
}

// servesRouteGroups asks discovery whether the cluster has RouteGroups. A cluster that never had them answers 404;
// see [isNotFound].
func (c *client) servesRouteGroups(ctx context.Context) (bool, error) {
	var list metav1.APIResourceList
	if err := c.getJSON(ctx, discoveryPath, &list); err != nil {
		return false, err
	}
	// A proxy on the way could answer 200 with unrelated JSON; that must not remove the RouteGroups.
	switch {
	case list.Kind != "APIResourceList" || list.GroupVersion != routeGroupVersion:
		return false, failf(reasonBody, "answer to %s: it is a %.40q of the group version %.40q, must be an APIResourceList of %s",
			discoveryPath, list.Kind, list.GroupVersion, routeGroupVersion)
	case list.APIResources == nil:
		return false, failf(reasonBody, "answer to %s: no list of resources", discoveryPath)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "routegroups" }), nil
}

// listsRouteGroups reports whether the list of all API groups contains the group of RouteGroups.
func (c *client) listsRouteGroups(ctx context.Context) (bool, error) {
	var list metav1.APIGroupList
	if err := c.getJSON(ctx, groupsPath, &list); err != nil {
		return false, err
	}
	if list.Kind != "APIGroupList" || len(list.Groups) == 0 {
		return false, failf(reasonBody, "answer to %s: it is a %.40q with %d groups, must be an APIGroupList with at least one",
			groupsPath, list.Kind, len(list.Groups))
	}
	serves := func(v metav1.GroupVersionForDiscovery) bool { return v.GroupVersion == routeGroupVersion }
	return slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return slices.ContainsFunc(g.Versions, serves) }), nil
}

// RouteGroups count as removed once confirmingReads reads over at least confirmingTime have all found none.
const (
	confirmingReads = 3
	confirmingTime  = 10 * time.Second
)

// LogNoCRD is logged as a warning when the RouteGroup API is missing, once until it has been seen again.
const LogNoCRD = "RouteGroups CRD is not installed in the cluster.\n" +
	"See: https://opensource.zalando.com/skipper/kubernetes/routegroups/#installation"

// errUnconfirmed reports that RouteGroups seem to have been removed, but that this is not confirmed yet.
var errUnconfirmed = errors.New("the cluster no longer seems to have RouteGroups")

// absence is the evidence that RouteGroups were removed.
type absence struct {
	since time.Time // time of the first read that found none; zero without such a read
	reads int       // consecutive
}

// confirm counts a read that finds no RouteGroups although some are served. It returns nil when enough reads have
// found none for long enough. A 404 alone is not enough evidence: an API server that has just started, or an aggregated
// one behind it, briefly returns 404. So the list of all groups must agree, too.
func (r *lister) confirm(ctx context.Context, groupFound bool) error {
	listed, err := r.api.listsRouteGroups(ctx)
	switch {
	case err != nil:
		return &kube.ReadError{Verb: "get", Resource: groupsPath, Err: err}
	case listed != groupFound:
		r.absence = absence{}
		return &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: failf(reasonBody,
			"%w, but %s and %s contradict each other (%s is listed: %t): the old RouteGroups are kept",
			errUnconfirmed, discoveryPath, groupsPath, routeGroupVersion, listed)}
	}
	now := time.Now()
	if r.absence.reads == 0 {
		r.absence.since = now
	}
	r.absence.reads++
	lasted := now.Sub(r.absence.since)
	if r.absence.reads >= confirmingReads && lasted >= confirmingTime {
		return nil
	}
	return &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: failf(reasonNotFound,
		"%w: found by %d reads in %v, and taken for certain after %d reads in %v; until then the old ones are kept",
		errUnconfirmed, r.absence.reads, lasted.Round(time.Millisecond), confirmingReads, confirmingTime)}
}

// discover reports whether the cluster has RouteGroups. If some are served, it takes several calls before it reports
// that none exist any longer; until then it fails.
func (r *lister) discover(ctx context.Context, served bool) (bool, error) {
	found, err := r.api.servesRouteGroups(ctx)
	missing := isNotFound(err)
	if missing {
		err = nil
	}
	if err != nil {
		err = &kube.ReadError{Verb: "get", Resource: discoveryPath, Err: err}
	} else if !found && served {
		err = r.confirm(ctx, !missing)
	}
	if err != nil {
		r.cfg.Metrics.ReadErrors.WithLabelValues("discovery", string(reasonOf(err))).Inc()
		return false, err
	}
	r.absence = absence{}
	if missing && !r.warnedNoCRD {
		r.cfg.Logger.Warn(LogNoCRD)
	}
	if found || missing {
		r.warnedNoCRD = missing
	}
	return found, nil
}
