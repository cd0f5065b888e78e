package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/source/manifests"
	"github.com/routesrv/routesrv/table"
)

// Limits of the manifests in one question.
const (
	maxTakeoverBytes   = 4 << 20
	maxTakeoverObjects = 500
)

// takeoverEndpoint returns /takeovers.
func (s *Server) takeoverEndpoint() httpserve.Endpoint {
	return httpserve.Endpoint{
		Path: api.PathTakeovers, Methods: []string{http.MethodPost}, MaxBody: maxTakeoverBytes, Handler: s.questions.limited(api.PathTakeovers, s.serveTakeovers),
		Does: "which requests of other owners the manifests in the body would [take](../operate/before-a-change.md): YAML or JSON, at most 4 MiB and " +
			"500 objects. Text or JSON",
	}
}

// serveTakeovers reports the requests that the objects in the body would take from others if added to the cluster as last read.
func (s *Server) serveTakeovers(w http.ResponseWriter, r *http.Request) {
	result := s.compiler.Latest()
	if result == nil {
		http.Error(w, "nothing was read yet", http.StatusServiceUnavailable)
		return
	}
	body, err := manifestsOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	objects, err := concerned(body, result.Snapshot)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	tried := make([]takeover.Tried, len(objects))
	for i, o := range objects {
		trial, err := result.Foresee(o, &body.Backends)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		tried[i] = takeover.Tried{Ref: o.Ref(), Trial: trial}
	}
	report, err := takeover.Try(result, tried, s.owners(), takeover.Options{
		Proxy: s.proxyOptions(), Steps: questionSteps, Stop: func() bool { return r.Context().Err() != nil },
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.Context().Err() != nil {
		return // the client has disconnected
	}
	httpserve.WriteAnswer(w, r, http.StatusOK, report.WriteJSON, report.WriteText)
}

// manifestsOf reads a body. The error names what is not an object.
func manifestsOf(r *http.Request) (*kube.Snapshot, error) {
	source, err := manifests.New(manifests.Config{
		Paths: []string{"-"}, Stdin: r.Body, MaxFileBytes: maxTakeoverBytes,
	})
	if err != nil {
		return nil, err
	}
	snapshot, err := source.Read(r.Context(), kube.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	for _, bad := range snapshot.Bad {
		return nil, fmt.Errorf("%s: %w", bad.Ref, bad.Err)
	}
	return snapshot, nil
}

// concerned returns the Ingresses and RouteGroups of a body, and the cluster's objects whose routes may change with the Services,
// Endpoints and slices of the body. It is an error if there are none, or too many.
func concerned(body, cluster *kube.Snapshot) (objects []kube.Object, _ error) {
	has, namespaces := make(map[kube.Ref]bool), make(map[string]bool)
	for _, s := range body.Services {
		namespaces[s.Namespace] = true
	}
	for _, e := range body.Endpoints {
		namespaces[e.Namespace] = true
	}
	for _, s := range body.EndpointSlices {
		namespaces[s.Namespace] = true
	}
	for o := range body.Objects() {
		has[o.Ref()] = true
		objects = append(objects, o)
	}
	if len(objects)+len(namespaces) == 0 {
		return nil, errors.New("the body must be Ingresses or RouteGroups, or Services of some, as YAML or JSON")
	}
	if len(objects) > maxTakeoverObjects {
		return nil, fmt.Errorf("%d objects: must be at most %d", len(objects), maxTakeoverObjects)
	}
	for o := range cluster.Objects() {
		if ref := o.Ref(); namespaces[ref.Namespace] && !has[ref] {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// LogTakeover reports that a served change takes requests of other owners.
const LogTakeover = "a change takes requests of others"

// allowTakeover is the annotation of an object, or of a namespace, that lets others take its requests: namespaces and NAMESPACE/NAME of objects, with commas
// between them, or "*".
const allowTakeover = "routesrv.dev/allow-takeover-by"

const (
	lookSteps     = 200_000 // of one namespace in a published table, about as many microseconds: a hostile object must not cost seconds
	questionSteps = 500_000 // in an answer
	maxNotices    = 100     // takeovers that are remembered
	noticeTime    = time.Hour
)

// takeovers finds what changes take from others: before they are published, for the policy, and afterwards, for people.
type takeovers struct {
	s       *Server
	look    chan struct{} // another table may be served
	noticed prometheus.Counter

	mu      sync.Mutex // guards the fields below
	notices []api.Takeover
	checked checked
}

// checked is the last answer for the policy: a read often shows the same tables as the one before. The objects count as well, because their
// annotations are in no table.
type checked struct {
	before, after *table.Table
	newest        *compile.Result
	objections    publish.Objections
}

func newTakeovers(s *Server) *takeovers {
	return &takeovers{s: s, look: make(chan struct{}, 1), noticed: series.In(s.registry).Counter("routesrv_takeovers_total",
		"Routes that lost requests to another namespace by published changes.")}
}

// published reports that a different table is served.
func (n *takeovers) published() {
	select {
	case n.look <- struct{}{}:
	default:
	}
}

// side is a table with the known data of its objects.
type side struct {
	table    *table.Table
	snapshot *kube.Snapshot
}

func (n *takeovers) find(before, after side, stop func() bool) *takeover.Report {
	owner := n.ownerFunc(before.snapshot, after.snapshot)
	of := func(s side) takeover.Side { return takeover.Side{Routes: s.table.Routes(), Owner: owner} }
	return takeover.Find(of(before), of(after), takeover.Options{Proxy: n.s.proxyOptions(), Steps: lookSteps, Stop: stop})
}

// ownerFunc finds the objects of routes of two snapshots: in the results of their builds, if the compiler still has them.
func (n *takeovers) ownerFunc(before, after *kube.Snapshot) shadowdiff.OwnerFunc {
	var results []*compile.Result
	for _, s := range [2]*kube.Snapshot{before, after} {
		known := n.s.compiler.Known(s)
		if known == nil {
			return explain.OwnerFunc(n.inspect, before, after)
		}
		results = append(results, known)
	}
	return func(id string) (o shadowdiff.Owner) {
		for _, r := range results {
			if ref, ok := r.AskerOf(id); ok {
				return shadowdiff.Owner{Kind: string(ref.Kind), Namespace: ref.Namespace, Name: ref.Name}
			}
		}
		return o
	}
}

// inspect describes an object of the newest read.
func (n *takeovers) inspect(ref kube.Ref) (found compile.Inspection, ok bool) {
	if newest := n.s.compiler.Latest(); newest != nil {
		return newest.Inspect(ref)
	}
	return found, false
}

// namespaces finds the namespaces of routes of the newest read.
func (n *takeovers) namespaces() func(id string) string {
	newest := n.s.compiler.Latest()
	if newest == nil {
		return func(string) string { return "" }
	}
	owner := explain.OwnerFunc(newest.Inspect, newest.Snapshot)
	return func(id string) string { return owner(id).Namespace }
}

// refused returns the routes that the policy does not let pass.
func (n *takeovers) refused(before, after *table.Table) publish.Objections {
	objections := make(publish.Objections)
	policy := n.s.cfg.Review.KeepTakeovers
	if policy.Routes == 0 || before == nil {
		return objections
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if latest := n.s.compiler.Latest(); n.checked.before != before || n.checked.after != after || n.checked.newest != latest {
		var newest *kube.Snapshot
		if latest != nil {
			newest = latest.Snapshot
		}
		was := side{table: before}
		if served := n.s.publisher.Served(); served != nil {
			was.snapshot = served.Snapshot
		}
		report := n.find(was, side{after, newest}, nil)
		for id, detail := range policy.Refused(report, n.allowed) {
			objections[id] = publish.Objection{Reason: publish.ReasonTakeover, Detail: detail}
		}
		n.checked = checked{before, after, latest, objections}
	}
	return maps.Clone(n.checked.objections) // the publisher removes entries from it
}

// allowed reports whether the annotation of the losing object, or of its namespace, lets the other one take its requests.
func (n *takeovers) allowed(from, to shadowdiff.Owner) bool {
	in, ok := n.inspect(refOf(from))
	if !ok {
		return false
	}
	list, _ := in.Object.Metadata().Annotations.Lookup(allowTakeover)
	if newest := n.s.compiler.Latest(); newest != nil {
		for _, ns := range newest.Snapshot.Namespaces {
			if ns.Name == from.Namespace {
				all, _ := ns.Annotations.Lookup(allowTakeover)
				list += "," + all
			}
		}
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && (name == "*" || name == to.Namespace || name == to.Namespace+"/"+to.Name) {
			return true
		}
	}
	return false
}

// run records the takeovers of published tables until the context ends.
func (n *takeovers) run(ctx context.Context) {
	var last side
	for {
		if served := n.s.publisher.Served(); served != nil {
			now := side{served.Table, served.Snapshot}
			if last.table != nil && last.table != now.table {
				n.note(n.find(last, now, func() bool { return ctx.Err() != nil }), served.Committed.UTC())
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return
		case <-n.look:
		}
	}
}

// note remembers and logs the takeovers of a report.
func (n *takeovers) note(report *takeover.Report, now time.Time) {
	var fresh []api.Takeover
	for i := range report.Takeovers {
		t := &report.Takeovers[i]
		if t.BetweenNamespaces() {
			n.noticed.Add(float64(t.Lost))
		}
		fresh = append(fresh, api.Takeover{
			At: now, From: refOf(t.From), To: refOf(t.To), Lost: t.Lost, Example: t.String(),
		})
	}
	if len(fresh) == 0 {
		return
	}
	n.s.history.took(fresh)
	n.s.log.Warn(LogTakeover, "count", len(fresh), "example", fresh[0].Example)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notices = slices.DeleteFunc(n.notices, func(t api.Takeover) bool { return now.Sub(t.At) > noticeTime })
	n.notices = append(fresh[:min(len(fresh), maxNotices)], n.notices...)
	n.notices = n.notices[:min(len(n.notices), maxNotices)]
}

func refOf(o shadowdiff.Owner) kube.Ref {
	return kube.Ref{Kind: kube.Kind(o.Kind), Namespace: o.Namespace, Name: o.Name}
}

// last returns the takeovers of the last hour, newest first.
func (n *takeovers) last() []api.Takeover {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.notices), func(t api.Takeover) bool { return time.Since(t.At) > noticeTime })
}

// problems returns the takeovers as problems of both objects, for Events. Objects that the newest read lacks are left out.
func (n *takeovers) problems() (all []poller.Problem) {
	for _, t := range n.last() {
		for owner, message := range map[kube.Ref]string{
			t.To:   fmt.Sprintf("takes requests of %s, such as %s", t.From, t.Example),
			t.From: fmt.Sprintf("loses requests to %s, such as %s", t.To, t.Example),
		} {
			if _, exists := n.inspect(owner); !exists {
				continue
			}
			if more := t.Lost - 1; more > 0 {
				message += fmt.Sprintf(" (and %d more routes)", more)
			}
			all = append(all, poller.Problem{Since: t.At, Problem: rules.Problem{
				Owner: owner, Reason: rules.Takeover, Severity: rules.Warning, Message: message,
			}})
		}
	}
	return all
}
