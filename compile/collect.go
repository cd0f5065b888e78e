package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/kube"
)

// problems collects the problems of a snapshot, sorted by owner.
func (r *Result) problems() []rules.Problem {
	a := r.all
	problems := append(snapshotProblems(r.Snapshot), a.view.Problems()...)
	for _, o := range a.objects {
		problems = append(problems, o.unit.Problems()...)
	}
	problems = append(problems, a.certificateProblems()...)
	problems = append(problems, a.catchAllProblems()...)
	problems = append(problems, a.eastWestProblems()...)
	problems = append(problems, a.fixed.Problems()...)
	problems = append(problems, a.claims.duplicates(everyone)...)
	problems = append(problems, a.claims.shadows(everyone)...)
	sortProblems(problems)
	return problems
}

// snapshotProblems returns the problems that the read found.
func snapshotProblems(s *kube.Snapshot) []rules.Problem {
	var problems []rules.Problem
	for _, b := range s.Bad {
		problems = append(problems, rules.BadObject(b))
	}
	if f := s.DefaultFilters; f != nil && f.Err != nil {
		problems = append(problems, rules.Problem{
			Reason: rules.DefaultFilters, Severity: rules.Error, Plain: true,
			Message: "could not fetch default filter configurations", Cause: f.Err.Error(),
		})
	}
	return problems
}

// certificateProblems reports for each accepted certificate whether it is the first or a newer one of its host.
func (a *assembly) certificateProblems() []rules.Problem {
	var problems []rules.Problem
	registry := make(map[string]time.Time)
	for _, o := range a.objects {
		for _, c := range o.unit.Certificates {
			verb := "adding certificate to registry"
			if before, ok := registry[c.Host]; ok {
				if !c.NotBefore.After(before) {
					continue
				}
				verb = "updating certificate in registry"
			}
			registry[c.Host] = c.NotBefore
			problems = append(problems, rules.Problem{
				Owner: o.Ref(), Reason: rules.TLSCertificate, Severity: rules.Info, Plain: true, Message: verb + " - " + c.Host,
			})
		}
	}
	return problems
}

// catchAllProblems returns the problems of the catch-alls, by route.
func (a *assembly) catchAllProblems() []rules.Problem {
	var problems []rules.Problem
	for _, h := range a.hosts {
		if h.catchAll != nil {
			problems = append(problems, h.catchAll.Problems()...)
		}
	}
	slices.SortFunc(problems, func(a, b rules.Problem) int {
		return cmp.Or(strings.Compare(a.Route, b.Route), strings.Compare(a.Message, b.Message))
	})
	return problems
}

// eastWestProblems reports the companions of default backends, with the numbers that the reference logs.
func (a *assembly) eastWestProblems() []rules.Problem {
	before, n := 0, 0
	for i := range a.sections {
		switch s := &a.sections[i]; s.rank {
		case fromIngress, fromHost:
			before += len(s.routes)
		case fromCompanions:
			n += len(s.routes)
		}
	}
	if n == 0 {
		return nil
	}
	return []rules.Problem{{
		Reason: rules.EastWestEnabled, Severity: rules.Info, Plain: true,
		Message: fmt.Sprintf("Enabled east west routes: %d %d %d %d", before, before+n, n, len(a.hosts)),
	}}
}

// sortProblems sorts by owner; the problems of one owner stay in the order of detection.
func sortProblems(ps []rules.Problem) {
	slices.SortStableFunc(ps, func(a, b rules.Problem) int { return a.Owner.Compare(b.Owner) })
}
