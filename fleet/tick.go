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

// Run measures how long the fleet takes to hold published tables, and removes clients that have been silent for long, until ctx
// ends.
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
	live := make(map[netip.Addr][]*client)
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
		if c.Figures != nil && c.Figures.RefusedNew > 0 {
			g.refusing++
		}
		if c.Holds != nil && !c.Canary {
			live[c.address] = append(live[c.address], c)
			behind[c.address] = max(behind[c.address], lag)
		}
	}
	g.proxies, g.lag = len(proxies), lagOfMost(behind)
	r.cfg.Metrics.show(g)
	for i := max(0, len(r.versions.list)-maxPending); i < len(r.versions.list); i++ {
		r.time(&r.versions.list[i], live)
	}
}

// lagOfMost returns the lag that 99 percent of the addresses do not exceed.
func lagOfMost(behind map[netip.Addr]time.Duration) time.Duration {
	if len(behind) == 0 {
		return 0
	}
	return slices.Sorted(maps.Values(behind))[needed(len(behind), 99)-1]
}

// needed returns how many addresses make up a share, rounded up.
func needed(addresses, percent int) int { return (addresses*percent + 99) / 100 }

// time checks which shares of the addresses of live clients have reached a table. Clients first heard after its publication do
// not count.
func (r *Registry) time(v *version, live map[netip.Addr][]*client) {
	if v.took[len(shares)-1] != notYet {
		return
	}
	total, holders, latest := 0, 0, v.at
	for _, clients := range live {
		counts, holds := false, true
		for _, c := range clients {
			switch {
			case c.FirstHeard.After(v.at):
				continue
			case !c.reached(v.order):
				holds = false
			case c.Holds.Since.After(latest):
				latest = c.Holds.Since
			}
			counts = true
		}
		if counts {
			total++
		}
		if counts && holds {
			holders++
		}
	}
	for i, share := range shares {
		if total > 0 && v.took[i] == notYet && holders >= needed(total, share) {
			v.took[i] = latest.Sub(v.at)
			r.cfg.Metrics.took(i, v.took[i])
		}
	}
}
