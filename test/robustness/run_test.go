// Package robustness runs a fleet under faults and records what every client received. It uses real binaries, a fake API server,
// a fault proxy on every connection, seeded changes, and actions of operators. All of it follows from a [plan.Plan], which
// follows from a seed. Run returns the [history.History]; package validate checks the guarantees.
//
// # What it does not do
//
// Wall clocks do not step. Lists that silently lack less than half of the known objects are not among the faults, because no
// reader could detect them. For the same reason, a body is corrupted only if its encoding has a checksum or its reader compares
// digests. Disks are full or read-only only where this process may mount; a run reports the faults that were not possible.
package robustness

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/record"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// memoryLimit is the documented limit for a process with the tables of these runs, built with the race detector, which takes five
// to ten times the memory.
const memoryLimit = 1 << 30

// patience is how long a process may take to start or to end. It only decides when to give up.
const patience = time.Minute

// Config configures a run.
type Config struct {
	Plan     *plan.Plan
	Binaries Binaries
	// Folder is for the files and logs of the processes. It must exist.
	Folder string
	// Log receives progress messages.
	Log *slog.Logger
}

// Run runs a plan to its end. The error reports failures that validators do not check: a process that could not be started, ended
// by itself, had a data race or did not end on SIGTERM. Run returns the history even then, unless the
// run never began.
func Run(ctx context.Context, cfg Config) (*history.History, error) {
	perMass := int(cfg.Plan.Rate * cfg.Plan.Mass.Seconds())
	changes := traffic.New(traffic.Config{
		Seed: cfg.Plan.Seed, Apps: cfg.Plan.Apps, MassEvery: perMass, RepairAfter: int(2 * cfg.Plan.Rate * cfg.Plan.Hold.Seconds()),
	})
	rec := record.New(record.Config{Tables: 1 << 30, Marker: changes.Marker(), OnlyMarked: cfg.Plan.Scale > 0})
	w, err := NewWorld(WorldConfig{Plan: cfg.Plan, Binaries: cfg.Binaries, Folder: cfg.Folder}, rec)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	r := &run{cfg: cfg, plan: cfg.Plan, rec: rec, world: w, traffic: changes}
	return r.run(ctx)
}

// run is the state of one run.
type run struct {
	cfg     Config
	plan    *plan.Plan
	rec     *record.Recorder
	world   *World
	traffic *traffic.Traffic

	mu      sync.Mutex
	errs    []error
	restore []plan.Fault // due restores, for the goroutine that changes the API
}

func (r *run) failed(err error) {
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	}
}

func (r *run) run(ctx context.Context) (*history.History, error) {
	if r.plan.Scale > 0 {
		if err := r.world.API.Load(r.plan.Scale); err != nil {
			return nil, err
		}
	}
	for _, write := range r.traffic.Begin() {
		if err := r.world.API.Apply(write); err != nil {
			return nil, err
		}
	}
	if err := r.world.Start(ctx, max(patience, r.plan.Patience)); err != nil {
		return nil, err
	}
	beside, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.world.Clients(beside) })
	others.Go(func() { r.world.Sample(beside, time.Second) })

	begin := r.rec.Now()
	r.cfg.Log.Info("storm", "for", r.plan.Storm, "faults", len(r.plan.Faults), "members", len(r.plan.Members))
	stretched := 1.0
	others.Go(func() { stretched = stretch(beside, r.world.PIDs) })
	changes, answers := r.storm(ctx)
	calm := r.rec.Now()
	r.cfg.Log.Info("calm", "after", (calm - begin).Round(time.Millisecond), "changes", changes, "answers", answers)
	settled := r.settle(ctx)
	r.cfg.Log.Info("settled", "after", (settled - calm).Round(time.Millisecond))

	stop()
	others.Wait()
	for fault, reason := range r.world.Disabled() {
		r.cfg.Log.Warn("a fault is not possible here", "fault", fault, "reason", reason)
	}
	r.failed(r.world.End(patience))
	h := r.rec.End(history.Run{
		Seed: r.plan.Seed, Started: r.rec.Started(), Duration: settled, Calm: calm, Settled: settled, Interval: r.plan.Interval,
		Hold: r.plan.Hold, Window: r.plan.Window, MaxLoss: r.plan.MaxLoss, MemoryLimit: memoryLimit, Members: r.plan.Members, Stretch: stretched,
		Patience: max(5*time.Second, r.plan.Timeout),
		Options:  history.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}, // see world.process
	})
	return h, errors.Join(append(r.errs, ctx.Err())...)
}

// storm runs everything in the plan, and returns how many changes and answers there were.
func (r *run) storm(ctx context.Context) (changes, answers int) {
	changesBefore, answersBefore := r.rec.Counts()
	begin := time.Now()
	var all sync.WaitGroup
	for _, f := range r.plan.Faults {
		all.Go(func() {
			if !sleepUntil(ctx, begin.Add(f.From)) {
				return
			}
			if f.Name == plan.Restore {
				r.mu.Lock()
				r.restore = append(r.restore, f)
				r.mu.Unlock()
				return
			}
			r.failed(r.world.Strike(ctx, f))
		})
	}
	for _, s := range r.plan.Steps {
		all.Go(func() {
			if !sleepUntil(ctx, begin.Add(s.At)) {
				return
			}
			switch s.Name {
			case plan.Accept:
				r.world.Accept(ctx, s.Member)
			case plan.Mode:
				r.failed(r.world.SetMode(s.Member, s.Mode))
			}
		})
	}
	all.Go(func() { r.failed(r.change(ctx, begin)) })
	all.Wait()
	changes, answers = r.rec.Counts()
	changes, answers = changes-changesBefore, answers-answersBefore
	for _, write := range r.traffic.End() {
		r.failed(r.world.API.Apply(write))
	}
	return changes, answers
}

// change changes the API at the rate of the plan during the storm. On a slow machine it catches up as soon as possible.
func (r *run) change(ctx context.Context, begin time.Time) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	due, done := 0.0, 0
	for last := begin; ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if now.Sub(begin) > r.plan.Storm {
				return nil
			}
			due += min(now.Sub(last).Seconds(), 0.5) * r.plan.Rate
			last = now
		}
		r.mu.Lock()
		restores := r.restore
		r.restore = nil
		r.mu.Unlock()
		for _, f := range restores {
			if err := r.goBack(ctx, f); err != nil {
				return err
			}
			last = time.Now()
		}
		for ; float64(done) < due; done++ {
			for _, write := range r.traffic.Next() {
				if err := r.world.API.Apply(write); err != nil {
					return err
				}
			}
		}
	}
}

// goBack restores the API. It makes no changes for a moment afterwards, as in a cluster that is being restored: a server that
// does not read before the revisions have caught up cannot detect the restore.
func (r *run) goBack(ctx context.Context, f plan.Fault) error {
	from := r.rec.Now()
	state, err := r.world.API.Restore(f.Delay)
	if err != nil {
		return err
	}
	r.traffic.Rewind(state)
	sleepUntil(ctx, time.Now().Add(6*r.plan.Interval))
	r.rec.Fault(history.Fault{From: from, To: r.rec.Now(), Name: f.Name, Link: f.Link, Args: f.Args()})
	return nil
}

// settle waits until all live clients have the last table, or the plan's patience has ended. Then it waits for two more requests
// of every client, which must find nothing new.
func (r *run) settle(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, r.plan.Patience)
	defer cancel()
	for {
		late := r.late()
		if len(late) == 0 {
			break
		}
		if !sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
			r.cfg.Log.Error("not converged", "late", strings.Join(late, ", "))
			return r.rec.Now()
		}
	}
	settled := r.rec.Now()
	sleepUntil(ctx, time.Now().Add(4*r.plan.Interval))
	return settled
}

// late returns the clients that do not hold the last table.
func (r *run) late() []string {
	want := make(map[string]string) // by zone
	held, zones := make(map[string]string), make(map[string]string)
	for _, m := range r.plan.Members {
		switch m.Kind {
		case history.Server, history.Relay, history.Sidecar:
			continue
		}
		zone := m.Zone
		if d, ok := r.plan.Member(m.Upstreams[0]); ok && d.Kind == history.Sidecar {
			zone = d.Zone
		}
		a, _ := r.rec.Held(m.Name)
		held[m.Name], zones[m.Name] = a.Digest, zone
		if marked, _ := r.rec.Marked(a.Digest); marked && want[zone] == "" {
			want[zone] = a.Digest
		}
	}
	var late []string
	for name, digest := range held {
		if digest == "" || digest != want[zones[name]] {
			late = append(late, name)
		}
	}
	slices.Sort(late)
	return late
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
