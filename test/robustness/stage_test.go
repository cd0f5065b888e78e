package robustness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/test/robustness/clients"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/record"
	"github.com/routesrv/routesrv/test/robustness/traffic"
)

// Scenario is a short run with exactly the events that reveal a plant.
type Scenario struct {
	Name    string
	Members []history.Member
	Apps    int           // 0 means 40
	Hold    time.Duration // of the guard; 0 means 2 s
	MaxLoss float64       // 0 means one half
	// KeepTakeovers and Trial are those of the plan.
	KeepTakeovers, Trial bool
	Soak                 time.Duration // with a canary
	// Play runs after all processes have a table. After a play that ends early, nothing happens for the rest of the time.
	Play func(*Stage) error
}

// Limits of the runs. A client gives up after the time-out, and must be served before. It is long enough for a busy machine.
const (
	timeout     = 8 * time.Second
	servedIn    = 6 * time.Second
	plainMemory = 256 << 20       // of a process without the race detector
	settling    = 6 * time.Second // with a plant, until all clients have the last table; some never get it
	guardWindow = 5 * time.Second
	starting    = time.Minute // only for giving up
)

// Stage is a scenario in progress.
type Stage struct {
	ctx     context.Context
	plan    *plan.Plan
	rec     *record.Recorder
	world   *World
	traffic *traffic.Traffic
	// settling is how long the clients have until all hold the last table.
	settling time.Duration
	planted  bool // a plant is active, which must be found however busy the machine is

	guests []history.Member // that came later
	faults sync.WaitGroup
	failed atomic.Pointer[error] // of one of the faults
}

// Run plays a scenario and returns the record. plant activates a plant; empty means an honest run. The error means that the run
// did not go as intended.
func (s Scenario) Run(ctx context.Context, binaries Binaries, folder, plant string) (*history.History, error) {
	p := plan.New(1, plan.Size{Storm: time.Second, Servers: 1}) // defaults for everything that the scenario does not set
	p.Members, p.Faults, p.Steps = s.Members, nil, nil
	p.Timeout, p.Interval, p.Asking, p.Window, p.Hold, p.MaxLoss, p.Apps = timeout, 250*time.Millisecond, 50*time.Millisecond, guardWindow, s.Hold, s.MaxLoss, s.Apps
	p.KeepTakeovers, p.Trial, p.Soak = s.KeepTakeovers, s.Trial, s.Soak
	if p.Hold == 0 {
		p.Hold = 2 * time.Second
	}
	if p.MaxLoss == 0 {
		p.MaxLoss = 0.5
	}
	if p.Apps == 0 {
		p.Apps = 40
	}
	if plant != "" {
		binaries.Env = append(slices.Clip(binaries.Env), Variable+"="+plant)
	}
	changes := traffic.New(traffic.Config{Seed: p.Seed, Apps: p.Apps})
	rec := record.New(record.Config{Tables: 1 << 28, Marker: changes.Marker()})
	w, err := NewWorld(WorldConfig{Plan: p, Binaries: binaries, Folder: folder}, rec)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	defer w.Close()
	stage := &Stage{ctx: ctx, plan: p, rec: rec, world: w, traffic: changes, settling: starting}
	if plant != "" {
		stage.settling, stage.planted = settling, true
	}
	h, err := stage.run(s.Play)
	if h != nil {
		h.Run.Plant = plant
	}
	if err != nil {
		return h, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return h, nil
}

func (s *Stage) run(play func(*Stage) error) (*history.History, error) {
	if err := s.write(s.traffic.Begin()); err != nil {
		return nil, err
	}
	if err := s.world.Start(s.ctx, starting); err != nil {
		return nil, err
	}
	beside, stop := context.WithCancel(s.ctx)
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { s.world.Clients(beside) })
	others.Go(func() { s.world.Sample(beside, 250*time.Millisecond) })
	stretched := 1.0
	if !s.planted {
		others.Go(func() { stretched = stretch(beside, s.world.PIDs) })
	}

	err := play(s)
	err = errors.Join(err, s.write(s.traffic.End()))
	s.faults.Wait()
	if failed := s.failed.Load(); failed != nil {
		err = errors.Join(err, *failed)
	}
	calm := s.rec.Now()
	s.settle(calm)
	settled := s.rec.Now()
	stop()
	others.Wait()
	err = errors.Join(err, s.world.End(starting))
	return s.rec.End(history.Run{
		Seed: s.plan.Seed, Started: s.rec.Started(), Duration: settled, Calm: calm, Settled: settled, Interval: s.plan.Interval,
		Hold: s.plan.Hold, Window: s.plan.Window, MaxLoss: s.plan.MaxLoss, Soak: s.plan.Soak, MemoryLimit: plainMemory, Patience: servedIn, Stretch: stretched,
		Options: history.Options{EndpointSlices: true, Healthcheck: true, HTTPSRedirect: true}, Members: append(slices.Clip(s.plan.Members), s.guests...),
	}), err
}

// settle waits until all clients have the last table, and then for the other kinds of objects: a watch of each brings its last changes
// in its own time. How long that takes shows in how fast the clients are answered. The time is limited, because some plants prevent it.
func (s *Stage) settle(calm time.Duration) {
	limited := func(more func() bool) {
		for more() && s.rec.Now()-calm < s.settling && s.ctx.Err() == nil {
			s.Wait(20 * time.Millisecond)
		}
	}
	limited(s.late)
	_, before := s.rec.Counts()
	enough := before + s.answers(4*s.plan.Interval)
	s.Wait(4 * s.plan.Interval)
	limited(func() bool { _, answers := s.rec.Counts(); return answers < enough })
}

// answers returns how many answers the clients get in a time if nothing delays them.
func (s *Stage) answers(d time.Duration) (n int) {
	for _, m := range s.plan.Members {
		if m.Kind == history.Poller || m.Kind == history.Delta {
			n += int(d / s.plan.Asking)
		}
	}
	return n
}

// late reports whether a client does not have the last table.
func (s *Stage) late() bool {
	for _, m := range s.plan.Members {
		switch m.Kind {
		case history.Poller, history.Delta, history.Stream:
			a, _ := s.rec.Held(m.Name)
			if last, _ := s.rec.Marked(a.Digest); !last {
				return true
			}
		}
	}
	return false
}

func (s *Stage) write(writes []traffic.Write) error {
	for _, w := range writes {
		if err := s.world.API.Apply(w); err != nil {
			return err
		}
	}
	return nil
}

// Wait waits.
func (s *Stage) Wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// Churn changes objects of all kinds, 50 per second. On an overloaded machine it continues until the clients have received as
// many answers as elsewhere, since answers reveal mistakes.
func (s *Stage) Churn(d time.Duration) error {
	const between, longest = 20 * time.Millisecond, 8
	_, before := s.rec.Counts()
	enough := before + s.answers(d)/2
	going := func(begin time.Time) bool {
		_, answers := s.rec.Counts()
		return time.Since(begin) < d || answers < enough && time.Since(begin) < longest*d
	}
	for begin := time.Now(); going(begin) && s.ctx.Err() == nil; s.Wait(between) {
		if err := s.write(s.traffic.Next()); err != nil {
			return err
		}
	}
	return nil
}

// Move gives services new endpoints, one after the other, 20 per second.
func (s *Stage) Move(d time.Duration) error {
	const between = 50 * time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end) && s.ctx.Err() == nil; s.Wait(between) {
		for {
			next := s.traffic.Next()
			if len(next) == 1 && next[0].Kind == traffic.EndpointSlice && next[0].Class == traffic.Endpoint && strings.Contains(next[0].Object, "addresses") {
				if err := s.write(next); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// Delete deletes a share of the objects of some kinds.
func (s *Stage) Delete(share float64, kinds ...string) error {
	count := make(map[string]int)
	var gone []traffic.Write
	for key := range s.world.API.State() {
		for _, kind := range kinds {
			if key.Kind != kind {
				continue
			}
			if count[kind]++; float64(count[kind]%10) < share*10 {
				gone = append(gone, traffic.Write{Key: key, Class: traffic.Mass})
			}
		}
	}
	return s.write(gone)
}

// Newcomer adds a client that holds nothing, and asks a server for a while.
func (s *Stage) Newcomer(name, server string, d time.Duration) {
	m := history.Member{Name: name, Kind: history.Poller, Upstreams: []string{server}}
	s.guests = append(s.guests, m)
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	clients.New(clients.Config{
		Member: m, Upstreams: []clients.Upstream{{Name: server, URL: "http://" + s.world.Processes[server].Main}},
		Interval: s.plan.Asking, Timeout: timeout, Seed: s.plan.Seed,
	}, s.rec).Run(ctx)
	s.rec.Event(history.Event{At: s.rec.Now(), Member: name, Name: "ended"})
}

// Begin starts a fault that may last longer than the play. The run waits for its end.
func (s *Stage) Begin(f plan.Fault) {
	s.faults.Go(func() {
		if err := s.world.Strike(s.ctx, f); err != nil {
			s.failed.Store(&err)
		}
	})
}

// During applies a fault while play runs.
func (s *Stage) During(f plan.Fault, play func() error) error {
	struck := make(chan error, 1)
	go func() { struck <- s.world.Strike(s.ctx, f) }()
	err := play()
	return errors.Join(err, <-struck)
}
