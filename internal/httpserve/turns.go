package httpserve

import (
	"context"
	"time"
)

// Turns limits how many requests do something at a time.
type Turns chan struct{}

// NewTurns returns a limit of n.
func NewTurns(n int) Turns { return make(Turns, n) }

// Wait waits for a turn until ctx ends, and at most the given time; 0 means no limit. The caller ends its turn with done, unless ok
// is false.
func (t Turns) Wait(ctx context.Context, most time.Duration) (done func(), ok bool) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, true
	case <-ctx.Done():
		return nil, false
	}
}
