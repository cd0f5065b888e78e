// Package admission answers the API server before an Ingress or a RouteGroup is stored: what the compiler would say of the object
// comes back as a refusal or as warnings, in the same words and by the same code as /problems.
//
// A [Judge] holds the latest snapshot of the cluster and judges one object against it; the handler speaks
// admission.k8s.io/v1; a [Server] joins both with a source and two listeners.
//
// # What is refused
//
// Only what its author alone can mend, and only when it gets worse: an object is refused for a problem of severity error that
// depends on nothing but the object, if the object which it replaces has fewer problems of this reason. All other problems are warnings. An
// Ingress may be there before its Service, and nobody must be kept from changing a label of an object that was broken before.
//
// # Failing open
//
// Whatever the webhook does not know, it lets pass. Before the first snapshot objects are judged alone. A request that it cannot
// read, or a panic, is an error to the API server, and the failurePolicy of its configuration decides; the manifests have Ignore.
package admission

import (
	"errors"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/kube"
)

// Judge says what an object would become. It is safe for concurrent use.
type Judge struct {
	scope Scope
	alone *compile.Compiler // without a snapshot; guarded by aloneMu

	aloneMu sync.Mutex
	mu      sync.Mutex
	cluster *compile.Compiler // of the latest snapshot; guarded by mu
	options compile.Options
	known   bool // that there is a snapshot; guarded by mu
}

// Scope is which objects the route server reads at all.
type Scope struct {
	Namespace string                          // empty means all
	Selectors map[kube.Kind]map[string]string // labels by kind: equality, or mere presence if the value is empty
}

// NewJudge makes a judge with the options of the route server. The error names the option that cannot be used.
func NewJudge(o compile.Options, scope Scope) (*Judge, error) {
	alone, err := compile.New(o)
	if err != nil {
		return nil, err
	}
	cluster, err := compile.New(o)
	if err != nil {
		return nil, err
	}
	return &Judge{scope: scope, alone: alone, cluster: cluster, options: o}, nil
}

// Take makes a snapshot the one that objects are judged against. If the compiler panics, the snapshot is left out and the panic
// goes on: the next one is compiled anew.
func (j *Judge) Take(s *kube.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	done := false
	defer func() {
		if done {
			return
		}
		j.known = false
		if fresh, err := compile.New(j.options); err == nil { // they were good enough for NewJudge
			j.cluster = fresh
		}
	}()
	j.cluster.Compile(s)
	j.known, done = true, true
}

// Ready reports whether there is a snapshot.
func (j *Judge) Ready() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known
}

// Verdict is the answer about one object.
type Verdict struct {
	// Skipped says that the route server does not take the object.
	Skipped bool
	// Refused are the problems for which it is refused; none means that it is admitted. Warnings are the other problems, of
	// severity warning and error.
	Refused, Warnings []compile.Problem
}

// Review judges an object, in JSON, that would take the place of old, which is empty for one that is new. The kind is
// [kube.KindIngress] or [kube.KindRouteGroup].
func (j *Judge) Review(kind kube.Kind, object, old []byte) (Verdict, error) {
	now, err := j.try(kind, object)
	if err != nil || now.Skipped {
		return Verdict{Skipped: now.Skipped}, err
	}
	var had []compile.Problem
	if len(old) > 0 {
		before, err := j.try(kind, old)
		if err != nil {
			return Verdict{}, err
		}
		had = before.Problems
	}
	var v Verdict
	for _, p := range now.Problems {
		if p.Severity == compile.Error && !p.Reason.Info().Elsewhere && count(now.Problems, p.Reason) > count(had, p.Reason) && !has(had, p) {
			v.Refused = append(v.Refused, p)
		} else {
			v.Warnings = append(v.Warnings, p)
		}
	}
	return v, nil
}

// count is how many of the problems have the reason.
func count(all []compile.Problem, reason compile.Reason) int {
	n := 0
	for _, p := range all {
		if p.Reason == reason {
			n++
		}
	}
	return n
}

// has reports whether the same thing was wrong before, in whatever words.
func has(all []compile.Problem, p compile.Problem) bool {
	for _, q := range all {
		if q.Reason == p.Reason && q.Route == p.Route {
			return true
		}
	}
	return false
}

// try gives what an object would compile to.
func (j *Judge) try(kind kube.Kind, text []byte) (compile.Trial, error) {
	o, err := kube.DecodeJSON(kind, text)
	if err != nil {
		return compile.Trial{Problems: []compile.Problem{undecodable(kind, text, err)}}, nil
	}
	if !j.scope.takes(kind, o) {
		return compile.Trial{Skipped: true}, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.known {
		return j.cluster.Try(o)
	}
	return j.tryAlone(o)
}

// undecodable is the problem that the reader of the cluster would report.
func undecodable(kind kube.Kind, text []byte, err error) compile.Problem {
	bad := kube.BadObject{Ref: kube.SalvageRef(kind, text), Err: err}
	if d := (*kube.DecodeError)(nil); errors.As(err, &d) {
		bad.Ref = d.Ref
	}
	return compile.BadObject(bad)
}

// takes reports whether the route server reads the object.
func (s Scope) takes(kind kube.Kind, o kube.Object) bool {
	var m *kube.Meta
	switch of := o.(type) {
	case *kube.Ingress:
		m = &of.Meta
	case *kube.RouteGroup:
		m = &of.Meta
	}
	if m == nil || s.Namespace != "" && kube.NamespaceOrDefault(m.Namespace) != s.Namespace {
		return false
	}
	for key, want := range s.Selectors[kind] {
		if got, ok := m.Labels[key]; !ok || want != "" && got != want {
			return false
		}
	}
	return true
}

// tryAlone leaves out what depends on objects that are not known yet.
func (j *Judge) tryAlone(o kube.Object) (compile.Trial, error) {
	j.aloneMu.Lock()
	defer j.aloneMu.Unlock()
	t, err := j.alone.Try(o)
	own := t.Problems[:0]
	for _, p := range t.Problems {
		if !p.Reason.Info().Elsewhere {
			own = append(own, p)
		}
	}
	t.Problems = own
	return t, err
}

// text is a problem in one line, for whoever wrote the object.
func text(p compile.Problem) string {
	return string(p.Reason) + ": " + strings.Join(strings.Fields(p.Text()), " ")
}
