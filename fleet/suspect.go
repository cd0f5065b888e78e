package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Suspect is a table that probably crashed the proxy of a client, as reported by the client.
type Suspect struct {
	Digest table.Digest `json:"digest"`
	// Proven is the table that the proxy gets instead; zero if it has none. The flaw is in the difference between the two.
	Proven table.Digest `json:"proven,omitzero"`
	Deaths int          `json:"deaths"`
	// Evidence is the evidence of the last death, human-readable.
	Evidence string  `json:"evidence,omitempty"`
	Ago      float64 `json:"ago_seconds,omitempty"` // since the client fell back

	reported time.Time // when it was last reported
}

// SuspectTable is a table that probably crashed proxies of the fleet. It is only shown and has no effect.
type SuspectTable struct {
	Digest table.Digest `json:"digest"`
	// Clients is how many live clients have reported it, and Deaths is the sum of their reported deaths.
	Clients int `json:"clients"`
	Deaths  int `json:"deaths"`
	// Example is the longest-known of these clients, and Evidence is its evidence.
	Example  string    `json:"example"`
	Evidence string    `json:"evidence"`
	Last     time.Time `json:"last"` // death
}

const (
	// SuspectFor is how long a suspect is shown after its last report. Nothing ends that earlier: everyone can send reports.
	SuspectFor = 10 * time.Minute
	// maxSuspectTables limits the list. Tables of the longest-known clients take precedence, because new ids are easily invented.
	maxSuspectTables = 16
)

// checkSuspects rejects suspects that none of our clients reports, and makes texts safe to store and to show.
func checkSuspects(list []Suspect) error {
	if len(list) > maxSuspects {
		return fmt.Errorf("suspects: must be at most %d", maxSuspects)
	}
	for i := range list {
		s := &list[i]
		s.Evidence = printable(s.Evidence, maxReason)
		if s.Digest.IsZero() || s.Deaths < 1 || s.Deaths > 1e6 || !isAge(s.Ago) {
			return errors.New("suspects: must have a digest, a positive number of deaths, and seconds from 0 to a year")
		}
	}
	return nil
}

// sameSuspects reports whether two reports contain the same deaths, ignoring the time since then.
func sameSuspects(a, b []Suspect) bool {
	return slices.EqualFunc(a, b, func(a, b Suspect) bool { return a.Digest == b.Digest && a.Deaths == b.Deaths })
}

// addSuspects adds reported suspects to those of earlier reports, at most maxSuspects.
func (c *client) addSuspects(list []Suspect, now time.Time) {
	kept := slices.DeleteFunc(slices.Clone(c.Suspects), func(s Suspect) bool { return s.over(now) })
	for _, s := range list {
		s.reported = now
		if i := slices.IndexFunc(kept, func(k Suspect) bool { return k.Digest == s.Digest }); i >= 0 {
			kept[i] = s
		} else if len(kept) < maxSuspects {
			kept = append(kept, s)
		}
	}
	c.Suspects, c.mentioned = kept, len(list) > 0
}

func (s Suspect) over(now time.Time) bool { return now.Sub(s.reported) >= SuspectFor }

func (c *client) showSuspects(now time.Time) (list []Suspect) {
	for _, s := range c.Suspects {
		if !s.over(now) {
			s.Ago += now.Sub(s.reported).Seconds()
			list = append(list, s)
		}
	}
	return list
}

// suspectTables adds up the suspects of the clients that are not silent, starting with the longest-known clients.
func suspectTables(clients []Client, at time.Time) []SuspectTable {
	clients = slices.DeleteFunc(slices.Clone(clients), func(c Client) bool { return len(c.Suspects) == 0 || c.State == Silent })
	slices.SortFunc(clients, func(a, b Client) int { return cmp.Or(a.FirstHeard.Compare(b.FirstHeard), cmp.Compare(a.ID, b.ID)) })
	var list []SuspectTable
	for _, c := range clients {
		for _, s := range c.Suspects {
			i := slices.IndexFunc(list, func(t SuspectTable) bool { return t.Digest == s.Digest })
			if i < 0 {
				if i = len(list); i == maxSuspectTables {
					continue
				}
				list = append(list, SuspectTable{Digest: s.Digest, Example: c.ID, Evidence: s.Evidence})
			}
			t, died := &list[i], at.Add(-seconds(s.Ago))
			if died.After(t.Last) {
				t.Last = died
			}
			t.Clients++
			t.Deaths += s.Deaths
		}
	}
	return list
}

// Dying returns how many live clients of this replica have reported within [SuspectFor] that a table crashed their proxy.
func (r *Registry) Dying() (n int) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		if r.dying(c, now) {
			n++
		}
	}
	return n
}

// recoveredAfter is how long a client must hold the newest table, and report no suspect, to have recovered.
const recoveredAfter = time.Minute

// dying reports whether the client is live, has suspects, and has not recovered. The caller holds mu.
func (r *Registry) dying(c *client, now time.Time) bool {
	if c.silent(now) || !c.counts() || len(c.showSuspects(now)) == 0 {
		return false
	}
	versions, _ := r.lag(c, now)
	return c.mentioned || versions != 0 || c.Holds == nil || now.Sub(c.Holds.Since) < recoveredAfter
}
