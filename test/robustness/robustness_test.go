package robustness

import (
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/test/programs"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// Arguments of the tests, after -args.
var (
	long   = flag.Duration("for", 0, "run for so long instead of the short runs")
	seed   = flag.Uint64("seed", 0, "first seed of -for; 0 is a random one")
	file   = flag.String("plan", "", "run the plan of this file instead")
	soak   = flag.Duration("soak", 0, "run one long run with a large table instead")
	factor = flag.Float64("scale", 1, "how large the table of -soak is")
	keep   = flag.String("keep", filepath.Join(os.TempDir(), "routesrv-robustness"), "folder for runs that failed")
)

var binaries Binaries

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetOutput(io.Discard) // net/http logs complaints about duplicate answers there
	remove, err := build()
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	remove()
	os.Exit(code)
}

// build builds the binaries, and returns what removes them.
func build() (remove func(), err error) {
	options := programs.Race
	if *soak > 0 { // the race detector distorts measurements of memory
		options = programs.Plain
	}
	dir, remove, err := programs.Build("../..", options, "routesrv", "dataplane-client")
	binaries = Binaries{Routesrv: filepath.Join(dir, "routesrv"), Dataplane: filepath.Join(dir, "dataplane-client")}
	return remove, err
}

// TestGuaranteesHold runs fleets under faults and validates what every client received. Without arguments there are three short
// runs, two with fixed seeds and one with a new seed each time.
func TestGuaranteesHold(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	switch {
	case *file != "":
		p, err := plan.Load(*file)
		if err != nil {
			t.Fatal(err)
		}
		runPlan(t, p)
	case *soak > 0:
		runPlan(t, plan.Soak(first, *soak, *factor))
	case *long > 0:
		for begin, n := time.Now(), uint64(0); time.Since(begin) < *long; n++ {
			storm := max(10*time.Second, min(time.Minute, *long-time.Since(begin)))
			runPlan(t, plan.New(first+n, size(storm, first+n)))
		}
	default:
		for _, s := range []uint64{1, 2, first} {
			runPlan(t, plan.New(s, size(12*time.Second, s)))
		}
	}
}

// size returns the size of a run: one to three servers, with and without a relay.
func size(storm time.Duration, seed uint64) plan.Size {
	return plan.Size{
		Storm: storm, Servers: 1 + int(seed%3), Relays: 1, Sidecars: 3, Pollers: 32, Deltas: 6, Streams: 6, Every: 250 * time.Millisecond,
	}
}

// runPlan runs one plan as a subtest.
func runPlan(t *testing.T, p *plan.Plan) {
	t.Helper()
	t.Run(fmt.Sprintf("seed=%d", p.Seed), func(t *testing.T) { attempt(t, p) })
}

// attempt runs a plan, reports everything, and keeps the record of a failure.
func attempt(t *testing.T, p *plan.Plan) {
	t.Helper()
	if err := os.MkdirAll(*keep, 0o700); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(*keep, fmt.Sprintf("seed-%d-", p.Seed))
	if err != nil {
		t.Fatal(err)
	}
	h, err := Run(t.Context(), Config{
		Plan: p, Binaries: binaries, Folder: folder, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	var reasons []string
	if h != nil {
		found := validate.Examine(h)
		t.Logf("judged: %+v", found.Coverage)
		if c := found.Coverage; p.Scale == 0 && (c.Tables < 10 || c.Certain < 1000) {
			reasons = append(reasons, fmt.Sprintf("the validators could judge too little to prove anything: %+v", c))
		}
		for _, v := range found.Violations {
			reasons = append(reasons, v.String())
		}
	}
	if err != nil {
		reasons = append(reasons, err.Error())
	}
	if h != nil && p.Scale > 0 {
		all, growing := Growth(h, p.Storm/4, p.Storm/3)
		reasons = append(reasons, growing...)
		t.Log(strings.Join(all, "\n"))
	}
	if len(reasons) == 0 {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
		return
	}
	for i, r := range reasons {
		if i < 20 {
			t.Error(r[:min(len(r), 400)])
		}
	}
	planFile := filepath.Join(folder, "plan.json")
	if err := p.Save(planFile); err != nil {
		t.Error(err)
	}
	if h != nil {
		if err := h.Save(folder); err != nil {
			t.Error(err)
		}
	}
	t.Logf("kept in %s: the history, in files of one JSON object a line, each table in tables, and a folder for each process with its log; "+
		"to run it again: go test -race ./test/robustness -run TestGuaranteesHold -v -args -plan %s", folder, planFile)
}
