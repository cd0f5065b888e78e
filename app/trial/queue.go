package trial

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Limits of the queue.
const (
	roundCalls    = 500     // calls of one round, shared by its namespaces
	minShare      = 10      // calls of each namespace in a round
	maxBatch      = 5000    // calls in one table
	maxBatchBytes = 4 << 20 // and their texts

	// Limits of the queue of one namespace. A review requests the others again.
	maxWaiting      = 2000
	maxWaitingBytes = 4 << 20

	idleTenant = time.Hour // for which a harmful namespace is remembered

	unwanted = 30 * time.Second // until a call is dropped that no review requests, because its object was changed or deleted

	// minDelay and maxDelay limit the time between two turns of a harmful namespace, turnFailures the processes that one turn costs.
	minDelay     = 10 * time.Second
	maxDelay     = 10 * time.Minute
	turnFailures = 20
)

type ask struct {
	call    Call
	since   time.Time
	wanted  time.Time // when a review last requested it; zero if no review did
	of      []string  // namespaces with the call, at most maxOf; the call counts for the first one
	strikes int       // how often the call alone ended or blocked the process
	lapsed  bool
}

const maxOf = 8

// tenant is a namespace with waiting calls, or a harmful one.
type tenant struct {
	waiting, bytes int

	// A namespace that harmed the proxy is tried alone, after all others.
	faults   int       // 0 for a namespace in good standing; each fault doubles the delay
	until    time.Time // begin of its next turn
	failures int       // of the current turn
	suspects search
}

// Kinds of steps.
const (
	ofAll      = iota // a round: the same number of calls of each namespace in good standing
	ofSuspects        // a part of a failed round
	ofOne             // a harmful namespace
)

type step struct {
	kind   int
	tenant string   // of ofOne
	units  [][]Call // the calls by namespace; for ofOne each call is a unit
	group  int      // of a search that begins with these units; -1 without a search
	rests  bool     // the idle proxy is watched for a while; calls that it survives are accepted
}

// calls returns the calls of a step, alternating between the units.
func (s *step) calls() (all []Call) {
	for i := 0; ; i++ {
		more := false
		for _, unit := range s.units {
			if i < len(unit) {
				all, more = append(all, unit[i]), true
			}
		}
		if !more {
			return all
		}
	}
}

// request queues a call of a route for a trial. It returns nil if the queue of its namespace is full. wanted is the time of a
// review, or zero. The caller holds mu.
func (t *Trial) request(c Call, route string, namespaceOf func(id string) string, wanted time.Time) *ask {
	a, namespace := t.asked[c], namespaceOf(route)
	if a == nil {
		of := t.tenantOf(namespace)
		if of.waiting >= maxWaiting || of.waiting > 0 && of.bytes+len(c.Text) > maxWaitingBytes {
			return nil
		}
		of.waiting++
		of.bytes += len(c.Text)
		a = &ask{call: c, since: time.Now(), wanted: wanted}
		t.asked[c] = a
		notify(t.wake)
	}
	if len(a.of) < maxOf && !slices.Contains(a.of, namespace) {
		a.of = append(a.of, namespace)
	}
	if !a.wanted.IsZero() { // a call without a review stays in the queue
		a.wanted = wanted
	}
	return a
}

func (t *Trial) tenantOf(namespace string) *tenant {
	of := t.tenants[namespace]
	if of == nil {
		of = &tenant{}
		t.tenants[namespace] = of
	}
	return of
}

// forget removes a call from the queue. The caller holds mu.
func (t *Trial) forget(c Call) {
	if a := t.asked[c]; a != nil {
		delete(t.asked, c)
		of := t.tenantOf(a.of[0])
		of.waiting--
		of.bytes -= len(c.Text)
	}
}

// chooses returns the namespace with which a call is tried: preferably one in good standing, with few calls. The caller holds mu.
func (t *Trial) chooses(a *ask) (string, *tenant) {
	best := slices.MinFunc(a.of, func(x, y string) int {
		of, other := t.tenantOf(x), t.tenantOf(y)
		return cmp.Or(cmp.Compare(of.faults, other.faults), cmp.Compare(of.waiting, other.waiting))
	})
	return best, t.tenantOf(best)
}

// clean drops calls that reviews no longer request, and namespaces without recent faults. The caller holds mu.
func (t *Trial) clean(now time.Time) {
	for c, a := range t.asked {
		if !a.wanted.IsZero() && t.reviewed.Sub(a.wanted) > unwanted {
			t.forget(c)
		}
	}
	maps.DeleteFunc(t.tenants, func(_ string, of *tenant) bool {
		return of.waiting == 0 && (of.faults == 0 || now.Sub(of.until) > idleTenant)
	})
}

// next returns what the proxy loads next; a step without units if nothing is due. Rounds alternate with other steps, so a harmful
// namespace delays all others by at most one step.
func (t *Trial) next(now time.Time) step {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clean(now)
	all, one := t.waiting()
	kinds := []int{ofAll, ofSuspects, ofOne}
	switch {
	case t.ran == ofAll && t.went:
		kinds = []int{ofSuspects, ofOne, ofAll}
	case t.ran == ofAll, t.ran == ofSuspects && t.went:
		kinds = []int{ofSuspects, ofAll, ofOne}
	}
	for _, kind := range kinds {
		s := step{kind: kind, group: -1}
		switch kind {
		case ofAll:
			s.units, s.rests = t.careful(round(all)), true
		case ofSuspects:
			t.suspects.drop(t.gone(0))
			s.group, s.units, s.rests = t.suspects.next()
		case ofOne:
			s.tenant = t.due(one, now)
			t.turn(&s, one[s.tenant])
		}
		if len(s.units) > 0 {
			return s
		}
	}
	return step{}
}

// waiting returns the queues of namespaces in good standing (all) and of harmful ones (one), the oldest calls first. The caller
// holds mu.
func (t *Trial) waiting() (all, one map[string][]*ask) {
	all, one = map[string][]*ask{}, map[string][]*ask{}
	suspects := t.suspects.calls()
	for c, a := range t.asked {
		name, of := t.chooses(a)
		switch {
		case a.strikes > 0 || of.faults > 0:
			one[name] = append(one[name], a)
		case !suspects[c]:
			all[name] = append(all[name], a)
		}
	}
	for _, by := range []map[string][]*ask{all, one} {
		for _, list := range by {
			slices.SortFunc(list, func(a, b *ask) int { return cmp.Or(a.since.Compare(b.since), compareCalls(a.call, b.call)) })
		}
	}
	return all, one
}

// round returns the same number of calls of each namespace, the longest waiting first.
func round(all map[string][]*ask) (units [][]Call) {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(all[a][0].since.Compare(all[b][0].since), cmp.Compare(a, b))
	})
	names = names[:min(len(names), maxBatch/minShare)]
	for _, name := range names {
		units = append(units, share(all[name], max(roundCalls/len(names), minShare), maxBatchBytes/len(names)))
	}
	return units
}

// careful leaves out the units that have names with harmful verdicts, in every other round that has both kinds: others must not wait for
// restarts of the proxy. The caller holds mu.
func (t *Trial) careful(units [][]Call) [][]Call {
	sorted, safe := t.ordered(units)
	if t.left = !t.left && 0 < safe && safe < len(units); t.left {
		return sorted[:safe]
	}
	return units
}

// share returns the first calls, at least one.
func share(of []*ask, n, bytes int) (calls []Call) {
	for _, a := range of[:min(len(of), n)] {
		if bytes -= len(a.call.Text); bytes < 0 && len(calls) > 0 {
			break
		}
		calls = append(calls, a.call)
	}
	return calls
}

// due returns the namespace whose turn has waited longest. The caller holds mu.
func (t *Trial) due(one map[string][]*ask, now time.Time) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(one)), func(n string) bool { return t.tenants[n].until.After(now) })
	slices.SortStableFunc(names, func(a, b string) int { return t.tenants[a].until.Compare(t.tenants[b].until) })
	return append(names, "")[0]
}

// turn sets what a harmful namespace tries next: first the suspects, then its other calls, and calls with a strike last. The
// caller holds mu.
func (t *Trial) turn(s *step, waits []*ask) {
	if len(waits) == 0 {
		return
	}
	of := t.tenants[s.tenant]
	of.suspects.drop(t.gone(of.faults))
	if s.group, s.units, s.rests = of.suspects.next(); len(s.units) > 0 {
		return
	}
	s.units, s.rests = [][]Call{{waits[0].call}}, true
	if clean := slices.DeleteFunc(slices.Clone(waits), func(a *ask) bool { return a.strikes > 0 }); len(clean) > 0 {
		s.units = singles(share(clean, roundCalls, maxBatchBytes))
	}
}

func singles(calls []Call) [][]Call { return slices.Collect(slices.Chunk(calls, 1)) }

// gone returns a function that reports whether a call must not be tried with others of namespaces with at most this many faults.
// The caller holds mu.
func (t *Trial) gone(faults int) func(Call) bool {
	return func(c Call) bool {
		a := t.asked[c]
		if a == nil || a.strikes > 0 {
			return true
		}
		_, of := t.chooses(a)
		return of.faults > faults
	}
}

// blame records a failed step. Of several units, one is harmful and is searched for. A single unit is a harmful namespace, or a
// harmful call, which is returned. The caller holds mu.
func (t *Trial) blame(s step, alone *Call, rests bool, now time.Time) (struck *ask) {
	in := &t.suspects
	if s.kind == ofOne {
		in = &t.tenants[s.tenant].suspects
		t.tenants[s.tenant].failures++
	}
	one := len(s.units) == 1
	switch {
	case alone != nil: // nothing is known about the others
		struck = t.asked[*alone]
		t.accuse(struck, now)
		return struck
	case s.group >= 0:
		in.failed(s.group, len(s.units), rests)
	case !one:
		units, safe := t.ordered(s.units)
		in.begin(units, safe, rests)
	}
	if one {
		return t.find(s.units[0], rests, now)
	}
	return struck
}

// find marks the namespace of a unit as harmful. It returns the only call of the unit, or nil if it has several, which are
// searched in its turn. The caller holds mu.
func (t *Trial) find(unit []Call, rests bool, now time.Time) (struck *ask) {
	struck = t.asked[unit[0]]
	of := t.accuse(struck, now)
	if len(unit) > 1 {
		units, safe := t.ordered(singles(unit))
		of.suspects.begin(units, safe, rests)
		return nil
	}
	return struck
}

// accuse marks the namespace of a call as harmful. Its first turn has no delay. The caller holds mu.
func (t *Trial) accuse(a *ask, now time.Time) *tenant {
	_, of := t.chooses(a)
	if of.faults == 0 {
		of.faults, of.until = 1, now
	}
	return of
}

// survived records a step that the proxy survived. The caller holds mu.
func (t *Trial) survived(s step, now time.Time) {
	switch of := t.tenants[s.tenant]; {
	case s.kind == ofSuspects:
		t.suspects.passed(s.group, len(s.units))
		if unit := t.suspects.found(); unit != nil { // tried alone from now on, so that it cannot fail the next round
			t.find(unit, s.rests, now)
		}
	case s.kind == ofOne && s.group >= 0:
		of.suspects.passed(s.group, len(s.units)) // the last unit has its turn alone
	case s.kind == ofOne && of.failures == 0:
		of.faults, of.until = max(0, of.faults-1), now.Add(minDelay)
	}
}

// endTurn ends the turn of a namespace without waiting calls, or with too many failures. The caller holds mu.
func (t *Trial) endTurn(name string, now time.Time) {
	of := t.tenants[name]
	if of.waiting > 0 && of.failures < turnFailures {
		return
	}
	if of.failures > 0 {
		of.until = now.Add(min(minDelay<<(of.faults-1), maxDelay))
		of.faults = min(of.faults+1, 8)
	}
	of.failures = 0
}

// ordered puts units first that only have filters and predicates without harmful verdicts so far, and counts them. The caller
// holds mu.
func (t *Trial) ordered(units [][]Call) (sorted [][]Call, safe int) {
	good, bad := make(map[string]bool), make(map[string]bool)
	for c, v := range t.known {
		good[c.name()] = good[c.name()] || v.Result == Accepted
		bad[c.name()] = bad[c.name()] || v.Result != Accepted && v.Result != Refused
	}
	var rest [][]Call
	for _, unit := range units {
		if slices.ContainsFunc(unit, func(c Call) bool {
			return !good[c.name()] || bad[c.name()] || t.asked[c] != nil && t.asked[c].strikes > 0
		}) {
			rest = append(rest, unit)
		} else {
			sorted = append(sorted, unit)
		}
	}
	return append(sorted, rest...), len(sorted)
}

// Limits of the verdicts.
const (
	maxKnown      = 100_000
	maxKnownBytes = 64 << 20 // of their texts
)

// trim drops a tenth of the verdicts if there are too many: the oldest accepted ones first, then the oldest others. The caller
// holds mu.
func (t *Trial) trim() {
	size := func(c Call) int { return len(c.Text) + len(t.known[c].Words) }
	bytes := 0
	for c := range t.known {
		bytes += size(c)
	}
	if len(t.known) <= maxKnown && bytes <= maxKnownBytes {
		return
	}
	rank := func(c Call) int { return slices.Index([]Result{Refused, Accepted}, t.known[c].Result) }
	kept := 0
	for i, c := range slices.SortedFunc(maps.Keys(t.known), func(a, b Call) int {
		return cmp.Or(rank(a)-rank(b), t.known[b].At.Compare(t.known[a].At))
	}) {
		if kept += size(c); i >= maxKnown*9/10 || kept > maxKnownBytes*9/10 {
			delete(t.known, c)
		}
	}
}
