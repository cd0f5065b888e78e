// Package explain explains what happened to an object, a route or a host, in the terms of the object's author, the fault first.
//
// [Explain] collects what the compiler knows about an object: whether it was selected, its problems, its routes, their
// services, and other objects with the same hosts. Then it generates a request for each route and lets package match find the
// route that gets it, which detects objects that take each other's traffic, and circular redirects, whatever their cause.
//
// The package does no I/O, reads no clock and does not log. Other modules should not import it: it may change with every
// release.
package explain

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/table"
)

// Schema names the form of an [Explanation] in JSON. Within one version fields are only added.
const Schema = "routesrv.explain/v1"

// Query is what to explain: an object, a route or a host. One of the three is set.
type Query struct {
	Kind      kube.Kind `json:"kind,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	Route     string    `json:"route,omitempty"`
	Host      string    `json:"host,omitempty"`
}

// ParseQuery parses a kind and NAMESPACE/NAME, a host, which has a dot or dash, or the id of a route.
func ParseQuery(words ...string) (Query, error) {
	switch len(words) {
	case 1:
		w := words[0]
		switch {
		case w == "" || strings.ContainsAny(w, " \t\r\n/"):
		case strings.ContainsAny(w, ".-") || w == "localhost":
			return Query{Host: strings.ToLower(w)}, nil
		default:
			return Query{Route: w}, nil
		}
		return Query{}, fmt.Errorf("%q: must be KIND NAMESPACE/NAME, the id of a route, or a host such as shop.example.org", w)
	case 2:
		kind, ok := kindOf(words[0])
		if !ok {
			return Query{}, fmt.Errorf("%q: must be ingress or routegroup", words[0])
		}
		namespace, name, ok := strings.Cut(words[1], "/")
		if !ok {
			namespace, name = "default", words[1]
		}
		if name == "" || namespace == "" || strings.ContainsAny(name, "/ \t\r\n") {
			return Query{}, fmt.Errorf("%q: must be NAMESPACE/NAME", words[1])
		}
		return Query{Kind: kind, Namespace: namespace, Name: name}, nil
	}
	return Query{}, fmt.Errorf("%d words: must be KIND NAMESPACE/NAME, the id of a route, or a host", len(words))
}

func kindOf(word string) (kube.Kind, bool) {
	switch strings.ToLower(word) {
	case "ingress", "ingresses", "ing":
		return kube.KindIngress, true
	case "routegroup", "routegroups", "rg":
		return kube.KindRouteGroup, true
	}
	return "", false
}

// String returns the query as users type it.
func (q Query) String() string {
	switch {
	case q.Route != "":
		return "route " + q.Route
	case q.Host != "":
		return "host " + q.Host
	}
	return q.ref().String()
}

func (q Query) ref() kube.Ref { return kube.Ref{Kind: q.Kind, Namespace: q.Namespace, Name: q.Name} }

// Input is the state to explain, all from the same moment. Explain doesn't change it.
type Input struct {
	// Result is the newest result of the compiler, nil before the first read.
	Result *compile.Result
	// Served is the table that proxies get, which may be older than that result. Ignored unless HasServed.
	Served    table.List
	HasServed bool
	// Hold is the current hold, or nil. Objects are then explained as served, and compared with the newest read.
	Hold *Hold
	// Namespace and Selectors restrict what is read, as in the source.
	Namespace string
	Selectors map[kube.Kind]map[string]string
	// Classes are the expressions that select objects, by kind; empty means the compiler's defaults.
	Classes map[kube.Kind]string
	// Proxy holds the settings of the proxies, for the generated requests.
	Proxy match.Options
	// WithoutPods means that no data about pods was read, as from most manifests: problems with pods are not reported.
	WithoutPods bool
	// Since returns when a problem began, by its id. It may be nil.
	Since func(id string) (time.Time, bool)
}

// Explanation is the result of Explain. The caller sets Object.Fleet.
type Explanation struct {
	Schema string `json:"schema"`
	Query  Query  `json:"query"`
	// Result is "fine", "info", "warning" or "error" for the worst finding, or "not_found".
	Result string `json:"result"`
	// Cause is the first line: the worst fault, or that there is none. Advice is what to do, if anything.
	Cause  string `json:"cause"`
	Advice string `json:"advice,omitempty"`
	// Objects are the requested object, or all objects with the host.
	Objects []Object `json:"objects"`
	// Total is the number of objects; Objects has the first ones.
	Total int `json:"total"`
	// Hold is the hold that keeps an object as it is served; nil if none does.
	Hold *Hold `json:"hold,omitempty"`
}

// Object explains one object.
type Object struct {
	Owner kube.Ref `json:"owner"`
	// Newest is the newest state of an object that is served in an earlier one: deleted, changed or without_endpoints.
	Newest string `json:"newest,omitempty"`
	// Selected reports whether this route server serves the object; Selection is the reason.
	Selected  bool       `json:"selected"`
	Selection string     `json:"selection"`
	Created   *time.Time `json:"created,omitempty"`
	Changed   string     `json:"changed,omitempty"` // time and field manager of the last change
	Problems  []Problem  `json:"problems"`
	Routes    []Route    `json:"routes"`
	// TotalRoutes is the number of routes; Routes has the first ones.
	TotalRoutes int       `json:"total_routes"`
	Services    []Service `json:"services"`
	Hosts       []Host    `json:"hosts"`
	Requests    []Request `json:"requests"`
	// Notes are full sentences about requests and settings that the object doesn't cover although it is served.
	Notes []string `json:"notes,omitempty"`
	// Fleet counts the clients that have the routes; nil if unknown, or if no route is served.
	Fleet *Share `json:"fleet,omitempty"`
}

// Share counts the live clients that hold a table with the current routes of an object.
type Share struct {
	Holders int `json:"holders"`
	Clients int `json:"clients"`
}

// Served returns the ids of the routes that proxies get.
func (o *Object) Served() []string {
	var ids []string
	for i := range o.Routes {
		if s := o.Routes[i].State; s == StateServed || s == StateRefused {
			ids = append(ids, o.Routes[i].ID)
		}
	}
	return ids
}

// Problem is a problem of the object, in the terms of its team.
type Problem struct {
	ID       string         `json:"id"`
	Route    string         `json:"route,omitempty"`
	Reason   rules.Reason   `json:"reason"`
	Severity rules.Severity `json:"severity"`
	What     string         `json:"what"`
	Do       string         `json:"do,omitempty"`
	Since    *time.Time     `json:"since,omitempty"`
}

// Route is a route that the object requests.
type Route struct {
	ID         string `json:"id"`
	Predicates string `json:"predicates,omitempty"`
	Filters    string `json:"filters,omitempty"`
	Backend    string `json:"backend,omitempty"`
	// Main is false for a companion of another route, such as a redirect.
	Main bool `json:"main"`
	// State is "served", "waiting" (not in the table that proxies get), "left_out", or "refused" (proxies do not use it).
	State string `json:"state"`
	// Why is why the route is not used.
	Why string `json:"why,omitempty"`
}

// The states of a route.
const (
	StateServed  = "served"
	StateWaiting = "waiting"
	StateLeftOut = "left_out"
	StateRefused = "refused"
)

// Service is a service that the object references.
type Service struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Exists    bool           `json:"exists"`
	Type      string         `json:"type,omitempty"`
	Ports     []string       `json:"ports"` // in the form "80 (http) -> 8080"
	Ready     int            `json:"ready"`
	NotReady  int            `json:"not_ready"`
	Zones     map[string]int `json:"zones,omitempty"` // ready endpoints
}

// Host is a host of the object, and the other objects that have it.
type Host struct {
	Host   string     `json:"host"`
	Others []kube.Ref `json:"others"`
}

// Request is a generated request for a route, with the route that gets it.
type Request struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// Route is the route that the request is generated for.
	Route string `json:"route"`
	// Result is "own" if the object gets the request, "other", "shared" (one of several at random), "none" or "loop".
	Result string `json:"result"`
	// Winner is the route that gets the request, and Owner its object.
	Winner string   `json:"winner,omitempty"`
	Owner  kube.Ref `json:"owner"`
	// Why is why another route gets it.
	Why string `json:"why,omitempty"`
}

// Limits of an explanation, which is for people.
const (
	maxObjects  = 20
	maxRoutes   = 200
	maxRequests = 20  // of one object
	maxSampled  = 100 // routes of one object for which requests are generated
	maxHosts    = 50  // hosts looked up among all objects
	maxTables   = 10  // hosts whose routes are parsed
	maxContest  = 64  // requests generated for one route
)

// Explain explains a query from [ParseQuery].
func Explain(in Input, q Query) *Explanation { return explained(in, q).out }

func explained(in Input, q Query) *explainer {
	if in.Result == nil {
		x := newExplainer(in, q, &compile.Result{})
		x.out.Result, x.out.Cause = NotFound, "No data yet: try again once the route server is ready."
		return x
	}
	if in.Hold != nil && in.Hold.Snapshot != nil {
		served := newExplainer(in, q, in.Result.Beside(in.Hold.Snapshot))
		if served.query(q); served.out.Result != NotFound {
			served.reportHold()
			return served
		}
	}
	x := newExplainer(in, q, in.Result)
	x.query(q)
	return x
}

func (x *explainer) query(q Query) {
	switch {
	case q.Host != "":
		x.host(q.Host)
	case q.Route != "":
		x.route(q.Route)
	default:
		x.object(q.ref())
	}
}

// NotFound is the Result if no such object, route or host exists.
const NotFound = "not_found"

type explainer struct {
	Input
	out      *Explanation
	snapshot *kube.Snapshot        // of result
	result   *compile.Result       // the explained one: of the newest or of the served snapshot
	hosts    map[string]*routesOf  // tables of the routes that requests for each host can reach
	claims   map[string][]kube.Ref // objects that have each host
	findings []finding
	owners   func() *Owners // of all objects
}

func newExplainer(in Input, q Query, result *compile.Result) *explainer {
	return &explainer{
		Input: in, out: &Explanation{Schema: Schema, Query: q, Objects: []Object{}},
		snapshot: result.Snapshot, result: result, hosts: map[string]*routesOf{}, claims: map[string][]kube.Ref{},
		owners: sync.OnceValue(func() *Owners { return NewOwners(nil, result.Snapshot) }),
	}
}

func (x *explainer) claimsOf(host string) []kube.Ref {
	owners, known := x.claims[host]
	if !known && len(x.claims) < maxHosts {
		owners = x.result.Claims(host)
		x.claims[host] = owners
	}
	return owners
}
