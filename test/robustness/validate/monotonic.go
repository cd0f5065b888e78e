package validate

import (
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// afterReset is how long after a restore of etcd a client may be moved from an earlier table to a later one.
const afterReset = 2 * time.Minute

// Monotonic: a client never moves to an older table, unless etcd was restored; and a table has nothing from after its revision,
// because the revision orders tables. The revision of a client's table is the one that the client names: a 304 can name a newer
// one, which Skipper ignores.
func Monotonic(h *history.History) []Violation { return alone(h, (*Index).monotonic) }

func (x *Index) monotonic() []Violation {
	all := x.fromFindings(NameMonotonic, func(_ *sighting, f finding) bool { return f.fault == future })
	type held struct {
		digest   string
		revision uint64
		since    time.Duration
	}
	now := make(map[string]held)
	resets := x.resets()
	for _, i := range x.byEnd() {
		a := &x.h.Answers[i]
		digest, revision, ok := tag(a)
		if !has(a) || !ok || digest != a.Digest || revision == 0 {
			continue
		}
		if m := x.members[a.Client]; m != nil && m.Mortal && a.Base == "" {
			delete(now, a.Client) // another process
		}
		was, known := now[a.Client]
		if named, of, ok := base(a); ok && (!known || named == was.digest) {
			was.digest, was.revision, known = named, of, true
		}
		next := held{digest, revision, a.End}
		if known && was.digest == digest {
			next.revision = max(was.revision, revision)
			if revision < was.revision && resetBetween(resets, was.since, a.End) {
				next.revision = revision
			}
		}
		if known && revision < was.revision && was.digest != digest && !resetBetween(resets, was.since, a.End) {
			all = append(all, Violation{NameMonotonic, a.End, a.Client, i, fmt.Sprintf(
				"%s sent table %s of revision %d to a client that had %s of revision %d", a.Server, short(digest), revision, short(was.digest), was.revision)})
		}
		now[a.Client] = next
	}
	return all
}

// resetBetween reports whether a table that a client had since a time may be from before a restore.
func resetBetween(resets []time.Duration, since, until time.Duration) bool {
	return slices.ContainsFunc(resets, func(r time.Duration) bool { return since <= r+afterReset && until >= r })
}

// byEnd returns the indexes of the answers, ordered by end.
func (x *Index) byEnd() []int {
	all := make([]int, len(x.h.Answers))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return int(x.h.Answers[a].End - x.h.Answers[b].End) })
	return all
}
