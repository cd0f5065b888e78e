package rollout_test

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/rollout"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// run decides once a second and returns the times, since the start, at which computing starts and stops.
func run(f *rollout.Fallback, length time.Duration, contact func(since time.Duration) rollout.Contact) (starts, stops []time.Duration) {
	was := false
	for since := time.Duration(0); since <= length; since += time.Second {
		d := f.Decide(start.Add(since), contact(since))
		switch {
		case d.Compute && !was:
			starts = append(starts, since)
		case !d.Compute && was:
			stops = append(stops, since)
		}
		was = d.Compute
	}
	return starts, stops
}

func TestFallbackFollowsItsPolicy(t *testing.T) {
	silent := func(c rollout.Contact) func(time.Duration) rollout.Contact {
		return func(time.Duration) rollout.Contact { return c }
	}
	fresh := rollout.Contact{HasTable: true, TableRead: start}
	for name, c := range map[string]struct {
		policy rollout.FallbackPolicy
		have   rollout.Contact
		from   time.Duration // when the conditions are met; negative: never
	}{
		"never, without a table":  {rollout.FallbackNever, rollout.Contact{}, -1},
		"boot, without a table":   {rollout.FallbackBoot, rollout.Contact{}, time.Minute},
		"boot, with a table":      {rollout.FallbackBoot, fresh, -1},
		"boot, with an old table": {rollout.FallbackBoot, rollout.Contact{HasTable: true}, -1},
		"always, without a table": {rollout.FallbackAlways, rollout.Contact{}, time.Minute},
		"always, with a table":    {rollout.FallbackAlways, fresh, time.Hour},
	} {
		f := rollout.NewFallback(rollout.FallbackConfig{Policy: c.policy, Pod: "pod"}, start)
		starts, stops := run(f, 2*time.Hour, silent(c.have))
		switch {
		case c.from < 0 && len(starts) > 0:
			t.Errorf("%s: started after %v", name, starts)
		case c.from < 0:
		case len(starts) != 1 || starts[0] < c.from || starts[0] > c.from+rollout.DefaultFallbackWindow+2*time.Second:
			t.Errorf("%s: started after %v, want once in the window after %v", name, starts, c.from)
		case len(stops) > 0:
			t.Errorf("%s: stopped after %v", name, stops)
		}
	}
}

func TestFallbackStopsAtTheFirstAnswerAndWaitsForItsSlotAgain(t *testing.T) {
	const dead, alive = 40 * time.Minute, 40*time.Minute + 30*time.Second
	f := rollout.NewFallback(rollout.FallbackConfig{Policy: rollout.FallbackBoot, Pod: "pod"}, start)
	starts, stops := run(f, 80*time.Minute, func(since time.Duration) rollout.Contact {
		switch {
		case since < dead:
			return rollout.Contact{}
		case since < alive:
			return rollout.Contact{Answered: start.Add(since)}
		default: // answered, but had no table
			return rollout.Contact{Answered: start.Add(alive - time.Second)}
		}
	})
	if len(stops) != 1 || stops[0] != dead {
		t.Errorf("stopped after %v, want %v", stops, dead)
	}
	if len(starts) != 2 {
		t.Fatalf("started after %v, want twice", starts)
	}
	// The slots of a pod are one window apart.
	if gap := (starts[1] - starts[0]) % rollout.DefaultFallbackWindow; gap > time.Second && gap < rollout.DefaultFallbackWindow-time.Second {
		t.Errorf("started after %v, want both in the slot of the pod", starts)
	}
	if starts[1] < alive+rollout.DefaultFallbackAfter-2*time.Second {
		t.Errorf("started again after %v, want silence since %v to last for %v", starts[1], alive, rollout.DefaultFallbackAfter)
	}
}

func TestSlotsOfAFleetAreSpreadOverTheWindow(t *testing.T) {
	const pods = 10_000
	const window = 10 * time.Minute // the default
	perMinute := make([]int, 10)
	for i := range pods {
		f := rollout.NewFallback(rollout.FallbackConfig{Policy: rollout.FallbackBoot, Pod: podName(i)}, start)
		d := f.Decide(start.Add(time.Hour), rollout.Contact{})
		wait := d.StartAt.Sub(start.Add(time.Hour))
		if d.Compute || wait < 0 || wait >= window || d.Reason == "" {
			t.Fatalf("pod %d: %+v, want to wait less than %v with a reason", i, d, window)
		}
		perMinute[wait/time.Minute]++
	}
	for minute, n := range perMinute {
		if n < 850 || n > 1150 { // five standard deviations of 1000
			t.Errorf("minute %d has %d of %d slots, want about a tenth", minute, n, pods)
		}
	}
}

// A fleet that computes because no route server answers loads the API a tenth as much as one that always computes.
func TestFallbackIsTenTimesSlower(t *testing.T) {
	if rollout.Slowdown != 10 {
		t.Errorf("polls are %d times slower, want 10", rollout.Slowdown)
	}
}

func TestFallbackSaysWhatItWaitsFor(t *testing.T) {
	f := rollout.NewFallback(rollout.FallbackConfig{Policy: rollout.FallbackAlways, Pod: "pod", MaxAge: time.Minute}, start)
	have := rollout.Contact{HasTable: true, TableRead: start, Answered: start}
	if d := f.Decide(start.Add(30*time.Second), have); d != (rollout.FallbackDecision{}) {
		t.Errorf("before its time: got %+v, want nothing", d)
	}
	d := f.Decide(start.Add(2*time.Minute), have)
	if d.Compute || d.Reason == "" {
		t.Fatalf("got %+v, want a reason and a slot", d)
	}
	if again := f.Decide(start.Add(2*time.Minute+time.Second), have); !again.StartAt.Equal(d.StartAt) {
		t.Errorf("the slot has moved from %v to %v", d.StartAt, again.StartAt)
	}
	if d := f.Decide(d.StartAt, have); !d.Compute || d.Reason == "" {
		t.Errorf("in its slot: got %+v, want to compute", d)
	}
}

// A pod that waited for its slot in one outage must not treat that slot as used in the next: all pods of a fleet would list the
// cluster at once.
func TestSecondOutageWaitsForItsSlotToo(t *testing.T) {
	for i := range 50 {
		f := rollout.NewFallback(rollout.FallbackConfig{Policy: rollout.FallbackBoot, Pod: podName(i)}, start)
		first := f.Decide(start.Add(time.Minute), rollout.Contact{})
		if first.Compute || first.StartAt.IsZero() {
			t.Fatalf("%s: %+v after a minute without an answer, want to wait", podName(i), first)
		}
		slot := first.StartAt
		// An answer just before the slot, and then a long silence.
		back := rollout.Contact{Answered: slot.Add(-time.Second)}
		if d := f.Decide(back.Answered, back); d != (rollout.FallbackDecision{}) {
			t.Fatalf("%s: %+v after an answer, want nothing", podName(i), d)
		}
		if d := f.Decide(back.Answered.Add(time.Minute-1), back); d != (rollout.FallbackDecision{}) {
			t.Errorf("%s: %+v before a minute of silence, want nothing", podName(i), d)
		}
		again := back.Answered.Add(time.Minute)
		if d := f.Decide(again, back); d.Compute || !d.StartAt.Equal(slot.Add(rollout.DefaultFallbackWindow)) {
			t.Errorf("%s: %+v in the second outage, want to wait for %v", podName(i), d, slot.Add(rollout.DefaultFallbackWindow))
		}
		// The same if there was a table for a while.
		f.Decide(again.Add(time.Second), rollout.Contact{HasTable: true})
		late := slot.Add(rollout.DefaultFallbackWindow + time.Second)
		if d := f.Decide(late, back); d.Compute || !d.StartAt.Equal(slot.Add(2*rollout.DefaultFallbackWindow)) {
			t.Errorf("%s: %+v after a table was there, want to wait for the slot after the next", podName(i), d)
		}
	}
}

// A process that was stopped for the whole time between two outages still waits for its slot.
func TestSlotOfAnOutageThatNobodySawBegin(t *testing.T) {
	f := rollout.NewFallback(rollout.FallbackConfig{Policy: rollout.FallbackBoot, Pod: "pod"}, start)
	first := f.Decide(start.Add(time.Minute), rollout.Contact{})
	if d := f.Decide(first.StartAt, rollout.Contact{}); !d.Compute {
		t.Fatalf("%+v in its slot, want to compute", d)
	}
	back := rollout.Contact{Answered: first.StartAt.Add(time.Minute)} // while the process is stopped
	late := first.StartAt.Add(rollout.DefaultFallbackWindow + time.Minute)
	if d := f.Decide(late, back); d.Compute || !d.StartAt.Equal(first.StartAt.Add(2*rollout.DefaultFallbackWindow)) {
		t.Errorf("%+v in the second outage, want to wait for %v", d, first.StartAt.Add(2*rollout.DefaultFallbackWindow))
	}
}
