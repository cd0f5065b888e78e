package robustness_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/routesrv/routesrv/internal/programs"
	"github.com/routesrv/routesrv/test/robustness"
	"github.com/routesrv/routesrv/test/robustness/clock"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/timeline"
	"github.com/routesrv/routesrv/test/robustness/validate"
	"github.com/routesrv/routesrv/test/robustness/world"
)

// Arguments of the tests, after -args.
var (
	long   = flag.Duration("for", 0, "run for so long instead of the short runs")
	seed   = flag.Uint64("seed", 0, "first seed of -for; 0 is a random one")
	file   = flag.String("plan", "", "run the plan of this file instead")
	shrink = flag.Duration("shrink", 0, "make a plan that fails smaller, for so long")
	soak   = flag.Duration("soak", 0, "run one long run with a large table instead")
	factor = flag.Float64("scale", 1, "how large the table of -soak is")
	keep   = flag.String("keep", filepath.Join(os.TempDir(), "routesrv-robustness"), "folder for runs that failed")
)

var binaries world.Binaries

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetOutput(io.Discard) // net/http logs complaints about duplicate answers there
	remove, err := build()
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	remove()
	os.Exit(code)
}

// build builds the binaries, and returns what removes them.
func build() (remove func(), err error) {
	// A changed package time requires rebuilding everything, including the standard library: this takes minutes, which only a
	// long run justifies.
	steps := *long > 0 || *soak > 0 || *file != ""
	var dir string
	if steps {
		dir, remove, err = withClock()
	} else {
		dir, remove, err = programs.Build("../..", programs.Race, "routesrv", "dataplane-client")
	}
	binaries = world.Binaries{Routesrv: filepath.Join(dir, "routesrv"), Dataplane: filepath.Join(dir, "dataplane-client"), Clock: steps}
	return remove, err
}

// withClock builds the programs with a clock that the runs can set.
func withClock() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "robustness"); err != nil {
		return "", func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	overlay, err := clock.Overlay(context.Background(), dir)
	if err != nil {
		return "", remove, err
	}
	args := []string{"build", "-o", dir, "-overlay", overlay}
	if *soak == 0 { // the race detector distorts measurements of memory
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../../cmd/routesrv", "../../cmd/dataplane-client")...).CombinedOutput(); err != nil {
		return "", remove, fmt.Errorf("build: %w: %s", err, out)
	}
	return dir, remove, nil
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
		run(t, p)
	case *soak > 0:
		run(t, plan.Soak(first, *soak, *factor))
	case *long > 0:
		for begin, n := time.Now(), uint64(0); time.Since(begin) < *long; n++ {
			storm := max(10*time.Second, min(time.Minute, *long-time.Since(begin)))
			run(t, plan.New(first+n, size(storm, first+n)))
		}
	default:
		for _, s := range []uint64{1, 2, first} {
			run(t, plan.New(s, size(12*time.Second, s)))
		}
	}
}

// size returns the size of a run: one to three servers, with and without a relay.
func size(storm time.Duration, seed uint64) plan.Size {
	return plan.Size{
		Storm: storm, Servers: 1 + int(seed%3), Relays: 1, Sidecars: 3, Pollers: 32, Deltas: 6, Streams: 6, Every: 250 * time.Millisecond,
	}
}

// run runs one plan as a subtest.
func run(t *testing.T, p *plan.Plan) {
	t.Helper()
	t.Run(fmt.Sprintf("seed=%d", p.Seed), func(t *testing.T) {
		if err := attempt(t, t.Context(), p); err == nil || *shrink == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), *shrink)
		defer cancel()
		small := robustness.Shrink(ctx, p, func(ctx context.Context, p *plan.Plan) bool {
			for range 2 { // a failure by chance may need two runs
				if attempt(nil, ctx, p) != nil {
					return true
				}
			}
			return false
		})
		path := filepath.Join(*keep, fmt.Sprintf("small-%d.json", p.Seed))
		if err := small.Save(path); err != nil {
			t.Error(err)
		}
		t.Logf("%d faults and %d members are left: %s", len(small.Faults), len(small.Members), path)
	})
}

// attempt runs a plan, and returns the first error. With t it reports everything, and keeps the record of a failure.
func attempt(t *testing.T, ctx context.Context, p *plan.Plan) error {
	if err := os.MkdirAll(*keep, 0o700); err != nil {
		return err
	}
	folder, err := os.MkdirTemp(*keep, fmt.Sprintf("seed-%d-", p.Seed))
	if err != nil {
		return err
	}
	cfg := robustness.Config{Plan: p, Binaries: binaries, Folder: folder}
	if p.Real {
		real, stop, err := startAPI()
		if err != nil {
			return err
		}
		defer func() {
			if err := stop(); err != nil && t != nil {
				t.Errorf("stop the API server: %v", err)
			}
		}()
		cfg.Real = real
	}
	if p.Scale > 0 { // most clients ask every few seconds
		cfg.AnyRate = true
	}
	if t != nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h, err := robustness.Run(ctx, cfg)
	var reasons []string
	var violations []validate.Violation
	if h != nil {
		found := validate.Examine(h)
		violations = found.Violations
		if t != nil {
			t.Logf("judged: %+v", found.Coverage)
		}
		if c := found.Coverage; p.Scale == 0 && (c.Tables < 10 || c.Certain < 1000) {
			reasons = append(reasons, fmt.Sprintf("the validators could judge too little to prove anything: %+v", c))
		}
		for _, v := range violations {
			reasons = append(reasons, v.String())
		}
	}
	if err != nil {
		reasons = append(reasons, err.Error())
	}
	if h != nil && p.Scale > 0 {
		text, growing := robustness.TrendReport(robustness.Trends(h, p.Storm/4, p.Storm/3))
		reasons = append(reasons, growing...)
		if t != nil {
			t.Log("\n" + text)
		}
	}
	if t != nil && h != nil {
		t.Log(robustness.Summary(h))
	}
	if len(reasons) == 0 {
		return os.RemoveAll(folder)
	}
	if t == nil {
		_ = os.RemoveAll(folder)
		return fmt.Errorf("%s", reasons[0])
	}
	for i, r := range reasons {
		if i < 20 {
			t.Error(r[:min(len(r), 400)])
		}
	}
	page := func(h *history.History) ([]byte, error) {
		var b bytes.Buffer
		err := timeline.Write(&b, h, violations)
		return b.Bytes(), err
	}
	if err := robustness.Keep(folder, robustness.Kept{Plan: p, History: h, Reasons: reasons, Page: page}); err != nil {
		t.Error(err)
	}
	t.Logf("kept in %s", folder)
	return fmt.Errorf("%s", reasons[0])
}
