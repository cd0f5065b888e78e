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
	now := r.cfg.Now().UnixNano()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	var counts Counts
	refusing, dying := 0, 0
	proxies := make(map[netip.Addr]bool)
	live := make(map[netip.Addr][]*client)
	behind := make(map[netip.Addr]time.Duration)
	for _, c := range r.clients {
		if now-c.heard > int64(Forget) || !c.counts() && now-c.heard > int64(unknownFor) {
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
		if state != Silent && c.inferred() {
			proxies[c.address] = true
		}
		if state != Silent && c.report != nil && c.report.figures != nil && c.report.figures.refusedNew > 0 {
			refusing++
		}
		if state == Silent || c.holds == nil || c.canary {
			continue
		}
		live[c.address] = append(live[c.address], c)
		behind[c.address] = max(behind[c.address], lag)
	}
	r.cfg.Metrics.show(counts, len(proxies), refusing, dying, lagOfMost(behind))
	r.time(live)
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

// time checks which shares of the addresses of live clients have reached the tables being measured. Clients first heard after the
// publication of a table do not count for it.
func (r *Registry) time(live map[netip.Addr][]*client) {
	all := r.versions.list
	newest := -1 // index of a version that all have reached, and with it the earlier ones
	for i := len(all) - 1; i >= 0 && !all[i].done; i-- {
		v := &all[i]
		if newest >= 0 {
			r.finish(v, all[newest].at+int64(all[newest].took[len(shares)-1]))
			continue
		}
		if i < len(all)-maxPending {
			v.done = true
			continue
		}
		if r.timeOne(v, live) {
			newest = i
		}
	}
}

// timeOne checks one table, and reports whether all clients have it.
func (r *Registry) timeOne(v *version, live map[netip.Addr][]*client) bool {
	total, holders, latest := 0, 0, v.at
	for _, clients := range live {
		counts, holds := false, true
		for _, c := range clients {
			if c.first > v.at {
				continue
			}
			if counts = true; c.reached(v.order) {
				latest = max(latest, c.since)
			} else {
				holds = false
			}
		}
		if counts {
			total++
		}
		if counts && holds {
			holders++
		}
	}
	if total == 0 {
		return false
	}
	for i, share := range shares {
		if v.took[i] == notYet && holders >= needed(total, share) {
			v.took[i] = time.Duration(latest - v.at)
			r.cfg.Metrics.took(i, v.took[i])
		}
	}
	v.done = holders == total
	return v.done
}

// finish ends the measurement of a table that all have passed at that moment by reaching a later one.
func (r *Registry) finish(v *version, at int64) {
	for i := range shares {
		if v.took[i] == notYet {
			v.took[i] = time.Duration(max(at-v.at, 0))
			r.cfg.Metrics.took(i, v.took[i])
		}
	}
	v.done = true
}

// of returns a pointer to the counter for s; unknown states (from newer clients) share a scratch counter.
func (c *Counts) of(s State) *int {
	switch s {
	case Current:
		return &c.Current
	case Behind:
		return &c.Behind
	case Rejected:
		return &c.Rejected
	case Silent:
		return &c.Silent
	}
	return new(int)
}

func (c *Counts) add(s State) { *c.of(s)++ }

// Total returns the sum of all states.
func (c Counts) Total() int { return c.Current + c.Behind + c.Rejected + c.Silent }

// Of returns the number of clients in a state.
func (c Counts) Of(s State) int { return *c.of(s) }
