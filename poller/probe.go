package poller

import (
	"context"
	"math/rand/v2"
	"time"
)

// probeTimeout is how long a probe may take: a source that is worth a read answers one object in this time.
const probeTimeout = 1500 * time.Millisecond

// probing finds out when a source that failed answers again. Reads that fail come after a growing delay, because they may
// cost much; a probe costs little, so that it can come often.
//
// A probe that succeeds makes the next read come at once. If that fails all the same, reads keep to their delay until a probe
// has failed: what they fail of is nothing that a probe can see.
type probing struct {
	source   Prober // nil: there are no probes
	interval time.Duration
	timer    *time.Timer
	credit   bool // a probe that succeeds is worth a read
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

// due gives a value when a probe is due.
func (p *probing) due() <-chan time.Time { return p.timer.C }

// after is told how many reads in a row have failed.
func (p *probing) after(failures int) {
	p.timer.Stop()
	switch {
	case failures == 0:
		p.credit = true
	case p.source != nil:
		p.timer.Reset(p.wait())
	}
}

// wait is the time to the next probe, with jitter so that replicas do not stay together.
func (p *probing) wait() time.Duration {
	return p.interval - p.interval/5 + time.Duration(rand.Int64N(int64(p.interval/5)+1))
}

// answers makes a probe and reports whether a read is worth it now. If not, another probe follows.
func (p *probing) answers(ctx context.Context) bool {
	if p.probe(ctx) == nil && p.credit {
		p.credit = false
		return true
	}
	p.timer.Reset(p.wait())
	return false
}

// probe says why a read would fail, if a probe can tell.
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
