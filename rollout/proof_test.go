package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/rollout"
	"github.com/routesrv/routesrv/table"
)

// proofRun runs the lines of a story. Each is a number of seconds and an event:
//
//	serve T   table T is what the proxy can get
//	start     the proxy asks for the first time in its life
//	sent T    it was sent T
//	got T     the same, and it has named T
//	ask       it asks again
//	read S R  its metrics: started at second S (0: unknown), R refused routes
//	down      nothing listens where the metrics were
//	tick      time has passed
//	restart   the data plane is restarted with what it had stored
//	lose      the same, but its state was lost
//	file T    the last-known-good file had T
type proofRun struct {
	t     *testing.T
	file  bool
	known bool
	p     *rollout.Proof
}

func tableNamed(name string) table.Digest {
	var d table.Digest
	copy(d[:], name)
	return d
}

func nameOf(d table.Digest) string { return strings.TrimRight(string(d[:]), "\x00") }

var proofStart = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func second(text string) time.Time {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return proofStart.Add(time.Duration(n) * time.Second)
}

func (r *proofRun) line(line string) {
	r.t.Helper()
	f := strings.Fields(line)
	now := second(f[0])
	switch f[1] {
	case "serve":
		r.p.Served(now, tableNamed(f[2]))
	case "start":
		r.p.Started(now)
	case "sent":
		r.p.Got(now, tableNamed(f[2]))
	case "got":
		r.p.Got(now, tableNamed(f[2]))
		r.p.Asked(now)
	case "ask":
		r.p.Asked(now)
	case "read":
		var started time.Time
		if f[2] != "0" {
			started = second(f[2])
		}
		n, err := strconv.ParseUint(f[3], 10, 32)
		if err != nil {
			r.t.Fatal(err)
		}
		r.p.Read(now, started, n)
	case "down":
		r.p.Down(now)
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
		r.p, r.known = rollout.NewProof(s, r.file), true
	case "lose":
		r.p, r.known = rollout.NewProof(rollout.ProofState{}, r.file), false
	case "file":
		r.p.Restored(tableNamed(f[2]), r.known)
	default:
		r.t.Fatalf("unknown event %q", line)
	}
}

func (r *proofRun) result() string {
	text := "proven " + nameOf(r.p.Proven())
	for _, s := range r.p.State().Suspects {
		text += fmt.Sprintf(", suspect %s instead %s deaths %d", nameOf(s.Digest), nameOf(s.Proven), s.Deaths)
	}
	return text
}

// lives is a proxy that gets A, and has proven it at second 30.
const lives = "0 serve A; 0 start; 0 got A; 3 ask; 27 ask; 30 ask; "

func TestProof(t *testing.T) {
	for name, test := range map[string]struct {
		story string
		file  bool
		want  string
	}{
		"nothing happens":                            {"0 serve A; 60 tick", false, "proven "},
		"30 s without a restart":                     {lives, false, "proven A"},
		"29 s are too short":                         {"0 serve A; 0 start; 0 got A; 29 ask", false, "proven "},
		"nobody asks":                                {"0 serve A; 0 start; 0 got A; 300 tick", false, "proven "},
		"figures are no request":                     {"0 serve A; 0 start; 0 got A; 300 read 0 0", false, "proven "},
		"a restart begins again":                     {"0 start; 0 got A; 20 start; 20 got A; 49 ask", false, "proven "},
		"and ends":                                   {"0 start; 0 got A; 20 start; 20 got A; 50 ask", false, "proven A"},
		"the next table keeps the one before":        {lives + "33 got B; 40 ask", false, "proven A"},
		"until it is proven":                         {lives + "33 got B; 63 ask", false, "proven B"},
		"a table that every poll replaces is proven": {lives + "33 got B; 36 got C; 63 got D; 63 ask", false, "proven B"},
		"and then the one that it has":               {lives + "33 got B; 36 got C; 63 got D; 63 ask; 66 got E; 93 ask", false, "proven D"},
		"back to the proven table ends the trial":    {lives + "33 got B; 36 got A; 90 ask", false, "proven A"},

		"somebody who never names a table":         {lives + "33 got B; 63 ask; 64 got C; 65 start; 66 sent C; 67 start; 68 sent C; 69 start; 70 sent C", false, "proven B"},
		"nothing is known of one who only fetches": {"0 start; 0 sent A; 30 start; 30 sent A; 60 start; 60 sent A", false, "proven "},
		"one death":                     {lives + "33 got B; 36 start", false, "proven A"},
		"two deaths":                    {lives + "33 got B; 36 start; 36 got B; 40 start", false, "proven A, suspect B instead A deaths 2"},
		"two deaths that are far apart": {lives + "33 got B; 36 start; 36 got B; 157 start", false, "proven A"},
		"two deaths just before":        {lives + "33 got B; 36 start; 36 got B; 156 start", false, "proven A, suspect B instead A deaths 2"},
		"deaths of a proven table":      {lives + "33 start; 33 got A; 36 start; 36 got A; 39 start", false, "proven A"},
		"a proof between the deaths": {
			lives + "33 got B; 36 start; 36 got B; 66 ask; 70 got C; 73 start; 73 got C", false, "proven B",
		},
		"deaths before it had the table":          {lives + "33 serve B; 33 start; 33 start; 33 start", false, "proven A"},
		"a later table with the same flaw":        {lives + "33 got B; 36 start; 36 got B; 40 start; 40 got A; 43 got C; 46 start", false, "proven A, suspect B instead A deaths 2, suspect C instead A deaths 3"},
		"a later table without it":                {lives + "33 got B; 36 start; 36 got B; 40 start; 40 got A; 43 got C; 73 ask", false, "proven C, suspect B instead A deaths 2"},
		"two tables kill":                         {lives + "33 got B; 36 start; 36 got C; 40 start", false, "proven A, suspect C instead A deaths 2"},
		"nothing is proven":                       {"0 start; 0 got B; 3 start; 3 got B; 6 start; 6 got B; 9 start", false, "proven , suspect B instead  deaths 3"},
		"a suspect that turns out to be harmless": {"0 start; 0 got B; 3 start; 3 got B; 6 start; 6 got B; 36 ask", false, "proven B"},

		"more refused routes":              {lives + "31 read 0 2; 33 got B; 40 read 0 3; 63 ask", false, "proven A"},
		"refused, nobody knows since when": {"0 start; 0 got A; 3 read 0 5; 30 ask", false, "proven A"},
		"fewer refused routes":             {lives + "31 read 0 2; 33 got B; 40 read 0 1; 63 ask", false, "proven B"},
		"as many refused routes":           {lives + "31 read 0 2; 33 got B; 40 read 0 2; 63 ask", false, "proven B"},
		"the table after refused routes":   {lives + "31 read 0 2; 33 got B; 40 read 0 3; 63 ask; 66 got C; 96 ask", false, "proven C"},
		"refused before the trial is over": {lives + "31 read 0 2; 33 got B; 40 read 0 3; 42 got C; 72 ask", false, "proven C"},

		"metrics show a restart":                   {lives + "31 read -5 0; 33 got B; 41 read 38 0; 42 got B; 51 read 48 0", false, "proven A, suspect B instead A deaths 2"},
		"a request and metrics are one death":      {lives + "31 read -5 0; 33 got B; 39 start; 41 read 38 0; 42 got B; 72 ask", false, "proven B"},
		"metrics and a request are one death":      {lives + "31 read -5 0; 33 got B; 41 read 38 0; 42 start; 42 got B; 72 ask", false, "proven B"},
		"clocks that are adjusted are no restart":  {lives + "31 read -5 0; 33 got B; 41 read -4 0; 51 read -6 0; 63 ask", false, "proven B"},
		"the start while the data plane was away":  {lives + "31 read -5 0; 33 got B; 36 start; 36 got B; 38 read 35 0; 39 restart; 50 read 45 0", false, "proven A, suspect B instead A deaths 2"},
		"the data plane is restarted on trial":     {lives + "33 got B; 40 restart; 40 file A; 43 ask; 43 got B; 70 ask", false, "proven A"},
		"and then the trial begins again":          {lives + "33 got B; 40 restart; 40 file A; 43 ask; 43 got B; 73 ask", false, "proven B"},
		"a death before and after a restart of it": {lives + "33 got B; 36 start; 37 restart; 37 file A; 38 got B; 41 start", false, "proven A, suspect B instead A deaths 2"},
		"both are restarted at once, twice":        {lives + "33 got B; 40 restart; 40 file A; 41 start; 41 got B; 45 restart; 45 file A; 46 start", false, "proven A, suspect B instead A deaths 2"},
		"both are restarted with a proven table":   {lives + "40 restart; 40 file A; 41 start; 41 got A; 45 restart; 45 file A; 46 start", false, "proven A"},
		"a suspect is remembered":                  {lives + "33 got B; 36 start; 36 got B; 40 start; 41 restart; 41 file A", false, "proven A, suspect B instead A deaths 2"},
		"the state is lost":                        {lives + "33 got B; 36 start; 36 got B; 40 start; 41 lose; 41 file A", false, "proven A"},
		"the file was never proven":                {"0 start; 0 got B; 3 restart; 3 file B", false, "proven "},
		"the file is suspect":                      {lives + "33 got B; 36 start; 36 got B; 40 start; 41 restart; 41 file B", false, "proven A, suspect B instead A deaths 2"},
		"the file is of an earlier version":        {"0 file B", false, "proven B"},

		"a file, and nothing else is known":   {"0 serve A; 29 tick; 30 tick", true, "proven A"},
		"a file, too early":                   {"0 serve A; 29 tick", true, "proven "},
		"a file, and metrics that stop":       {"0 serve A; 1 read -9 0; 20 read -9 0; 60 tick", true, "proven "},
		"a file, and metrics":                 {"0 serve A; 1 read -9 0; 20 read -9 0; 30 read -9 0", true, "proven A"},
		"a file, and two starts":              {"0 serve A; 30 tick; 31 read -9 0; 33 serve B; 41 read 38 0; 51 read 48 0", true, "proven A, suspect B instead A deaths 2"},
		"a file, and nothing listens, twice":  {"0 serve A; 30 tick; 31 read -9 0; 33 serve B; 41 down; 51 down", true, "proven A, suspect B instead A deaths 2"},
		"a file, and one pause":               {"0 serve A; 30 tick; 31 read -9 0; 33 serve B; 41 down; 51 read 45 0; 71 read 45 0; 81 read 45 0", true, "proven B"},
		"a file, and metrics that never were": {"0 serve A; 30 tick; 33 serve B; 41 down; 51 down; 63 tick", true, "proven B"},
		"no file, and nothing listens":        {lives + "31 read -9 0; 33 got B; 41 down; 51 down; 63 ask", false, "proven B"},
		"a file that nobody reads":            {"0 serve A; 5 start; 5 got A; 8 start; 8 got A", true, "proven "},
		"a file, and the proven table again":  {"0 serve A; 30 tick; 33 serve B; 41 serve A; 90 tick", true, "proven A"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &proofRun{t: t, file: test.file, p: rollout.NewProof(rollout.ProofState{}, test.file)}
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

// TestProofIsBounded: a server that sends a fatal table every few seconds for days does not fill the memory, and each change of what is
// stored is noticed.
func TestProofIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := rollout.NewProof(rollout.ProofState{}, false)
	now := proofStart
	text := func() string {
		b, err := json.Marshal(p.State())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for i := range 20_000 {
		before, changes := text(), p.Changes()
		now = now.Add(time.Duration(r.IntN(40)) * time.Second)
		switch r.IntN(7) {
		case 0, 1:
			p.Started(now)
		case 2, 3:
			p.Got(now, tableNamed(strconv.Itoa(i)))
			p.Asked(now)
		case 4:
			p.Asked(now)
		case 5:
			p.Down(now)
		case 6:
			p.Read(now, now.Add(-time.Duration(r.IntN(60))*time.Second), uint64(r.IntN(3)))
		}
		if after := text(); after != before && p.Changes() == changes && !strings.Contains(after, "started") {
			t.Fatalf("the state has changed without notice:\n%s\n%s", before, after)
		}
		if s := p.State(); len(s.Suspects) > rollout.MaxSuspects || len(s.Deaths) > 2 || len(text()) > 16<<10 {
			t.Fatalf("%d suspects, %d deaths, %d bytes", len(s.Suspects), len(s.Deaths), len(text()))
		}
	}
	if len(p.State().Suspects) != rollout.MaxSuspects {
		t.Errorf("%d suspects, want the test to reach the limit", len(p.State().Suspects))
	}
}

// TestStateOfAProofStays: who writes a state to a disk does not see later changes in it.
func TestStateOfAProofStays(t *testing.T) {
	r := &proofRun{t: t, p: rollout.NewProof(rollout.ProofState{}, false)}
	for line := range strings.SplitSeq(lives+"33 got B; 36 start; 36 got B; 40 start", ";") {
		r.line(line)
	}
	s := r.p.State()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq("41 got C; 43 start; 43 got B; 44 start; 45 got D; 80 ask", ";") {
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
