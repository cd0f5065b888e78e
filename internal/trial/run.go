package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// outcome is what a table did to the proxy.
type outcome struct {
	kind  Kind
	words string
	// alone is the one call that did it, if that is known; nil if any of the table may have.
	alone *Call
	// refused are the words of the proxy about calls that it does not accept.
	refused map[Call]string
}

// try makes the proxy load some calls, and records what becomes of it.
func (t *Trial) try(ctx context.Context, batch []Call) {
	before, err := t.ready(ctx)
	if err != nil {
		t.put(batch)
		pause(ctx, t.retry)
		return
	}
	out, err := t.apply(ctx, batch, before)
	if err != nil {
		t.answers(err)
		t.put(batch)
		pause(ctx, t.retry)
		return
	}
	t.record(batch, out, before)
}

// ready returns the signs of a proxy that can try calls, or why there is none.
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
		err = errors.New("the process of the trial proxy has to be replaced: it hangs, or is busy for good")
	case err == nil:
		t.tainted = 0
	}
	t.mu.Unlock()
	t.answers(err)
	return s, err
}

// answers logs whether the proxy answers, when that changes.
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
		t.log.Info(LogAnswers)
	}
}

// put keeps calls that have no verdict yet for later, if they are a part of a table that went wrong. Calls that were only asked for are asked
// for still.
func (t *Trial) put(batch []Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again(batch)
}

// again is put for a caller that holds mu.
func (t *Trial) again(batch []Call) {
	if len(batch) == 0 {
		return
	}
	if _, suspect := t.suspects[batch[0]]; suspect {
		t.batches = append(t.batches, batch)
	}
}

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// apply lets the proxy load a table and looks at it. The error says why the table did not reach the proxy.
func (t *Trial) apply(ctx context.Context, batch []Call, before sign) (outcome, error) {
	marker, fetched := t.doc.set(batch)
	defer t.doc.set(nil) // what it has of the calls ends with their trial
	select {
	case <-ctx.Done():
		return outcome{}, ctx.Err()
	case <-fetched:
	case <-time.After(t.fetch):
		return outcome{}, fmt.Errorf("the trial proxy has not fetched its table for %v: start it with -routes-urls", t.fetch)
	}
	if out := t.loads(ctx, marker, before); out.kind != Accepted {
		return out, ctx.Err()
	}
	words, err := t.proxy.refused(ctx, marker, len(batch))
	if err != nil {
		if out := t.same(ctx, before); out.kind != Accepted {
			return out, ctx.Err()
		}
		return outcome{}, err
	}
	out := outcome{kind: Accepted, refused: map[Call]string{}}
	for i, c := range batch {
		if text, refused := words[idOf(i)]; refused {
			out.refused[c] = text
		}
	}
	uses := t.takesRequests(ctx)
	for i, c := range batch {
		if _, refused := out.refused[c]; refused || !uses || !c.usable() {
			continue
		}
		if err := t.proxy.use(ctx, hostOf(i), t.use); err != nil {
			found := outcome{kind: Hung, words: err.Error(), alone: &batch[i]}
			if same := t.same(ctx, before); same.kind != Accepted {
				found.kind, found.words = same.kind, same.words
			}
			return found, ctx.Err()
		}
	}
	if rest := t.rests(ctx, before); rest.kind != Accepted {
		return rest, ctx.Err()
	}
	return out, ctx.Err()
}

// takesRequests reports whether the proxy answers requests, so that calls can be used. It is asked for the host of the marker, whose answer says
// nothing about a call.
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
		t.log.Error(LogUnused, "listener", t.cfg.Traffic.String(), "error", err)
	}
	return err == nil
}

// loads waits until the proxy shows that it has the table with a marker.
func (t *Trial) loads(ctx context.Context, marker string, before sign) outcome {
	deadline := time.After(t.limits.load)
	for {
		if t.proxy.has(ctx, marker) {
			return t.same(ctx, before)
		}
		if out := t.same(ctx, before); out.kind != Accepted {
			return out
		}
		select {
		case <-ctx.Done():
			return outcome{kind: Hung, words: ctx.Err().Error()}
		case <-deadline:
			return outcome{kind: Hung, words: fmt.Sprintf("it has not applied the table for %v", t.limits.load)}
		case <-time.After(askEvery):
		}
	}
}

// same says whether the process of the proxy is still the one it was.
func (t *Trial) same(ctx context.Context, before sign) outcome {
	now, err := t.proxy.look(ctx)
	for n := 0; err != nil && !closed(err) && n < 3 && ctx.Err() == nil; n++ { // one lost answer is no death
		pause(ctx, t.retry)
		now, err = t.proxy.look(ctx)
	}
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return outcome{kind: Hung, words: "its support listener does not answer: " + err.Error()}
	case err != nil:
		return outcome{kind: Died, words: "its support listener is closed: " + err.Error()}
	case now.start != before.start:
		return outcome{kind: Died, words: "its process ended and was started again"}
	}
	return outcome{kind: Accepted}
}

// closed reports whether an error says that no process listens.
func closed(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// rests looks at a proxy that nobody asks anything. It is busy for good only if it works all the time: the end of loading a table is no fault.
// What a spinning process gets of a core depends on what else the machine does, so the share counts less than how long it lasts.
func (t *Trial) rests(ctx context.Context, before sign) outcome {
	for window := 1; ; window++ {
		first, err := t.proxy.look(ctx)
		if err == nil {
			pause(ctx, t.rest)
		}
		if out := t.same(ctx, before); out.kind != Accepted || err != nil {
			return out
		}
		last, err := t.proxy.look(ctx)
		if err != nil {
			return outcome{kind: Accepted}
		}
		if more := last.memory - before.memory; more > t.growth {
			return outcome{kind: Grew, words: fmt.Sprintf("it needs %.0f MiB more than before", more/(1<<20))}
		}
		used := (last.cpu - first.cpu) / last.at.Sub(first.at).Seconds()
		switch {
		case used <= t.busy:
			return outcome{kind: Accepted}
		case window == busyWindows:
			return outcome{kind: Grew, words: fmt.Sprintf("it uses %.1f cores although nobody asks it anything", used)}
		}
	}
}

// record keeps the verdicts of a table, or halves it.
func (t *Trial) record(batch []Call, out outcome, before sign) {
	t.mu.Lock()
	now := time.Now().UTC()
	bad := out.kind != Accepted
	if out.kind == Hung || out.kind == Grew {
		t.tainted = before.start
	}
	var failed []api.TrialFailure
	verdict := func(c Call, v Verdict) {
		t.known[c] = v
		delete(t.asked, c)
		delete(t.suspects, c)
		if v.Kind != Accepted {
			failed = append(failed, resultOf(c, v))
		}
	}
	for c, words := range out.refused {
		verdict(c, Verdict{Refused, words, now})
	}
	switch {
	case !bad:
		for _, c := range batch {
			if _, refused := out.refused[c]; !refused {
				verdict(c, Verdict{Kind: Accepted, At: now})
			}
		}
	case out.alone != nil || len(batch) == 1:
		one := batch[0]
		if out.alone != nil {
			one = *out.alone
		}
		if t.suspects[one]++; t.suspects[one] >= strikes {
			verdict(one, Verdict{out.kind, out.words, now})
		} else {
			t.again([]Call{one})
		}
		t.again(slices.DeleteFunc(slices.Clone(batch), func(c Call) bool { return c == one })) // nothing is known of the others
	default:
		for _, c := range batch {
			t.suspects[c] += 0
		}
		half := len(batch) / 2
		t.batches = append(t.batches, batch[half:], batch[:half])
	}
	t.mu.Unlock()
	t.writer.Request()
	if bad && out.alone == nil && len(batch) > 1 {
		t.log.Warn(LogSuspects, "count", len(batch), "seen", string(out.kind), "words", out.words)
	}
	for _, f := range failed {
		t.log.Error(LogFailed, "text", f.Text, "verdict", f.Verdict, "words", f.Words)
	}
	notify(t.changed)
}
