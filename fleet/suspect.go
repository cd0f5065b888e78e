package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Suspect is a table of which the proxy of a client probably died, as the client reports it.
type Suspect struct {
	Digest table.Digest `json:"digest"`
	// Proven is the table that the proxy has instead; zero if it has none. The flaw is in the difference between the two.
	Proven table.Digest `json:"proven,omitzero"`
	Deaths int          `json:"deaths"`
	// Evidence is what showed the last death, for people.
	Evidence string  `json:"evidence,omitempty"`
	Ago      float64 `json:"ago_seconds,omitempty"` // since the last death
	// Clients is how many clients of a relay report it; 0 for a client that reports for itself.
	Clients int `json:"clients,omitempty"`
}

// SuspectTable is a table of which proxies of the fleet probably died.
type SuspectTable struct {
	Digest table.Digest `json:"digest"`
	// Proven are the tables that these proxies have instead, at most [maxProven]: a flaw is in what is new beside all of them.
	Proven []table.Digest `json:"proven,omitempty"`
	// Clients is how many clients report it, and Deaths is the sum of theirs.
	Clients int `json:"clients"`
	Deaths  int `json:"deaths"`
	// Example is one of the clients, and Evidence is what it reports.
	Example  string    `json:"example"`
	Evidence string    `json:"evidence"`
	First    time.Time `json:"first"` // the first of the last deaths
	Last     time.Time `json:"last"`
	// Confirmed means that enough clients report it, or another table at most [SuspectWindow] earlier or later, to act for all:
	// [SuspectClients], or [SuspectShare] of the clients if that is more.
	Confirmed bool `json:"confirmed"`
}

// How many clients must report a suspect table before a server acts on it. One proxy may die of its machine.
const (
	SuspectClients = 2
	SuspectShare   = 1 // percent of the clients that are not silent
	// SuspectWindow is how far apart proxies may have died of the same flaw. Where each read gives another table, they rarely have the same one.
	SuspectWindow = 2 * time.Minute
)

// Limits of a list of suspect tables.
const (
	maxSuspectTables = 16 // those of most clients
	maxProven        = 4
)

// checkSuspects rejects suspects that none of our clients reports, and makes texts safe to store and to show.
func checkSuspects(list []Suspect) error {
	if len(list) > maxSuspects {
		return fmt.Errorf("suspects: want at most %d", maxSuspects)
	}
	for i := range list {
		s := &list[i]
		s.Evidence = printable(s.Evidence, maxReason)
		if s.Digest.IsZero() || s.Deaths < 1 || s.Deaths > 1e6 || s.Clients < 0 || s.Clients > 1e6 || !isAge(s.Ago) {
			return errors.New("suspects: want a digest, a positive number of deaths, a number of clients, and seconds from 0 to a year")
		}
	}
	return nil
}

// sameSuspects reports whether two reports tell of the same deaths: the time since then does not count.
func sameSuspects(a, b []Suspect) bool {
	return slices.EqualFunc(a, b, func(a, b Suspect) bool { return a.Digest == b.Digest && a.Deaths == b.Deaths })
}

// Suspects returns the tables of which proxies of this replica's clients probably died, those of most clients first. It is empty while all is
// well, and costs little. Other replicas know other clients: see View.Suspects.
func (r *Registry) Suspects() []SuspectTable {
	now := r.cfg.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspects(now)
}

// suspects is Suspects. The caller holds mu.
func (r *Registry) suspects(now int64) []SuspectTable {
	var s suspects
	live := 0
	for _, c := range r.clients {
		if c.silent(now) || !c.counts() {
			continue
		}
		live++
		if c.report != nil {
			s.add(c.key, c.report.said().suspects, timeOf(c.report.at))
		}
	}
	return s.list(live)
}

// SuspectReport returns what a relay reports about its clients: the suspect tables of most of them.
func (r *Registry) SuspectReport() []Suspect {
	now := r.cfg.Now()
	var all []Suspect
	for _, t := range r.Suspects() {
		s := Suspect{Digest: t.Digest, Deaths: t.Deaths, Evidence: t.Evidence, Ago: max(0, now.Sub(t.Last).Seconds()), Clients: t.Clients}
		if len(t.Proven) > 0 {
			s.Proven = t.Proven[0]
		}
		if all = append(all, s); len(all) == maxSuspects {
			break
		}
	}
	return all
}

// suspects collects suspect tables. The zero value is empty.
type suspects struct {
	tables  map[table.Digest]*SuspectTable
	reports []suspicion
}

// suspicion is a report of one client, or of several ones from a relay.
type suspicion struct {
	client  string
	clients int
	digest  table.Digest
	died    time.Time
}

// add adds the suspects that a client reported at a time.
func (all *suspects) add(client string, list []Suspect, at time.Time) {
	for _, s := range list {
		if all.tables == nil {
			all.tables = make(map[table.Digest]*SuspectTable)
		}
		t := all.tables[s.Digest]
		if t == nil {
			t = &SuspectTable{Digest: s.Digest, Example: client, Evidence: s.Evidence}
			all.tables[s.Digest] = t
		}
		if client < t.Example { // the same example on every replica
			t.Example, t.Evidence = client, s.Evidence
		}
		died := at.Add(-seconds(s.Ago))
		if t.First.IsZero() || died.Before(t.First) {
			t.First = died
		}
		if died.After(t.Last) {
			t.Last = died
		}
		if !s.Proven.IsZero() && !slices.Contains(t.Proven, s.Proven) && len(t.Proven) < maxProven {
			t.Proven = append(t.Proven, s.Proven)
		}
		t.Clients += max(1, s.Clients)
		t.Deaths += s.Deaths
		all.reports = append(all.reports, suspicion{client, max(1, s.Clients), s.Digest, died})
	}
}

// list returns the tables of most clients, given how many clients are live.
func (all *suspects) list(live int) []SuspectTable {
	var list []SuspectTable
	for _, t := range all.tables {
		slices.SortFunc(t.Proven, func(a, b table.Digest) int { return slices.Compare(a[:], b[:]) })
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b SuspectTable) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), b.Last.Compare(a.Last), slices.Compare(a.Digest[:], b.Digest[:]))
	})
	list = list[:min(len(list), maxSuspectTables)]
	for i := range list {
		list[i].Confirmed = all.around(&list[i]) >= max(SuspectClients, needed(live, SuspectShare))
	}
	return list
}

// around returns how many clients suspect a table, or another one at about the same time.
func (all *suspects) around(t *SuspectTable) (n int) {
	clients := make(map[string]int)
	for _, r := range all.reports {
		if r.digest == t.Digest || r.died.After(t.First.Add(-SuspectWindow)) && r.died.Before(t.Last.Add(SuspectWindow)) {
			clients[r.client] = max(clients[r.client], r.clients)
		}
	}
	for _, c := range clients {
		n += c
	}
	return n
}
