// Command mutate checks whether the tests detect mistakes: it changes one place of a package at a time, runs the tests, and
// reports the changes that no test detected. See go run ./tools/mutate -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const help = `Mutate changes one place of a package at a time (a mutant), runs the tests of the package, and reports the
mutants that survive: changes that no test notices. Files on disk stay as they are.

What it changes: conditions (turned round, < for <=, && for ||), numbers (one more), true and false, arithmetic,
statements (left out, but for lines of a log), and what is returned (0, nil, the opposite). A mutant that does
not build does not count. One that makes the tests take much longer counts as killed.

A survivor says one of three things:

  - a behaviour has no test. Write one, of what a user sees: it has to stay true if the code is written in another way.
  - the code does nothing. Delete it.
  - nobody can tell the difference. Put the mutant into the list of equivalents, with the reason:

	publish/file.go (*file).due
	!now.Before(f.retryAt) -> now.Before(f.retryAt)
	Two lines or more: where, the change as the report shows it, and why no test can see it.

An entry of the list that fits nothing any more is an error.

-run tries only some tests, which is quick while one is written. What survives these may be killed by others, so that the
result is not kept.

A run goes on where the one before ended: what was killed is not tried again unless its file changed, and survivors
are tried again once the tests changed. -fresh forgets all that. The same seed gives the same sample, also after
changes elsewhere.

	make mutate MUTATE='-packages guard,rollout -n 40 -goal 90'
	go run ./tools/mutate -packages guard -only '(*Guard).Judge' -n 0

Exit status: 0, 1 if a score is below -goal or an entry of the list fits nothing, 2 for everything else, such as
tests that fail without any change.

`

// options are the parsed flags.
type options struct {
	root       string
	packages   []string
	with       map[string][]string // package to the packages whose tests also count for it
	n          int
	seed       int64
	only       string
	goal       float64
	jobs       int
	results    string
	equivalent string
	fresh      bool
	tests      string
	list       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// defaultPackages are the packages whose mistakes are the most expensive.
const defaultPackages = "guard,publish,rollout,poller,dataplane,shadowdiff,internal/sidecar"

// defaultWith are packages that are mostly tested by another package.
const defaultWith = "compile=conformance,compile/rules=compile,compile/rules=conformance,internal/source/cluster/internal/api=internal/source/cluster," +
	"internal/source/cluster/internal/decode=internal/source/cluster,internal/source/cluster/internal/lister=internal/source/cluster"

// parse parses the flags. The last result reports a request for help.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, help, "Flags:\n")
		flags.PrintDefaults()
	}
	packages := flags.String("packages", defaultPackages, "`folders` from the root of the module, with commas between them")
	with := flags.String("with", defaultWith, "`package=other`, with commas between pairs: the tests of the other count, too")
	flags.StringVar(&o.root, "root", ".", "root `folder` of the module")
	flags.IntVar(&o.n, "n", 40, "mutants that are tried in each package; 0 means all")
	flags.Int64Var(&o.seed, "seed", 1, "chooses the sample")
	flags.StringVar(&o.only, "only", "", "only mutants whose `text` in the report (file and function) contains this")
	flags.Float64Var(&o.goal, "goal", 0, "`percentage` of mutants that the tests of each package have to kill")
	flags.IntVar(&o.jobs, "jobs", 1, "mutants at a time")
	flags.StringVar(&o.results, "results", "bin/mutate.jsonl", "`file` that a run goes on with")
	flags.StringVar(&o.equivalent, "equivalent", "tools/mutate/equivalent.txt", "`file` with mutants that no test can notice, and why")
	flags.BoolVar(&o.fresh, "fresh", false, "forget earlier results")
	flags.StringVar(&o.tests, "run", "", "only tests whose names match the `pattern`, while one is written; the results are not kept")
	flags.BoolVar(&o.list, "list", false, "list the mutants in the order in which they would be tried, and try none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("argument %q: want flags only, see -help", flags.Arg(0))
	}
	if o.jobs < 1 {
		return o, fmt.Errorf("-jobs %d: want 1 or more", o.jobs)
	}
	for name := range strings.SplitSeq(*packages, ",") {
		o.packages = append(o.packages, filepath.ToSlash(filepath.Clean(name)))
	}
	o.with = make(map[string][]string)
	for pair := range strings.SplitSeq(*with, ",") {
		if name, other, ok := strings.Cut(pair, "="); ok {
			o.with[name] = append(o.with[name], other)
		} else if pair != "" {
			return o, fmt.Errorf("-with %s: want package=other", pair)
		}
	}
	return o, nil
}

// run returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		var good bool
		if good, err = mutate(ctx, o, stdout); err == nil && !good {
			return 1
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return 2
	}
	return 0
}

// mutate tries the mutants of all packages and reports them. good means that all scores are good and the list of equivalents
// fits.
func mutate(ctx context.Context, o options, w io.Writer) (good bool, err error) {
	if o.root, err = filepath.Abs(o.root); err != nil {
		return false, err
	}
	path := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(o.root, name)
	}
	if o.fresh {
		if err := os.Remove(path(o.results)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
	}
	equivalents, err := readEquivalents(path(o.equivalent))
	if err != nil {
		return false, err
	}
	if o.tests != "" { // survivors of some tests may be killed by others
		o.results = os.DevNull
	}
	known, err := openResults(path(o.results))
	if err != nil {
		return false, fmt.Errorf("file of results: %w", err)
	}
	defer known.file.Close()
	good = true
	for _, name := range o.packages {
		p, err := list(ctx, o.root, name, o.with[name])
		if err != nil {
			return false, err
		}
		r, err := mutatePackage(ctx, o, p, known, equivalents, w)
		if err != nil {
			if r != nil { // the results so far
				r.write(w)
			}
			return false, fmt.Errorf("package %s: %w", name, err)
		}
		if o.list {
			continue
		}
		r.write(w)
		good = good && r.score() >= o.goal
	}
	for _, e := range equivalents {
		if !e.used && slices.Contains(o.packages, filepath.ToSlash(filepath.Dir(e.file))) {
			fmt.Fprintf(w, "%s:%d fits no mutant any more: %s %s: %s\n", o.equivalent, e.line, e.file, e.function, e.change)
			good = false
		}
	}
	return good, nil
}

// mutatePackage tries the mutants of one package. If it is interrupted, its report has the mutants tried so far.
func mutatePackage(
	ctx context.Context, o options, p *pkg, known *results, equivalents []*equivalent, w io.Writer,
) (*report, error) {
	mutants, sources, err := p.mutants()
	if err != nil {
		return nil, err
	}
	r := &report{name: p.name, all: len(mutants)}
	mutants, r.equivalent = without(mutants, equivalents)
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return !strings.Contains(m.File+" "+m.Func, o.only) })
	order(mutants, o.seed)
	if o.list {
		for _, m := range mutants {
			fmt.Fprintln(w, describe(m))
		}
		return r, nil
	}
	tests, err := hashOfTests(p)
	if err != nil {
		return nil, err
	}
	q := &queue{mutants: mutants, want: o.n}
	if o.n == 0 {
		q.want = math.MaxInt
	}
	q.changed.L = &q.mu
	scratch, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	limits := sync.OnceValues(func() ([]time.Duration, error) {
		j := &judge{p: p, pattern: o.tests, scratch: scratch}
		err := j.control(ctx)
		return j.limits, err
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range o.jobs {
		j := &judge{p: p, pattern: o.tests, scratch: filepath.Join(scratch, fmt.Sprint(i))}
		if err := os.Mkdir(j.scratch, 0o700); err != nil {
			return nil, err
		}
		all.Go(func() {
			for m := q.take(); m != nil && ctx.Err() == nil; m = q.take() {
				source := hashOf(sources[m.File])
				one, ok := known.get(m, source, tests)
				if !ok {
					var err error
					if j.limits, err = limits(); err == nil {
						one = result{Mutant: m.id(), Source: source, Tests: tests}
						if one.Outcome, one.By, err = j.try(ctx, m, sources[m.File]); err == nil {
							err = known.add(one)
						}
					}
					if err != nil {
						cancel(err)
						q.done(false)
						return
					}
				}
				q.done(one.Outcome != notBuilt)
				r.add(m, one.Outcome)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	return r, nil
}

// queue hands out mutants in order until the wanted number has been built, so that the selection does not depend on the number of
// parallel jobs.
type queue struct {
	mutants []*mutant
	want    int

	mu      sync.Mutex // guards the fields below
	changed sync.Cond
	next    int
	built   int
	trying  int
}

// take returns the next mutant, or nil if none is left to try.
func (q *queue) take() *mutant {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.trying > 0 && q.built < q.want && q.built+q.trying >= q.want {
		q.changed.Wait() // a mutant in progress may turn out not to build
	}
	if q.built >= q.want || q.next == len(q.mutants) {
		return nil
	}
	q.next++
	q.trying++
	return q.mutants[q.next-1]
}

// done must be called for each mutant taken, with whether it counts.
func (q *queue) done(built bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trying--
	if built {
		q.built++
	}
	q.changed.Broadcast()
}
