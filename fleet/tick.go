package fleet

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// TickEvery is how often [Registry.Run] checks all clients.
const TickEvery = time.Second

// Run updates the metrics, and removes clients that have been silent for long, until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	ticker := time.NewTicker(TickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.Tick()
		}
	}
}

// Tick is one iteration of Run.
func (r *Registry) Tick() {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	var g gauges
	proxies := make(map[netip.Addr]bool)
	behind := make(map[netip.Addr]time.Duration)
	for _, c := range r.clients {
		if heard := now.Sub(c.LastHeard); heard > Forget || !c.counts() && heard > unknownFor {
			r.remove(c)
			continue
		}
		if !c.counts() {
			continue
		}
		state, versions, lag := r.judge(c, now)
		if r.dying(c, now) {
			g.dying++
			if state = Current; versions != 0 { // a separate metric counts clients that do not serve the table
				state = Behind
			}
			lag = 0 // it follows on purpose no further than the proven table
		}
		g.counts.add(state)
		if state == Silent {
			continue
		}
		if c.Inferred {
			proxies[c.address] = true
		}
		if c.Refused > 0 {
			g.refusing++
		}
		if c.Holds != nil && !c.Canary {
			behind[c.address] = max(behind[c.address], lag)
		}
	}
	g.proxies, g.lag = len(proxies), lagOfMost(behind)
	r.cfg.Metrics.show(g)
}

// lagOfMost returns the lag that 99 percent of the addresses do not exceed.
func lagOfMost(behind map[netip.Addr]time.Duration) time.Duration {
	if len(behind) == 0 {
		return 0
	}
	return slices.Sorted(maps.Values(behind))[(len(behind)*99+99)/100-1]
}
