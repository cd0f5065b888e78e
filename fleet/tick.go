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
	var counts Counts
	dying, refusing := 0, 0
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
			dying++
			if state = Current; versions != 0 { // a separate metric counts clients that do not serve the table
				state = Behind
			}
			lag = 0 // it follows on purpose no further than the proven table
		}
		counts.add(state)
		if state == Silent {
			continue
		}
		if c.Inferred {
			proxies[c.address] = true
		}
		if c.Refused > 0 {
			refusing++
		}
		if c.Holds != nil && !c.Canary {
			behind[c.address] = max(behind[c.address], lag)
		}
	}
	m := r.cfg.Metrics
	m.proxies.Set(float64(len(proxies)))
	m.dying.Set(float64(dying))
	m.refusing.Set(float64(refusing))
	for _, s := range States() {
		m.clients.WithLabelValues(string(s)).Set(float64(counts.Of(s)))
	}
	if m.lag.Set(0); len(behind) > 0 { // the lag that 99 percent of the addresses do not exceed
		m.lag.Set(slices.Sorted(maps.Values(behind))[(len(behind)*99+99)/100-1].Seconds())
	}
}
