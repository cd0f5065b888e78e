package trial

import (
	"context"
	"slices"
	"time"
)

// ask is a call that waits for its verdict.
type ask struct {
	since  time.Time
	lapsed bool
}

// Ask asks for the trial of calls, and returns how many have no verdict yet.
func (t *Trial) Ask(calls []Call) (waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range calls {
		if _, known := t.known[c]; !known {
			waiting++
			t.request(c)
		}
	}
	return waiting
}

// request asks for the trial of a call without a verdict. The caller holds mu.
func (t *Trial) request(c Call) *ask {
	a := t.asked[c]
	if a == nil {
		a = &ask{since: time.Now()}
		t.asked[c] = a
		notify(t.wake)
	}
	return a
}

// notify wakes whoever waits for a channel of one place.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run tries calls until the context ends, and waits then for a write of the file in progress.
func (t *Trial) Run(ctx context.Context) {
	defer t.flush()
	for ctx.Err() == nil {
		batch := t.next()
		if len(batch) == 0 {
			_, _ = t.ready(ctx) // for the status, and to see a new build
			select {
			case <-ctx.Done():
			case <-t.wake:
			case <-time.After(lookEvery):
			}
			continue
		}
		t.try(ctx, batch)
		t.expire(time.Now())
	}
}

// next returns the calls to try next: those that were not tried yet, before the parts of a table that went wrong. So a call that costs the proxy
// its process again and again delays no other.
func (t *Trial) next() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	var batch []Call
	size := 0
	for c := range t.asked {
		if _, suspect := t.suspects[c]; suspect {
			continue
		}
		batch = append(batch, c)
		if size += len(c.Text); len(batch) == maxBatch || size > maxBatchBytes {
			break
		}
	}
	if n := len(t.batches); len(batch) == 0 && n > 0 {
		batch = t.batches[n-1]
		t.batches = t.batches[:n-1]
	}
	slices.SortFunc(batch, compareCalls)
	return batch
}

// expire lets calls lapse that have waited too long.
func (t *Trial) expire(now time.Time) {
	t.mu.Lock()
	lapsed := 0
	for c, a := range t.asked {
		if !a.lapsed && t.waitedFor(c, a, now) {
			a.lapsed = true
			lapsed++
		}
	}
	silent := t.silent
	t.mu.Unlock()
	if lapsed > 0 {
		t.log.Error(LogLapsed, "count", lapsed, "error", silent)
		notify(t.changed)
	}
}

// waitedFor reports whether a call has waited too long. The caller holds mu.
func (t *Trial) waitedFor(c Call, a *ask, now time.Time) bool {
	if _, suspect := t.suspects[c]; suspect {
		return false
	}
	if t.silent == nil || len(t.suspects) > 0 {
		return now.Sub(a.since) >= maxWait
	}
	from := a.since
	if t.since.After(from) {
		from = t.since
	}
	return now.Sub(from) >= t.cfg.Timeout
}

// pass lets all calls lapse that are not suspected, because their time is over.
func (t *Trial) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c, a := range t.asked {
		if _, suspect := t.suspects[c]; !suspect {
			a.lapsed = true
		}
	}
}

// builds takes the build of the proxy. Verdicts about another one say nothing of it.
func (t *Trial) builds(s sign) {
	t.mu.Lock()
	was := t.build
	if t.build = s.build; was == s.build {
		t.mu.Unlock()
		return
	}
	clear(t.known)
	t.mu.Unlock()
	if was != "" {
		t.log.Warn(LogBuild, "was", was, "is", s.build)
	}
	if t.cfg.Served != nil {
		if table := t.cfg.Served(); table != nil {
			t.Ask(CallsOf(table.Routes().All()))
		}
	}
}
