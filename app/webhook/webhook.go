// Package webhook is a validating webhook: it compiles an Ingress or a RouteGroup before the API server stores it, and returns
// its problems as a refusal or as warnings, with the code and the texts of /problems.
//
// A [Judge] validates one object against the latest snapshot of the cluster; the handler implements admission.k8s.io/v1; a
// [Server] joins both with the read loop of a route server and two listeners.
//
// # Refusals
//
// An object is refused for a problem of severity error that depends only on the object, if the object that it replaces has fewer
// problems with this reason. All other problems are warnings, since an Ingress may be created before its Service, and a label of
// a broken object may change. Takeovers of requests of other objects are warnings, too, unless Config.RefuseTakeovers is set.
//
// # Failing open
//
// Before the first snapshot, objects are validated alone. For an unreadable request or a panic, the webhook returns an error, and
// the failurePolicy of its configuration decides; the manifests set Ignore.
package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// Judge predicts the problems of an object. It is safe for concurrent use, except that only one goroutine may call Take.
type Judge struct {
	scope   kube.Selection
	cluster *compile.Compiler
	alone   *compile.Result // an empty cluster, for objects before the first snapshot
	proxy   match.Options
	refuse  bool                                 // takeovers between namespaces
	owners  atomic.Pointer[shadowdiff.OwnerFunc] // of the latest snapshot
	turns   sync.Map                             // namespace to *sync.Mutex
}

// NewJudge returns a judge with the options of the route server. refuse is Config.RefuseTakeovers. The error names an invalid option.
func NewJudge(o rules.Options, scope kube.Selection, refuse bool) (*Judge, error) {
	alone, err := compile.New(o)
	if err != nil {
		return nil, err
	}
	cluster, err := compile.New(o)
	if err != nil {
		return nil, err
	}
	proxy := match.Options{
		NormalizeHost: true, ValidateQuery: true, ForwardBackendURL: o.ForwardBackendURL, ExtraFilters: o.ExtraFilters, ExtraPredicates: o.ExtraPredicates,
	}
	return &Judge{scope: scope, cluster: cluster, alone: alone.Compile(&kube.Snapshot{}), proxy: proxy, refuse: refuse}, nil
}

// Take sets the snapshot that objects are judged against, and returns its routes. If the compiler panics, Take keeps the previous
// snapshot and passes the panic on; the next snapshot is compiled from scratch.
func (j *Judge) Take(s *kube.Snapshot) table.List {
	before := j.cluster.Latest()
	result := j.cluster.Compile(s)
	if result != before {
		owners := explain.OwnerFunc(result.Inspect, s)
		j.owners.Store(&owners)
	}
	return result.Routes
}

// Ready reports whether the judge has a snapshot.
func (j *Judge) Ready() bool { return j.cluster.Latest() != nil }

// Verdict is the result for one object.
type Verdict struct {
	// Skipped means that the route server ignores the object.
	Skipped bool
	// Refused are the problems that cause the refusal; the object is admitted if there are none. Warnings are the other problems
	// of severity warning and error.
	Refused, Warnings []rules.Problem
	// Taken describe the takeovers that cause the refusal, Takeovers the others.
	Takeovers, Taken []string
}

// Review judges an object, in JSON, that would replace old. old is empty for a new object. The kind is [kube.KindIngress] or
// [kube.KindRouteGroup].
func (j *Judge) Review(kind kube.Kind, object, old []byte) (Verdict, error) {
	cluster := j.cluster.Latest()
	now, err := j.try(cluster, kind, object)
	if err != nil || now.Skipped {
		return Verdict{Skipped: now.Skipped}, err
	}
	var had []rules.Problem
	if len(old) > 0 {
		before, err := j.try(cluster, kind, old)
		if err != nil {
			return Verdict{}, err
		}
		had = before.Problems
	}
	var v Verdict
	for _, p := range now.Problems {
		if p.Severity == rules.Error && !p.Reason.Info().Elsewhere && count(now.Problems, p.Reason) > count(had, p.Reason) && !has(had, p) {
			v.Refused = append(v.Refused, p)
		} else {
			v.Warnings = append(v.Warnings, p)
		}
	}
	return v, j.takeovers(&v, cluster, now)
}

// reviewSteps limits the cost of the search for takeovers of an object: about as many microseconds.
const reviewSteps = 20_000

// takeovers adds the certain and possible takeovers of an object. Before the first snapshot, no other objects are known.
func (j *Judge) takeovers(v *Verdict, cluster *compile.Result, tried takeover.Tried) error {
	owners := j.owners.Load()
	if cluster == nil || owners == nil || len(tried.Routes) == 0 {
		return nil
	}
	defer j.turn(tried.Ref.Namespace)()
	report, err := takeover.Try(cluster, []takeover.Tried{tried}, *owners, takeover.Options{Proxy: j.proxy, Steps: reviewSteps})
	if err != nil {
		return err
	}
	for i := range report.Takeovers {
		t := &report.Takeovers[i]
		line := "takeover: " + t.String()
		if more := t.Lost - 1; more > 0 {
			line += fmt.Sprintf(", and %d more routes", more)
		}
		if j.refuse && t.From.Namespace != t.To.Namespace {
			v.Taken = append(v.Taken, line)
		} else {
			v.Takeovers = append(v.Takeovers, line)
		}
	}
	for _, u := range report.Unknown {
		switch line := "takeover: " + u.String(); {
		case j.refuse && u.From.Namespace != u.To.Namespace:
			v.Taken = append(v.Taken, line)
		case u.From.Namespace != u.To.Namespace:
			v.Takeovers = append(v.Takeovers, line)
		}
	}
	if report.Skipped > 0 {
		const line = "takeover: may take requests of others: the search exceeded its budget"
		if !j.refuse {
			v.Takeovers = append(v.Takeovers, line)
		} else {
			v.Taken = append(v.Taken, line)
		}
	}
	return nil
}

func count(all []rules.Problem, reason rules.Reason) int {
	n := 0
	for _, p := range all {
		if p.Reason == reason {
			n++
		}
	}
	return n
}

// has reports whether the old object had the same problem, possibly with another text.
func has(all []rules.Problem, p rules.Problem) bool {
	return slices.ContainsFunc(all, func(q rules.Problem) bool { return q.Reason == p.Reason && q.Route == p.Route })
}

// try compiles an object without storing it. cluster is nil before the first snapshot.
func (j *Judge) try(cluster *compile.Result, kind kube.Kind, text []byte) (tried takeover.Tried, err error) {
	o, err := kube.DecodeJSON(kind, text)
	if err != nil {
		d, _ := errors.AsType[*kube.DecodeError](err) // which it always is
		tried.Problems = []rules.Problem{rules.BadObject(kube.BadObject{Ref: d.Ref, Err: err})}
		return tried, nil
	}
	tried.Ref = o.Ref()
	defer j.turn(tried.Ref.Namespace)()
	switch {
	case !j.takes(kind, o):
		tried.Skipped = true
	case cluster != nil:
		tried.Trial, err = cluster.Foresee(o, nil)
	default:
		tried.Trial, err = j.tryAlone(o)
	}
	return tried, err
}

func (j *Judge) takes(kind kube.Kind, o kube.Object) bool {
	var m kube.Meta
	if routed, ok := o.(kube.Routed); ok {
		m = *routed.Metadata()
	}
	return j.scope.Takes(kind, m.Namespace, m.Labels.Lookup)
}

// turn waits until no other review of the namespace runs, so that the expensive objects of one team cannot take every processor.
func (j *Judge) turn(namespace string) (done func()) {
	m, _ := j.turns.LoadOrStore(namespace, new(sync.Mutex))
	turn := m.(*sync.Mutex)
	turn.Lock()
	return turn.Unlock
}

// tryAlone compiles an object without a cluster, and omits problems that depend on other objects.
func (j *Judge) tryAlone(o kube.Object) (compile.Trial, error) {
	t, err := j.alone.Try(o)
	t.Problems = slices.DeleteFunc(t.Problems, func(p rules.Problem) bool { return p.Reason.Info().Elsewhere })
	return t, err
}

// text returns a problem in one line, for the author of the object.
func text(p rules.Problem) string {
	return string(p.Reason) + ": " + strings.Join(strings.Fields(p.Text()), " ")
}
