package robustness

import (
	"context"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
)

// Shrink reduces a failing plan while it still fails: it removes faults, first all with a name, then all on a link, then halves
// of the rest; then clients, then processes and operators. fails runs a plan; it should repeat a plan that fails only sometimes.
// Shrink ends when nothing more can be removed, or with ctx, and returns the smallest plan that failed.
func Shrink(ctx context.Context, p *plan.Plan, fails func(context.Context, *plan.Plan) bool) *plan.Plan {
	s := &shrinker{ctx: ctx, fails: fails}
	for before := -1; before != s.size(p) && ctx.Err() == nil; {
		before = s.size(p)
		p = s.faults(p)
		p = s.members(p)
		if smaller := *p; len(p.Steps) > 0 {
			smaller.Steps = nil
			p = s.better(p, &smaller)
		}
		if smaller := *p; p.Mass > 0 {
			smaller.Mass = 0
			p = s.better(p, &smaller)
		}
	}
	return p
}

type shrinker struct {
	ctx   context.Context
	fails func(context.Context, *plan.Plan) bool
}

func (s *shrinker) size(p *plan.Plan) int { return len(p.Faults) + len(p.Members) + len(p.Steps) }

// better returns the smaller plan if it fails, else the other one.
func (s *shrinker) better(p, smaller *plan.Plan) *plan.Plan {
	if s.ctx.Err() == nil && s.fails(s.ctx, smaller) && s.ctx.Err() == nil {
		return smaller
	}
	return p
}

func (s *shrinker) faults(p *plan.Plan) *plan.Plan {
	if len(p.Faults) == 0 {
		return p
	}
	p = s.better(p, p.WithFaults(nil))
	for _, of := range []func(plan.Fault) string{
		func(f plan.Fault) string { return f.Name },
		func(f plan.Fault) string { return f.Link },
	} {
		var groups []string
		for _, f := range p.Faults {
			if !slices.Contains(groups, of(f)) {
				groups = append(groups, of(f))
			}
		}
		for _, g := range groups {
			p = s.better(p, p.WithFaults(slices.DeleteFunc(slices.Clone(p.Faults), func(f plan.Fault) bool { return of(f) == g })))
		}
	}
	for n := len(p.Faults) / 2; n > 0; n /= 2 {
		for at := 0; at < len(p.Faults); {
			rest := slices.Delete(slices.Clone(p.Faults), at, min(at+n, len(p.Faults)))
			if smaller := s.better(p, p.WithFaults(rest)); smaller != p {
				p = smaller
			} else {
				at += n
			}
		}
	}
	return p
}

func (s *shrinker) members(p *plan.Plan) *plan.Plan {
	names := func(keep func(history.Member) bool) (out []string) {
		for _, m := range p.Members {
			if keep(m) {
				out = append(out, m.Name)
			}
		}
		return out
	}
	behind := func(m history.Member) bool { return strings.HasPrefix(m.Name, "p-") }
	process := func(m history.Member) bool {
		return m.Kind == history.Server || m.Kind == history.Relay || m.Kind == history.Sidecar
	}
	for _, kind := range []string{history.Stream, history.Delta, history.Poller} {
		p = s.better(p, p.Without(names(func(m history.Member) bool { return m.Kind == kind && !behind(m) })...))
	}
	clients := names(func(m history.Member) bool { return !process(m) && !behind(m) })
	for n := len(clients) / 2; n > 0; n /= 2 {
		for at := 0; at < len(clients); {
			end := min(at+n, len(clients))
			if smaller := s.better(p, p.Without(clients[at:end]...)); smaller != p {
				p, clients = smaller, slices.Delete(clients, at, end)
			} else {
				at += n
			}
		}
	}
	for _, name := range names(process) {
		smaller := p.Without(name)
		if len(smaller.Members) < len(p.Members) && slices.ContainsFunc(smaller.Members, func(m history.Member) bool { return m.Kind == history.Server }) {
			p = s.better(p, smaller)
		}
	}
	return p
}
