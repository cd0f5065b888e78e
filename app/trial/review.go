package trial

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Review is a [publish.Review]: it objects to routes with new calls that failed their trial or have no verdict yet, and requests
// a trial of the latter. Its cost is proportional to the routes that differ.
func (t *Trial) Review(before, after *table.Table) publish.Objections {
	var old table.List
	if before != nil {
		old = before.Routes()
	}
	objections := make(publish.Objections)
	last, namespace, find := "", "", t.cfg.Namespaces()
	namespaceOf := func(id string) string {
		if id != last { // one route may have thousands of calls
			last, namespace = id, find(id)
		}
		return namespace
	}
	now := time.Now()
	for was, is := range table.Changes(old, after.Routes()) {
		if is == nil {
			continue
		}
		if o, objects := t.objection(is.ID, newCalls(was, is), namespaceOf, now); objects {
			objections[is.ID] = o
		}
	}
	t.mu.Lock()
	t.reviewed = now
	t.mu.Unlock()
	return objections
}

// Ask requests the trial of calls, and returns how many have no verdict yet.
func (t *Trial) Ask(calls []Call) (waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range calls {
		if _, known := t.known[c]; !known {
			waiting++
			t.request(c, "", oneNamespace, time.Time{})
		}
	}
	return waiting
}

// newCalls returns the calls of a route that it did not have before. was is nil for a new route.
func newCalls(was, is *table.Route) []Call {
	calls := CallsOf(slices.Values([]*table.Route{is}))
	if was == nil || len(calls) == 0 {
		return calls
	}
	old := CallsOf(slices.Values([]*table.Route{was}))
	return slices.DeleteFunc(calls, func(c Call) bool {
		_, found := slices.BinarySearchFunc(old, c, compareCalls)
		return found
	})
}

// CallsOf returns the distinct calls of routes of a table, sorted.
func CallsOf(routes iter.Seq[*table.Route]) []Call {
	seen := make(map[Call]bool)
	for r := range routes {
		if parsed, err := r.Parse(); err == nil {
			for _, c := range Calls(parsed) {
				seen[c] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), compareCalls)
}

// objection returns the most serious objection to the calls of a route.
func (t *Trial) objection(id string, calls []Call, namespaceOf func(id string) string, now time.Time) (worst publish.Objection, objects bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range calls {
		if o, found := t.objectionTo(c, id, namespaceOf, now); found && (!objects || o.MoreSerious(worst)) {
			worst, objects = o, true
		}
	}
	return worst, objects
}

// objectionTo returns the objection to a call, if there is one. The caller holds mu.
func (t *Trial) objectionTo(c Call, route string, namespaceOf func(id string) string, now time.Time) (o publish.Objection, objects bool) {
	o.Reason = publish.ReasonTrial
	v, known := t.known[c]
	if known {
		o.Detail = fmt.Sprintf("%s: %s", c, v)
		return o, v.Result != Accepted
	}
	a := t.request(c, route, namespaceOf, now)
	switch {
	case a != nil && t.suspected(a) && now.Sub(a.since) >= t.cfg.Timeout:
		o.Detail = fmt.Sprintf("%s: it waits, because the trial proxy did not survive a text of its namespace", c)
	case a != nil && a.lapsed:
		o.Detail, o.Lapsed = fmt.Sprintf("%s: the trial proxy does not answer", c), true
	default:
		o.Detail, o.Pending = fmt.Sprintf("%s: it is on trial", c), true
	}
	return o, true
}

// String describes what happened.
func (v Verdict) String() string {
	text := map[Result]string{
		Accepted: "the trial proxy accepts it", Refused: "the trial proxy refuses it", Died: "the trial proxy died",
		Hung: "the trial proxy hung", Grew: "the trial proxy grew",
	}[v.Result]
	if v.Words != "" {
		text += ": " + v.Words
	}
	return text
}

// Settle waits until all new calls of a table have verdicts or have waited too long: a starting process does not know the served
// versions of objects, so it must not keep what only waits. Without a table before, calls that still wait then lapse: all of them
// are new.
func (t *Trial) Settle(ctx context.Context, before, after *table.Table) {
	end := time.After(settleLimit * t.cfg.Timeout)
	for ctx.Err() == nil {
		objections := slices.Collect(maps.Values(t.Review(before, after)))
		if !slices.ContainsFunc(objections, func(o publish.Objection) bool { return o.Pending }) {
			return
		}
		select {
		case <-ctx.Done():
		case <-t.changed:
		case <-end:
			if before == nil {
				t.mu.Lock()
				t.lapse(func(*ask) bool { return true })
				t.mu.Unlock()
			}
			return
		}
	}
}

// settleLimit is how many timeouts a first table may wait: all of its calls may be new.
const settleLimit = 3

// Call is a filter or a predicate with its arguments, which a proxy creates when it loads a table. Equal calls of many routes are
// one.
type Call struct {
	Text      string `json:"text"` // such as compress(-1)
	Predicate bool   `json:"predicate,omitempty"`
}

// String returns the call as it is written in a route.
func (c Call) String() string { return c.Text }

// Calls returns the distinct calls of routes, sorted. It omits conditions on hosts, paths, methods and headers, which are data of
// the proxy's matcher and differ from route to route.
func Calls(routes ...*eskip.Route) []Call {
	var all []Call
	for _, r := range routes {
		for _, f := range r.Filters {
			all = append(all, Call{Text: f.String()})
		}
		for _, p := range eskip.Canonical(r).Predicates { // including those with a field in Route
			switch p.Name {
			case "Path", "PathSubtree", "Host", "HostAny", "Method", "Methods", "Header", "Weight", "True", "False", "Any", "*":
			default:
				all = append(all, Call{Text: p.String(), Predicate: true})
			}
		}
	}
	slices.SortFunc(all, compareCalls)
	return slices.Compact(all)
}

func (c Call) name() string {
	name, _, _ := strings.Cut(c.Text, "(")
	return name
}

// usable reports whether a request may pass the filter: it must not leave the container, to a backend or to a service of the
// filter, and the filter must not slow requests on purpose. Other filters are loaded but not exercised.
func (c Call) usable() bool {
	name := strings.ToLower(c.name())
	return !slices.ContainsFunc([]string{
		"tee", "webhook", "oauth", "oidc", "opa", "lua", "grant", "tokeninfo", "introspection", "dynamicbackend", "forwardtoken", "jwtvalidation",
		"latency", "tarpit", "chunks", "bandwidth", "randomcontent", "repeatcontent",
	}, func(word string) bool { return strings.Contains(name, word) })
}

func compareCalls(a, b Call) int {
	if a.Text == b.Text && a.Predicate != b.Predicate {
		return map[bool]int{false: -1, true: 1}[a.Predicate]
	}
	return strings.Compare(a.Text, b.Text)
}
