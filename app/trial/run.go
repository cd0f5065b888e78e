package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/api"
)

type outcome struct {
	result Result
	words  string
	// alone is the call that did it; nil if it is not known.
	alone *Call
	// atRest means that the harm showed only in the idle proxy.
	atRest bool
	// refused are the errors of the proxy about calls that it does not accept; for unused ones the time was too short.
	refused map[Call]string
	unused  map[Call]bool
}

// slow is the result of a table that the proxy survives, but that delays others. It is no verdict.
const slow Result = "slow"

// Run tries calls until the context ends.
func (t *Trial) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s := t.next(time.Now())
		if len(s.units) > 0 {
			t.try(ctx, s)
			t.expire(time.Now())
			continue
		}
		if _, err := t.ready(ctx); err == nil { // for the status, and to see a new build
			t.answers(nil)
		}
		t.expire(time.Now())
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-time.After(t.idle(time.Now())):
		}
	}
}

// idle returns the time until the next turn of a namespace, or the next look at the proxy.
func (t *Trial) idle(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := lookEvery
	for _, of := range t.tenants {
		if of.waiting > 0 && of.faults > 0 {
			wait = min(wait, max(of.until.Sub(now), 0))
		}
	}
	return wait
}

// try makes the proxy load the calls of a step and records the outcome.
func (t *Trial) try(ctx context.Context, s step) {
	before, err := t.ready(ctx)
	if err != nil {
		pause(ctx, t.retry)
		return
	}
	out, err := t.apply(ctx, s, before)
	if ctx.Err() != nil {
		return
	}
	if t.answers(err); err != nil {
		pause(ctx, t.retry)
		return
	}
	t.record(s, out, before, time.Now())
}

// ready returns the state of a proxy that can try calls, or why it cannot.
func (t *Trial) ready(ctx context.Context) (sign, error) {
	s, err := t.proxy.look(ctx)
	if err == nil {
		t.builds(s)
	}
	t.mu.Lock()
	switch {
	case closed(err): // it has ended, and the next one must not be taken for it by a probe
		t.tainted = 0
	case err == nil && t.tainted == s.start:
		err = errors.New("the process of the trial proxy must be replaced: it hangs, or is permanently busy")
	case err == nil:
		t.tainted, t.harmed = 0, false
	}
	t.mu.Unlock()
	if err != nil {
		t.answers(err)
	}
	return s, err
}

// answers records whether the proxy answers, and logs changes.
func (t *Trial) answers(err error) {
	t.mu.Lock()
	was := t.silent
	if t.silent = err; err != nil && was == nil {
		t.since = time.Now()
	}
	t.mu.Unlock()
	switch {
	case err != nil && was == nil:
		t.log.Error(LogSilent, "error", err)
	case err == nil && was != nil:
		t.log.Info("trial proxy answers")
	}
}

// expire lets calls lapse while the proxy does not answer. If a trial ended its process, the proxy gets the time that a kubelet
// takes at most. Calls that may have harmed it do not lapse.
func (t *Trial) expire(now time.Time) {
	t.mu.Lock()
	lapsed, silent := 0, t.silent
	patience := t.cfg.Timeout
	if t.harmed {
		patience = max(patience, maxSilence)
	}
	if silent != nil && now.Sub(t.since) >= patience {
		lapsed = t.lapse(func(a *ask) bool { return now.Sub(a.since) >= patience })
	}
	t.mu.Unlock()
	if lapsed > 0 {
		t.log.Error(LogLapsed, "count", lapsed, "error", silent)
		notify(t.changed)
	}
}

// lapse lets some of the calls lapse that are not suspects, and counts them. The caller holds mu.
func (t *Trial) lapse(due func(*ask) bool) (n int) {
	searched := t.suspects.calls()
	for c, a := range t.asked {
		if !a.lapsed && !searched[c] && !t.suspected(a) && due(a) {
			a.lapsed = true
			n++
		}
	}
	return n
}

// suspected reports whether a call waits for the turn of a harmful namespace. The caller holds mu.
func (t *Trial) suspected(a *ask) bool {
	_, of := t.chooses(a)
	return a.strikes > 0 || of.faults > 0
}

// builds drops the verdicts if the proxy has another build.
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
		t.log.Warn("the proxy has another version; every text is tried again", "was", was, "is", s.build)
	}
	if t.cfg.Served != nil {
		if table := t.cfg.Served(); table != nil {
			t.Ask(CallsOf(table.Routes().All()))
		}
	}
}

// notify sends to a channel with a buffer of one, unless it is full.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// apply lets the proxy load a table and checks the proxy. It returns an error if the table did not reach the proxy.
func (t *Trial) apply(ctx context.Context, s step, before sign) (outcome, error) {
	batch := s.calls()
	marker, fetched := t.doc.set(batch)
	defer t.doc.set(nil) // the proxy drops the calls after their trial
	select {
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	case <-fetched:
	case <-time.After(t.fetch):
		return outcome{}, fmt.Errorf("the trial proxy has not fetched its table for %v: start it with -routes-urls", t.fetch)
	}
	more := time.Duration(len(batch)) * time.Millisecond
	began := time.Now()
	if out := t.loads(ctx, marker, before, t.limits.load+more); out.result != Accepted {
		return out, ctx.Err()
	}
	took := time.Since(began)
	words, err := t.proxy.refused(ctx, marker, len(batch))
	if err != nil {
		if out := t.same(ctx, before); out.result != Accepted {
			return out, ctx.Err()
		}
		return outcome{}, err
	}
	if took > t.limits.load/2+more && s.kind != ofOne {
		return outcome{result: slow, words: fmt.Sprintf("it has applied the table after %v", took)}, ctx.Err()
	}
	out := outcome{result: Accepted, refused: map[Call]string{}, unused: map[Call]bool{}}
	for i, c := range batch {
		if text, refused := words[idOf(i)]; refused {
			out.refused[c] = text
		}
	}
	if found := t.uses(ctx, s, batch, &out, before); found.result != Accepted {
		return found, ctx.Err()
	}
	if s.rests {
		windows := busyWindows
		if len(batch) > 1 {
			windows--
		}
		if found := t.resting(ctx, before, windows); found.result != Accepted {
			found.atRest = true
			return found, ctx.Err()
		}
	}
	return out, ctx.Err()
}

// uses sends requests through the calls of a table, within the time of one round.
func (t *Trial) uses(ctx context.Context, s step, batch []Call, out *outcome, before sign) outcome {
	began, uses := time.Now(), t.takesRequests(ctx)
	for i, c := range batch {
		if _, refused := out.refused[c]; refused || !uses || !c.usable() {
			continue
		}
		if i > 0 && time.Since(began) > t.use {
			out.unused[c] = true
			continue
		}
		sent := time.Now()
		if err := t.proxy.use(ctx, hostOf(i), t.use); err != nil {
			found := outcome{result: Hung, words: err.Error(), alone: &batch[i]}
			if same := t.same(ctx, before); same.result != Accepted {
				found.result, found.words = same.result, same.words
			}
			return found
		}
		if took := time.Since(sent); took > t.use/2 && s.kind != ofOne {
			return outcome{result: slow, words: fmt.Sprintf("a request took %v", took), alone: &batch[i]}
		}
	}
	return outcome{result: Accepted}
}

// takesRequests reports whether the proxy answers requests, using the host of the marker, which has no call.
func (t *Trial) takesRequests(ctx context.Context) bool {
	if t.cfg.Traffic == nil {
		return false
	}
	err := t.proxy.use(ctx, markerHost, t.use)
	t.mu.Lock()
	was := t.unused
	t.unused = err != nil
	t.mu.Unlock()
	if err != nil && !was {
		t.log.Error("trial proxy does not accept requests; texts are loaded but not exercised",
			"listener", t.cfg.Traffic.String(), "error", err)
	}
	return err == nil
}

// loads waits until the proxy shows the table with a marker.
func (t *Trial) loads(ctx context.Context, marker string, before sign, within time.Duration) outcome {
	deadline := time.After(within)
	for {
		if t.proxy.has(ctx, marker) {
			return t.same(ctx, before)
		}
		if out := t.same(ctx, before); out.result != Accepted {
			return out
		}
		select {
		case <-ctx.Done():
			return outcome{result: Hung, words: ctx.Err().Error()}
		case <-deadline:
			return outcome{result: Hung, words: fmt.Sprintf("it did not apply the table within %v", within)}
		case <-time.After(askEvery):
		}
	}
}

// same checks whether the proxy still has the same process.
func (t *Trial) same(ctx context.Context, before sign) outcome {
	now, err := t.proxy.look(ctx)
	for n := 0; err != nil && !closed(err) && n < 3 && ctx.Err() == nil; n++ { // one lost answer proves nothing
		pause(ctx, t.retry)
		now, err = t.proxy.look(ctx)
	}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return outcome{result: Hung, words: "its support listener does not answer: " + err.Error()}
	case err != nil:
		return outcome{result: Died, words: "its support listener is closed: " + err.Error()}
	case now.start != before.start:
		return outcome{result: Died, words: "its process ended and was started again"}
	}
	return outcome{result: Accepted}
}

func closed(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// resting samples the idle proxy. High CPU usage counts only if it persists across every window, because finishing a table load
// is no fault, and because the share of a core depends on the machine. For several calls one window less suffices: they are tried
// again.
func (t *Trial) resting(ctx context.Context, before sign, windows int) outcome {
	for window := 1; ; window++ {
		first, err := t.proxy.look(ctx)
		if err == nil {
			pause(ctx, t.rest)
		}
		if out := t.same(ctx, before); out.result != Accepted || err != nil {
			return out
		}
		last, err := t.proxy.look(ctx)
		if err != nil {
			return outcome{result: Accepted}
		}
		if more := last.memory - before.memory; more > t.growth {
			return outcome{result: Grew, words: fmt.Sprintf("it needs %.0f MiB more than before", more/(1<<20))}
		}
		used := (last.cpu - first.cpu) / last.at.Sub(first.at).Seconds()
		switch {
		case used <= t.busy:
			return outcome{result: Accepted}
		case window >= windows:
			return outcome{result: Grew, words: fmt.Sprintf("it uses %.1f cores while idle", used)}
		}
	}
}

// record keeps the verdicts of a step, or begins the search for a harmful call.
func (t *Trial) record(s step, out outcome, before sign, now time.Time) {
	t.mu.Lock()
	var failed []api.TrialFailure
	verdict := func(c Call, v Verdict) {
		t.known[c] = v
		t.forget(c)
		if v.Result != Accepted {
			failed = append(failed, resultOf(c, v))
		}
	}
	for c, words := range out.refused {
		verdict(c, Verdict{Refused, words, now.UTC()})
	}
	if t.ran, t.went = s.kind, out.result == Accepted; t.went {
		t.survived(s, now)
		for _, c := range s.calls() {
			if _, refused := out.refused[c]; s.rests && !refused && !out.unused[c] {
				verdict(c, Verdict{Result: Accepted, At: now.UTC()})
			}
		}
	} else {
		if out.result == Hung || out.result == Grew {
			t.tainted = before.start
		}
		t.harmed = out.result != slow
		if struck := t.blame(s, out.alone, out.atRest, now); struck != nil && t.harmed {
			if struck.strikes++; struck.strikes >= strikes {
				verdict(struck.call, Verdict{out.result, out.words, now.UTC()})
			}
		}
	}
	if s.kind == ofOne {
		t.endTurn(s.tenant, now)
	}
	t.trim()
	t.mu.Unlock()
	if n := len(s.calls()); !t.went && n > 1 {
		t.log.Warn("trial proxy did not survive a table; searching for the text",
			"count", n, "namespaces", len(s.units), "seen", string(out.result), "words", out.words)
	}
	for _, f := range failed {
		t.log.Error(LogFailed, "text", f.Text, "verdict", f.Verdict, "words", f.Words)
	}
	notify(t.changed)
}
