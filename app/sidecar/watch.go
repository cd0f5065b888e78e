package sidecar

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

const (
	// watchEvery is the time between two readings, and watchSoon the least time between a reading and one that a request for the
	// table causes. Readings take at most one part in watchShare of the time.
	watchEvery = time.Second
	watchSoon  = 50 * time.Millisecond
	watchShare = 10
	// maxSpare is how many readings may come sooner than that within eagerFor after a request that names no table, such as the first
	// one of a process. Each reading by time earns another one.
	maxSpare = 8
	eagerFor = 2 * time.Second
	// awaitEvery is the time between two attempts while the proxy does not listen, for at most awaitFor: a proxy that crashes
	// because of its table may run for milliseconds only. The attempts cost less than 1 % of a core.
	awaitEvery = 10 * time.Millisecond
	awaitFor   = 10 * time.Minute
	// requestWait is how long a request for the table waits for a reading.
	requestWait = 500 * time.Millisecond
)

// watch reads the metrics of the proxy.
type watch struct {
	read func(now time.Time, f *figures) // is told about each reading

	turn   chan struct{} // of capacity 1, taken by the goroutine that uses the fields below
	reader *metricsReader
	began  time.Time     // of the last attempt
	took   time.Duration // by a successful attempt, on average
	eager  time.Time     // until when readings may be spent
	spare  int           // readings to spend
	alive  time.Time     // when the metrics were last read; at first, the start of this process if an earlier one has read them
	err    error         // of the last attempt
}

// newWatch returns a watch; known means that an earlier process has read the metrics.
func newWatch(r *metricsReader, known bool, read func(time.Time, *figures)) *watch {
	w := &watch{reader: r, read: read, turn: make(chan struct{}, 1)}
	if known {
		w.alive = time.Now()
	}
	return w
}

func (w *watch) run(ctx context.Context) {
	defer w.reader.client.CloseIdleConnections()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		w.turn <- struct{}{}
		if time.Since(w.began) >= w.due() {
			w.look(ctx)
			w.spare = min(w.spare+1, maxSpare)
		}
		wait := w.due() - time.Since(w.began)
		<-w.turn
		timer.Reset(max(wait, time.Millisecond))
	}
}

// due returns the time from the last attempt to the next one. The caller has the turn.
func (w *watch) due() time.Duration {
	ended := errors.Is(w.err, syscall.ECONNREFUSED) || errors.Is(w.err, syscall.ECONNRESET) || errors.Is(w.err, io.EOF)
	if ended && time.Since(w.alive) < awaitFor {
		return awaitEvery
	}
	return max(watchEvery, watchShare*w.took)
}

// look reads the metrics. The caller has the turn.
func (w *watch) look(ctx context.Context) {
	w.began = time.Now()
	f, err := w.reader.Read(ctx)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if w.err = err; err == nil {
		w.alive, w.took = now, (3*w.took+now.Sub(w.began))/4 // one slow reading shows a busy machine
		w.read(now, f)
	}
}

// fresh reads the metrics before a request for the table is answered. Its sender influences only the time of a reading.
func (w *watch) fresh(ctx context.Context, named bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestWait)
	defer cancel()
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return
	}
	if !named {
		w.eager = time.Now().Add(eagerFor)
	}
	due := w.err != nil || time.Since(w.began) >= max(watchSoon, watchShare*w.took)
	if !due && w.spare > 0 && time.Now().Before(w.eager) {
		w.spare--
		due = true
	}
	if due && w.took < requestWait {
		w.look(ctx)
	}
}

// trouble returns why the metrics cannot be read, or "".
func (w *watch) trouble() string {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.err == nil {
		return ""
	}
	return w.err.Error()
}
