// Package explain says what became of an object, a route or a host: in the words of who wrote the object, the fault first.
//
// [Explain] puts together what the compiler knows of an object: whether it was selected, its problems, its routes, the services
// behind them, who else has its hosts. Then it makes up a request for each route and asks match who gets it: so it finds objects
// that take each other's traffic, and redirects that go round in circles, whatever made them.
//
// Nothing here does I/O, reads a clock or logs.
package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/table"
)

// Schema names the form of an [Explanation] in JSON. Within one version fields are only added.
const Schema = "routesrv.explain/v1"

// Query is what is to be explained: an object, a route or a host. One of the three is set.
type Query struct {
	Kind      kube.Kind `json:"kind,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	Route     string    `json:"route,omitempty"`
	Host      string    `json:"host,omitempty"`
}

// ParseQuery reads what people type: a kind and NAMESPACE/NAME, or one word, which is a host if it has a dot and the id of a
// route otherwise. A name without namespace is in the namespace default. The error says what is accepted.
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
		return Query{}, fmt.Errorf("%q: want KIND NAMESPACE/NAME, the id of a route, or a host such as shop.example.org", w)
	case 2:
		kind, ok := kindOf(words[0])
		if !ok {
			return Query{}, fmt.Errorf("%q: want ingress or routegroup", words[0])
		}
		namespace, name, ok := strings.Cut(words[1], "/")
		if !ok {
			namespace, name = "default", words[1]
		}
		if name == "" || namespace == "" || strings.ContainsAny(name, "/ \t\r\n") {
			return Query{}, fmt.Errorf("%q: want NAMESPACE/NAME", words[1])
		}
		return Query{Kind: kind, Namespace: namespace, Name: name}, nil
	}
	return Query{}, fmt.Errorf("%d words: want KIND NAMESPACE/NAME, the id of a route, or a host", len(words))
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

// String is the query as people type it.
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

// Compiler is what is asked of a [compile.Compiler].
type Compiler interface {
	Inspect(kube.Ref) (compile.Inspection, bool)
	Claims(host string) []kube.Ref
	Latest() (*kube.Snapshot, *compile.Result)
}

// Input is what is known. All of it is only read, and of one moment.
type Input struct {
	// Compiler has compiled the snapshot. Required.
	Compiler Compiler
	// Served is the table that proxies get, which is older than the result of the compiler while the guard holds a change back.
	// Ignored unless HasServed.
	Served    table.List
	HasServed bool
	// Namespace and Selectors restrict what is read, as they do in the source.
	Namespace string
	Selectors map[kube.Kind]map[string]string
	// Classes are the expressions that select objects, by kind; empty means those that the compiler has by default.
	Classes map[kube.Kind]string
	// Proxy are the settings of the proxies, for requests that are made up.
	Proxy match.Options
	// WithoutPods says that nothing was read of pods, as of most manifests: then there is no problem with those.
	WithoutPods bool
	// Since tells since when a problem is there, by its id. It may be nil.
	Since func(id string) (time.Time, bool)
}

// Explanation is what there is to say. Explain leaves Object.Fleet to whoever knows the fleet.
type Explanation struct {
	Schema string `json:"schema"`
	Query  Query  `json:"query"`
	// Result is "fine", "info", "warning" or "error" by the worst that was found, or "not_found".
	Result string `json:"result"`
	// Cause is the first line: what is wrong, or that nothing is. Advice says what to do, if there is something to do.
	Cause  string `json:"cause"`
	Advice string `json:"advice,omitempty"`
	// Objects are the object that was asked for, or all those that have the host.
	Objects []Object `json:"objects"`
	// Total is how many objects there are; Objects has the first of them.
	Total int `json:"total"`
}

// Object is what became of one object.
type Object struct {
	Owner kube.Ref `json:"owner"`
	// Selected says whether the object is one that is served here, and Selection why.
	Selected  bool       `json:"selected"`
	Selection string     `json:"selection"`
	Created   *time.Time `json:"created,omitempty"`
	Changed   string     `json:"changed,omitempty"` // time and field manager of the last change
	Problems  []Problem  `json:"problems"`
	Routes    []Route    `json:"routes"`
	// TotalRoutes is how many routes there are; Routes has the first of them.
	TotalRoutes int       `json:"total_routes"`
	Services    []Service `json:"services"`
	Hosts       []Host    `json:"hosts"`
	Requests    []Request `json:"requests"`
	// Fleet says how many clients have the routes; nil if nobody knows, or no route is served.
	Fleet *Share `json:"fleet,omitempty"`
}

// Share is how many of the clients that are heard hold a table which has the routes of an object as they are now.
type Share struct {
	Holders int `json:"holders"`
	Clients int `json:"clients"`
}

// Served are the ids of the routes that proxies get.
func (o *Object) Served() []string {
	var ids []string
	for i := range o.Routes {
		if s := o.Routes[i].State; s == StateServed || s == StateRefused {
			ids = append(ids, o.Routes[i].ID)
		}
	}
	return ids
}

// Problem is a problem of the object, in the words for its team.
type Problem struct {
	ID       string           `json:"id"`
	Route    string           `json:"route,omitempty"`
	Reason   compile.Reason   `json:"reason"`
	Severity compile.Severity `json:"severity"`
	What     string           `json:"what"`
	Do       string           `json:"do,omitempty"`
	Since    *time.Time       `json:"since,omitempty"`
}

// Route is a route that the object asks for.
type Route struct {
	ID         string `json:"id"`
	Predicates string `json:"predicates,omitempty"`
	Filters    string `json:"filters,omitempty"`
	Backend    string `json:"backend,omitempty"`
	// Main is false for a route that goes with another one, such as a redirect.
	Main bool `json:"main"`
	// State is "served", "waiting" (compiled, and not in the table that proxies get), "left_out", or "refused" (served, and no proxy
	// uses it).
	State string `json:"state"`
	// Why says why the route is not used.
	Why string `json:"why,omitempty"`
}

// The states of a route.
const (
	StateServed  = "served"
	StateWaiting = "waiting"
	StateLeftOut = "left_out"
	StateRefused = "refused"
)

// Service is a service that the object refers to.
type Service struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Exists    bool           `json:"exists"`
	Type      string         `json:"type,omitempty"`
	Ports     []string       `json:"ports"` // as "80 (http) -> 8080"
	Ready     int            `json:"ready"`
	NotReady  int            `json:"not_ready"`
	Zones     map[string]int `json:"zones,omitempty"` // ready endpoints
}

// Host is a host of the object, and who else has it.
type Host struct {
	Host   string     `json:"host"`
	Others []kube.Ref `json:"others"`
}

// Request is a made up request for a route, and who gets it.
type Request struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// Route is the route that the request is made for.
	Route string `json:"route"`
	// Result is "own" if the object gets it, "other", "shared" (one of several by chance), "none" or "loop".
	Result string `json:"result"`
	// Winner is the route that gets it, and Owner the object of that.
	Winner string   `json:"winner,omitempty"`
	Owner  kube.Ref `json:"owner"`
	// Why says why it is not the route that the request is made for.
	Why string `json:"why,omitempty"`
}

// Limits of an explanation: it is for people, and the compiler waits for it.
const (
	maxObjects  = 20
	maxRoutes   = 200
	maxRequests = 20  // of one object
	maxSampled  = 100 // routes of one object that requests are made up for
	maxHosts    = 50  // that are looked up among all objects
	maxTables   = 10  // hosts whose routes are parsed
)

// Explain explains. The query is one that [ParseQuery] gives.
func Explain(in Input, q Query) *Explanation {
	x := &explainer{Input: in, out: &Explanation{Schema: Schema, Query: q, Objects: []Object{}}, hosts: map[string]*routesOf{}, claims: map[string][]kube.Ref{}}
	snapshot, result := in.Compiler.Latest()
	if snapshot == nil {
		x.out.Result, x.out.Cause = NotFound, "Nothing was read yet: ask again when the route server is ready."
		return x.out
	}
	x.snapshot, x.result = snapshot, result
	switch {
	case q.Host != "":
		x.host(q.Host)
	case q.Route != "":
		x.route(q.Route)
	default:
		x.object(q.ref())
	}
	return x.out
}

// NotFound is the Result if there is no such object, route or host.
const NotFound = "not_found"

// explainer makes one explanation.
type explainer struct {
	Input
	out      *Explanation
	snapshot *kube.Snapshot
	result   *compile.Result
	hosts    map[string]*routesOf  // tables of the routes that requests for a host can reach
	claims   map[string][]kube.Ref // who has a host
	findings []finding
}

// claimsOf gives who has a host, and nobody when enough hosts were looked up.
func (x *explainer) claimsOf(host string) []kube.Ref {
	owners, known := x.claims[host]
	if !known && len(x.claims) < maxHosts {
		owners = x.Compiler.Claims(host)
		x.claims[host] = owners
	}
	return owners
}
