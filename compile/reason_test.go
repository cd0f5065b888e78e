package compile_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// TestElsewhere: an error whose reason does not come from elsewhere stays as long as its object does, whatever else is added or
// removed, so a change can be rejected for it. Errors of the other reasons can come and go.
func TestElsewhere(t *testing.T) {
	p := newPool(t)
	// These can be the fault of the object itself, or of the type, the default filters or the addresses of a Service.
	mixed := []rules.Reason{rules.BackendRefused, rules.WouldCrashProxy, rules.NotParsable}
	changed := make(map[rules.Reason]bool) // while the object was unchanged
	for seed := range uint64(160) {
		r := rand.New(rand.NewPCG(seed, 11))
		options := p.cases[r.IntN(len(p.cases))].options
		compiler := mustCompiler(t, options)
		s := distinctNames(p.cases[r.IntN(len(p.cases))].snapshot)
		before := compiler.Compile(s)
		for step := range 60 {
			next := distinctNames(p.mutate(r, s))
			after := compiler.Compile(next)
			for _, o := range unchanged(s, next) {
				was, is := before.ProblemsOf(o.Ref()), after.ProblemsOf(o.Ref())
				for _, problem := range slices.Concat(was, is) {
					if slices.Contains(was, problem) && slices.Contains(is, problem) {
						continue
					}
					changed[problem.Reason] = true
					if problem.Severity == rules.Error && !problem.Reason.Info().Elsewhere && !slices.Contains(mixed, problem.Reason) {
						t.Errorf("seed %d, step %d: %s: %s has come or gone without a change of the object: %s", seed, step, o.Ref(), problem.Reason, problem)
					}
				}
			}
			s, before = next, after
		}
	}
	for _, info := range rules.Reasons() {
		// The first does not depend on objects, and the walk does not change options; no cluster is known that causes the second. The third is about
		// ConfigMaps, which are not compiled.
		fromOptions := info.Reason == rules.ProcessingFailed || info.Reason == rules.InternalError
		if info.Severity == rules.Error && info.Elsewhere != changed[info.Reason] && !fromOptions && !slices.Contains(mixed, info.Reason) {
			t.Errorf("%s: elsewhere is %t, seen to come or go %t", info.Reason, info.Elsewhere, changed[info.Reason])
		}
	}
}

// unchanged returns the objects that are in both snapshots.
func unchanged(s, next *kube.Snapshot) []kube.Object {
	var all []kube.Object
	for _, i := range next.Ingresses {
		if slices.Contains(s.Ingresses, i) {
			all = append(all, i)
		}
	}
	for _, g := range next.RouteGroups {
		if slices.Contains(s.RouteGroups, g) {
			all = append(all, g)
		}
	}
	return all
}
