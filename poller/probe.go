package poller

import (
	"context"
	"math/rand/v2"
	"time"
)

// probeTimeout limits a probe: a source worth reading returns one object in this time.
const probeTimeout = 1500 * time.Millisecond

// probing finds out when a failed source answers again. Failing reads come after a growing delay, because they may be expensive;
// probes are cheap and come often.
//
// A successful probe triggers a read at once. If that read fails nevertheless, reads return to their delay until a probe has
// failed: the cause is something that a probe cannot see.
type probing struct {
	source   Prober // nil means no probes
	interval time.Duration
	timer    *time.Timer
	credit   bool // whether a successful probe triggers a read
}

func newProbing(cfg Config) *probing {
	p := &probing{interval: cfg.ProbeInterval, credit: true, timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	if p.interval > 0 {
		p.source, _ = cfg.Source.(Prober)
	}
	return p
}

func (p *probing) stop() { p.timer.Stop() }

// due sends a value when a probe is due.
func (p *probing) due() <-chan time.Time { return p.timer.C }

// after sets how many consecutive reads have failed.
func (p *probing) after(failures int) {
	p.timer.Stop()
	switch {
	case failures == 0:
		p.credit = true
	case p.source != nil:
		p.timer.Reset(p.wait())
	}
}

// wait returns the time to the next probe, with jitter so that replicas do not stay in step.
func (p *probing) wait() time.Duration {
	return p.interval - p.interval/5 + time.Duration(rand.Int64N(int64(p.interval/5)+1))
}

// answers sends a probe and reports whether to read now. If not, it schedules another probe.
func (p *probing) answers(ctx context.Context) bool {
	if p.probe(ctx) == nil && p.credit {
		p.credit = false
		return true
	}
	p.timer.Reset(p.wait())
	return false
}

// probe returns why a read would fail, if a probe can tell.
func (p *probing) probe(ctx context.Context) error {
	if p.source == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := p.source.Probe(ctx)
	if err != nil {
		p.credit = true
	}
	return err
}
