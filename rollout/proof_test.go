package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

// proofRun runs the lines of a story. Each is a number of seconds and an event:
//
//	serve T     table T is offered to the proxy
//	read S A R  its metrics: started at second S, applied a table at second A (-: unknown), R rejected routes
//	tick        time has passed
//	restart     the data plane is restarted with its stored state
//	lose        the same, but its state was lost
//	file T      the last-known-good file has T
type proofRun struct {
	t     *testing.T
	known bool
	p     *rollout.Proof
	died  int
}

func tableNamed(name string) table.Digest {
	var d table.Digest
	copy(d[:], name)
	return d
}

func nameOf(d table.Digest) string { return strings.TrimRight(string(d[:]), "\x00") }

var proofStart = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func second(text string) time.Time {
	if text == "-" {
		return time.Time{}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return proofStart.Add(time.Duration(n * float64(time.Second)))
}

func (r *proofRun) line(line string) {
	r.t.Helper()
	f := strings.Fields(line)
	now := second(f[0])
	switch f[1] {
	case "serve":
		r.p.Offer(now, tableNamed(f[2]))
	case "read":
		n, err := strconv.ParseUint(f[4], 10, 32)
		if err != nil {
			r.t.Fatal(err)
		}
		if r.p.Read(now, second(f[2]), second(f[3]).Truncate(time.Second), n) {
			r.died++
		}
	case "tick":
		r.p.Tick(now)
	case "restart":
		text, err := json.Marshal(r.p.State())
		if err != nil {
			r.t.Fatal(err)
		}
		var s rollout.ProofState
		if err := json.Unmarshal(text, &s); err != nil {
			r.t.Fatal(err)
		}
		r.p, r.known = rollout.NewProof(now, s), true
	case "lose":
		r.p, r.known = rollout.NewProof(now, rollout.ProofState{}), false
	case "file":
		r.p.Restored(tableNamed(f[2]), r.known)
	default:
		r.t.Fatalf("unknown event %q", line)
	}
}

func (r *proofRun) result() string {
	s := r.p.State()
	text := "proven " + nameOf(s.Proven)
	if r.died > 0 {
		text += fmt.Sprintf(", died %d", r.died)
	}
	if x := s.Suspect; x != nil {
		text += fmt.Sprintf(", suspect %s, retry %d at %.0f", nameOf(x.Digest), x.Retries, x.Retry.Sub(proofStart).Seconds())
	}
	return text
}

// runs is a proxy that proves A until second 31.
const runs = "0 serve A; 1 read -9 1 0; 31 read -9 1 0; "

// falls is the same proxy, which dies twice of B. At second 45 a fallback starts.
const falls = runs + "40 serve B; 43 read 42 42 0; 45 read 44 44 0; 45 serve A; "

// cleared is the same proxy, which dies of A, too. excused repeats that.
const (
	cleared = falls + "48 read 47 47 0; 51 read 50 50 0; 51 serve B; "
	excused = cleared + "55 read 54 54 0; 58 read 57 57 0; 58 serve A; 61 read 60 60 0; 65 read 64 64 0; 65 serve B; "
)

func TestProof(t *testing.T) {
	for name, test := range map[string]struct{ story, want string }{
		"30 s with a table":                          {runs, "proven A"},
		"29 s are too short":                         {"0 serve A; 1 read -9 1 0; 30 read -9 1 0", "proven "},
		"the proxy has not applied the table":        {"5 serve A; 6 read -9 1 0; 60 read -9 1 0", "proven "},
		"a restart begins again":                     {"0 serve A; 1 read -9 1 0; 20 read 19 19 0; 49 read 19 19 0", "proven , died 1"},
		"and ends":                                   {"0 serve A; 1 read -9 1 0; 20 read 19 19 0; 50 read 19 19 0", "proven A, died 1"},
		"the next table keeps the one before":        {runs + "33 serve B; 34 read -9 34 0; 63 read -9 34 0", "proven A"},
		"until it is proven":                         {runs + "33 serve B; 34 read -9 34 0; 64 read -9 34 0", "proven B"},
		"a table that every poll replaces is proven": {runs + "33 serve B; 34 read -9 34 0; 36 serve C; 63 serve D; 64 read -9 64 0", "proven B"},
		"and then the one that it has":               {runs + "33 serve B; 34 read -9 34 0; 36 serve C; 63 serve D; 64 read -9 64 0; 65 read -9 64 0; 95 read -9 64 0", "proven D"},
		"back to the proven table ends the trial":    {runs + "33 serve B; 34 read -9 34 0; 36 serve A; 90 read -9 37 0", "proven A"},
		"without metrics, time proves":               {"0 serve A; 30 tick", "proven A"},
		"without metrics, too early":                 {"0 serve A; 29 tick", "proven "},
		"with metrics, time does not prove":          {"0 serve A; 1 read -9 -300 0; 300 tick", "proven "},
		"unless they cannot be read for long":        {"0 serve A; 1 read -9 -300 0; 602 tick", "proven A"},
		"metrics without a start time":               {"0 serve A; 1 read - 1 0; 31 read - 1 0", "proven A"},

		"one restart":                          {runs + "33 serve B; 36 read 35 35 0", "proven A, died 1"},
		"two restarts":                         {falls, "proven A, died 2, suspect B, retry 0 at 105"},
		"two restarts, 119 s apart":            {runs + "33 serve B; 36 read 34 34 0; 154 read 153 153 0", "proven A, died 2, suspect B, retry 0 at 214"},
		"two restarts that are far apart":      {runs + "33 serve B; 36 read 34 34 0; 40 serve C; 156 read 155 155 0", "proven A, died 2"},
		"long after it was offered":            {runs + "33 serve B; 34 read -9 34 1; 200 read 199 199 1; 205 read 204 204 1", "proven A"},
		"restarts before it was offered":       {runs + "32 read 31 31 0; 33 serve B; 34 read 31.4 32 0; 35 read 31.4 33 0", "proven A"},
		"restarts with the proven table":       {runs + "33 read 32 32 0; 36 read 35 35 0; 39 read 38 38 0", "proven A"},
		"a proof between the restarts":         {runs + "33 serve B; 36 read 35 35 0; 67 read 35 35 0; 70 serve C; 73 read 72 72 0", "proven B, died 2"},
		"restarts of different tables":         {runs + "33 serve B; 36 read 35 35 0; 37 serve C; 40 read 39 39 0", "proven A, died 2, suspect C, retry 0 at 100"},
		"nothing is proven":                    {"0 serve B; 1 read -9 1 0; 6 read 5 5 0; 9 read 8 8 0; 12 read 11 11 0", "proven , died 3"},
		"clocks that are adjusted":             {runs + "33 serve B; 41 read -8 34 0; 51 read -10 34 0; 63 read -9 34 0; 71 read -9 34 0", "proven B"},
		"restarts within a second":             {runs + "33 serve B; 33.3 read 33.2 33 0; 33.6 read 33.5 33 0", "proven A, died 2, suspect B, retry 0 at 94"},
		"a restart that may be of the table":   {falls + "45.5 read 45.2 45 0; 46 read 45.8 45 0", "proven A, died 2, suspect B, retry 0 at 105"},
		"a restart with the proven table":      {falls + "46 read 44 45 0; 60 read 44 45 0; 70 read 65 65 0", "proven A, died 2"},
		"of a process that started with it":    {falls + "48 read 47 47 0; 51 read 50 50 0", "proven A, died 2"},
		"then restarts count again":            {cleared + "55 read 54 54 0; 58 read 57 57 0", "proven A, died 4, suspect B, retry 0 at 118"},
		"until it happens again":               {excused + "68 read 67 67 0; 70 read 69 69 0; 73 read 72 72 0", "proven A, died 7"},
		"for ten minutes":                      {excused + "660 serve C; 668 read 667 667 0; 670 read 669 669 0", "proven A, died 6, suspect C, retry 0 at 730"},
		"or until a table is proven":           {excused + "66 read 64 66 0; 96 read 64 66 0; 100 serve C; 103 read 102 102 0; 105 read 104 104 0", "proven B, died 6, suspect C, retry 0 at 165"},
		"a retry fails with one restart":       {falls + "105 serve C; 107 read 106 106 0", "proven A, died 3, suspect C, retry 1 at 227"},
		"a retry proves the table":             {falls + "105 serve C; 106 read 44 106 0; 136 read 44 106 0", "proven C, died 2"},
		"newer tables while it is being tried": {falls + "105 serve C; 106 read 44 106 0; 110 serve D; 115 read 114 114 0", "proven A, died 3, suspect D, retry 1 at 235"},

		"more rejected routes":                 {runs + "33 serve B; 34 read -9 34 1; 64 read -9 34 1", "proven A"},
		"rejected, nobody knows since when":    {"0 serve A; 1 read -9 1 5; 31 read -9 1 5", "proven A"},
		"as many rejected routes":              {runs + "31 read -9 1 2; 33 serve B; 34 read -9 34 2; 64 read -9 34 2", "proven B"},
		"the table after rejected routes":      {runs + "33 serve B; 34 read -9 34 1; 64 read -9 34 1; 66 serve C; 67 read -9 67 1; 97 read -9 67 1", "proven C"},
		"rejected after the next table":        {runs + "33 serve B; 34 read -9 34 0; 36 serve C; 64 read -9 37 1; 65 read -9 37 1; 95 read -9 37 1", "proven C"},
		"a restart resets the number":          {runs + "31 read -9 1 5; 33 serve B; 36 read 35 35 0; 37 read 35 35 2; 67 read 35 35 2", "proven B, died 1"},
		"the data plane is restarted on trial": {runs + "33 serve B; 34 read -9 34 0; 40 restart; 40 file A; 41 serve B; 43 read -9 34 0; 72 read -9 34 0", "proven A"},
		"and then the trial begins again":      {runs + "33 serve B; 34 read -9 34 0; 40 restart; 40 file A; 41 serve B; 43 read -9 34 0; 73 read -9 34 0", "proven B"},
		"restarts before and after that":       {runs + "33 serve B; 36 read 35 35 0; 37 restart; 37 file A; 38 serve B; 41 read 40 40 0", "proven A, died 2, suspect B, retry 0 at 101"},
		"both are restarted at once, twice":    {runs + "33 serve B; 40 restart; 40 file A; 40 serve B; 41 read 39 40 0; 45 restart; 45 file A; 45 serve B; 46 read 44 45 0", "proven A, died 2, suspect B, retry 0 at 106"},
		"both, with the proven table":          {runs + "40 restart; 40 file A; 40 serve A; 41 read 39 40 0; 45 restart; 45 file A; 45 serve A; 46 read 44 45 0", "proven A"},
		"a fallback is remembered":             {falls + "50 restart; 50 file A; 50 serve A; 51 read 44 45 0", "proven A, died 2, suspect B, retry 0 at 105"},
		"and its retry":                        {falls + "105 serve B; 106 restart; 106 file A; 106 serve B; 108 read 107 107 0", "proven A, died 3, suspect B, retry 1 at 228"},
		"the state is lost":                    {falls + "50 lose; 50 file A", "proven A, died 2"},
		"the file was never proven":            {"0 serve B; 3 restart; 3 file B", "proven "},
		"the file is suspect":                  {falls + "50 restart; 50 file B", "proven A, died 2, suspect B, retry 0 at 105"},
		"the file is of an earlier version":    {"0 file B", "proven B"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &proofRun{t: t, p: rollout.NewProof(proofStart, rollout.ProofState{})}
			for line := range strings.SplitSeq(test.story, ";") {
				if strings.TrimSpace(line) != "" {
					r.line(line)
				}
			}
			if got := r.result(); got != test.want {
				t.Errorf("after %s\ngot  %s\nwant %s", test.story, got, test.want)
			}
		})
	}
}

// simulation is a proxy with its data plane: it fetches every three seconds, and is restarted a second after it ended. It runs in a bubble.
type simulation struct {
	p       *rollout.Proof
	newest  string
	killer  func(table string) bool // the proxy ends as soon as it has applied the table
	killed  time.Duration           // it also ends this long after each start; 0 means never
	table   string
	started time.Time
	applied time.Time
	deaths  []time.Time
	tried   []time.Time // when a table that is not the proven one was offered after that
	offered string
}

func (s *simulation) offer() {
	now, offered := time.Now(), s.newest
	if s.p.FallenBack(now) {
		offered = nameOf(s.p.State().Proven)
	}
	if offered != s.offered && s.offered == nameOf(s.p.State().Proven) {
		s.tried = append(s.tried, now)
	}
	s.offered = offered
	s.p.Offer(now, tableNamed(offered))
}

// step is one second.
func (s *simulation) step(i int) {
	now := time.Now()
	s.offer()
	switch {
	case s.started.IsZero():
		s.started, s.table = now, ""
	case s.killed > 0 && now.Sub(s.started) >= s.killed:
		s.deaths, s.started = append(s.deaths, now), time.Time{}
	}
	if !s.started.IsZero() {
		s.p.Read(now, s.started, s.applied, 0)
		s.offer()
		if s.table != s.offered && (s.table == "" || i%3 == 0) {
			s.table, s.applied = s.offered, now.Truncate(time.Second)
			if s.killer != nil && s.killer(s.table) {
				s.deaths, s.started = append(s.deaths, now), time.Time{}
			}
		}
	}
	s.p.Tick(now)
	time.Sleep(time.Second)
}

func (s *simulation) run(d time.Duration) {
	for i := range int(d / time.Second) {
		s.step(i)
	}
}

func newSimulation() *simulation {
	s := &simulation{p: rollout.NewProof(time.Now(), rollout.ProofState{}), newest: "A"}
	s.run(time.Minute)
	s.tried = nil
	return s
}

// TestKillerIsRetriedWithGrowingDelays: each retry costs one death, newer tables are not tried in between, and the repaired one is served with the
// next retry.
func TestKillerIsRetriedWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation()
		s.killer = func(table string) bool { return strings.HasPrefix(table, "K") }
		for i := range 40 * 60 / 20 { // a newer table with the same flaw every 20 s
			s.newest = fmt.Sprint("K", i)
			s.run(20 * time.Second)
		}
		var between []int
		for i := 1; i < len(s.tried); i++ {
			between = append(between, int(s.tried[i].Sub(s.tried[i-1]).Round(time.Minute).Minutes()))
		}
		if want := []int{1, 2, 4, 8, 10, 10}; !slices.Equal(between, want) {
			t.Errorf("minutes between the tries: %v, want %v", between, want)
		}
		if n := len(s.deaths); n != 2+6 {
			t.Errorf("%d deaths, want two, and one for each of 6 retries: %v", n, s.deaths)
		}
		deaths := len(s.deaths)
		s.newest = "B"
		s.run(11 * time.Minute)
		if got := nameOf(s.p.State().Proven); got != "B" || len(s.deaths) != deaths || s.p.State().Suspect != nil {
			t.Errorf("after the repair: proven %s, %d more deaths, %+v", got, len(s.deaths)-deaths, s.p.State().Suspect)
		}
		s.newest = "K"
		s.run(30 * time.Second)
		if n := len(s.deaths) - deaths; n != 2 || !s.p.FallenBack(time.Now()) {
			t.Errorf("the next killer caused %d deaths", n)
		}
	})
}

// TestRestartsOfAnotherCauseDelayNoTable: a proxy whose memory limit is too small is killed at regular intervals, whatever its table is. Its
// data plane falls back twice in ten minutes at most, until the next restart.
func TestRestartsOfAnotherCauseDelayNoTable(t *testing.T) {
	for _, every := range []time.Duration{6 * time.Second, 20 * time.Second, 45 * time.Second, 2 * time.Minute} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation()
				s.killed = every
				fallen := 0
				for i := range 20 * 60 {
					if i%7 == 0 {
						s.newest = fmt.Sprint("B", i)
					}
					s.step(i)
					if s.p.FallenBack(time.Now()) {
						fallen++
					}
				}
				if fallen > 4*21 || len(s.tried) > 1+4 {
					t.Errorf("fallen back for %d s; another table than the proven one was offered at %v", fallen, s.tried)
				}
				if !strings.HasPrefix(s.table, "B") && s.table != "" {
					t.Errorf("the proxy has table %s", s.table)
				}
			})
		})
	}
}

// TestProofIsBounded: a server that sends a fatal table every few seconds for days does not fill the memory, and each change of what is
// stored is noticed.
func TestProofIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := rollout.NewProof(proofStart, rollout.ProofState{})
	now := proofStart
	text := func() string {
		b, err := json.Marshal(p.State())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	fallbacks := 0
	for i := range 20_000 {
		before, changes := text(), p.Changes()
		now = now.Add(time.Duration(r.IntN(40)) * time.Second)
		switch r.IntN(3) {
		case 0:
			p.Offer(now, tableNamed(strconv.Itoa(i)))
		case 1:
			p.Tick(now)
		case 2:
			p.Read(now, now.Add(-time.Duration(r.IntN(60))*time.Second), now.Add(-time.Duration(r.IntN(60))*time.Second), uint64(r.IntN(3)))
		}
		if after := text(); after != before && p.Changes() == changes {
			t.Fatalf("the state has changed without notice:\n%s\n%s", before, after)
		}
		if s := p.State(); len(s.Restarts) > 2 || len(text()) > 2<<10 {
			t.Fatalf("%d restarts, %d bytes", len(s.Restarts), len(text()))
		}
		if p.FallenBack(now) {
			fallbacks++
		}
	}
	if fallbacks == 0 {
		t.Error("the test has seen no fallback")
	}
}

// TestStateOfAProofDoesNotChange: a state that is being written to a disk shows no later changes.
func TestStateOfAProofDoesNotChange(t *testing.T) {
	r := &proofRun{t: t, p: rollout.NewProof(proofStart, rollout.ProofState{})}
	for line := range strings.SplitSeq(falls+"105 serve B", ";") {
		r.line(line)
	}
	s := r.p.State()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq("106 read 105.8 106 0; 300 serve C; 302 read 301 301 0; 303 serve D; 304 read 301 304 0; 340 read 301 304 0", ";") {
		r.line(line)
	}
	after, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(after)); diff != "" {
		t.Error(diff)
	}
}
