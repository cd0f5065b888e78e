package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/publish"
)

const (
	// manyTaken is how many routes must have lost requests to other namespaces within an hour.
	manyTaken = 20
	// replicaSkew is how much earlier than here another replica may have published the same change: the time of a rollback is before both.
	replicaSkew = 10 * time.Second
)

// warned returns conditions that need an operator: lost hosts, crashed proxies, and takeovers of many routes.
func (s *Server) warned(dying int) (all []api.Warning) {
	if lost := s.publisher.Holding().Lost; lost.Share() > publish.WarnLost {
		w := api.Warning{What: api.WarnLost, Since: lost.Since.UTC()}
		changes, scope := s.lossChanges(lost.Since)
		w.Text = fmt.Sprintf("%.0f %% of hosts lost since %s, published (%d of %d); last change: %s", 100*lost.Share(), clock(lost.Since), lost.Hosts, lost.Of, changes)
		w.Command = "rollback --to " + s.before(lost.Since) + scope + " --why REASON"
		all = append(all, w)
	}
	if dying > 0 {
		all = append(all, api.Warning{
			What: api.WarnDeaths, Command: "clients",
			Text: fmt.Sprintf("the proxies of %d clients died of new tables; last change: %s", dying, s.lastChange()),
		})
	}
	if s.reviews != nil {
		all = append(all, s.warnTakeovers()...)
	}
	return all
}

// lossChanges returns the latest changes since a time, and the objects of a rollback.
func (s *Server) lossChanges(since time.Time) (what, scope string) {
	if s.history == nil {
		return "unknown", " --all"
	}
	entries := s.history.Entries(since, maxShown, func(e *api.HistoryEntry) bool { return e.Count > 0 })
	if len(entries) == 0 {
		return "unknown", " --all"
	}
	deleted, others, namespaces := 0, 0, make(map[string]bool)
	for _, e := range entries {
		others += e.Count - len(e.Changes)
		for _, c := range e.Changes {
			if c.What == api.ObjectDeleted {
				deleted++
				namespaces[c.Namespace] = true
			}
		}
	}
	largest := slices.MaxFunc(entries, func(a, b api.HistoryEntry) int { return cmp.Compare(a.Removed, b.Removed) })
	what = changeWords(&largest)
	if deleted > 0 {
		scope = " --deleted"
	}
	if len(namespaces) == 1 && others == 0 {
		for ns := range namespaces {
			return what, scope + " -n " + ns
		}
	}
	return what, scope + " --all"
}

// changeWords describes what an entry changed and who changed it. A deletion has no author.
func changeWords(e *api.HistoryEntry) string {
	c := e.Changes[0]
	if i := slices.IndexFunc(e.Changes, func(c api.HistoryChange) bool { return c.What == api.ObjectDeleted }); i >= 0 {
		c = e.Changes[i]
	}
	more := ""
	if e.Count > 1 {
		more = fmt.Sprintf(" and %d more", e.Count-1)
	}
	return fmt.Sprintf("%s%s %s by %s", c.Ref, more, c.What, cmp.Or(managerOf(c.By), "unknown"))
}

// lastChange returns the newest change, in words.
func (s *Server) lastChange() string {
	if c := s.newestChange(); c != nil {
		return fmt.Sprintf("%s by %s at %s", c.Object, cmp.Or(c.By, "unknown"), clock(c.At))
	}
	return "unknown"
}

// warnTakeovers returns a warning about the object that took requests of the most routes of other namespaces, if these are many.
func (s *Server) warnTakeovers() []api.Warning {
	taken, total := make(map[kube.Ref]int), 0
	var worst api.Takeover
	for _, t := range s.reviews.takeovers.last() {
		if t.From.Namespace == t.To.Namespace {
			continue
		}
		total += t.Lost
		if taken[t.To] += t.Lost; taken[t.To] > taken[worst.To] || t.To == worst.To {
			worst = t
		}
	}
	if total < manyTaken {
		return nil
	}
	by := "unknown"
	if in, ok := s.reviews.takeovers.inspect(worst.To); ok {
		by = cmp.Or(managerOf(in.Object.Metadata().Changed), by)
	}
	return []api.Warning{{
		What: api.WarnTakeovers, Since: worst.At,
		Text:    fmt.Sprintf("%d routes lost requests to other namespaces since %s, published, such as %s; last change: %s by %s", total, clock(worst.At), worst.Example, worst.To, by),
		Command: "rollback --to " + s.before(worst.At) + fmt.Sprintf(" --object %s/%s/%s --why REASON", worst.To.Kind, worst.To.Namespace, worst.To.Name),
	}}
}

// before returns a time before a change, for a rollback: earlier by the skew between replicas, as far as the history goes back.
func (s *Server) before(change time.Time) string {
	at := change.Add(-replicaSkew).Truncate(time.Second)
	if s.history != nil {
		if first, ok := s.history.At(at); !ok {
			for _, e := range s.history.Entries(time.Time{}, maxShown, func(e *api.HistoryEntry) bool { return e.At.Before(change) }) {
				first = e
			}
			if !first.At.IsZero() {
				at = first.At
			}
		}
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// managerOf returns the field manager of a change, as in kube.Meta.
func managerOf(changed string) string {
	_, manager, _ := strings.Cut(changed, " ")
	return manager
}

func clock(at time.Time) string { return at.UTC().Format("15:04") }
