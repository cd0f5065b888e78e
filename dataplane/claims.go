package dataplane

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// LogClientOlder is the log message about a client that gets an older table.
const LogClientOlder = "a route server reports that the table of a client is not newer: the source went back in time"

const (
	// maxQuestions is how many claims are asked about at a time: the server above remembers as many for one client.
	maxQuestions = 4
	// restAfterError multiplies the delay after a question without an answer.
	restAfterError = 5
)

// Claims asks the server above about the claims of a cache. Its methods are safe for concurrent use; call Run once.
//
// A process that fetches its table, a relay or a data plane, cannot tell whether a table that a client names and that it does not
// know is newer. It lets the client keep it and asks the server above, which may ask another one; the root reads the cluster past
// all caches. If the server above would send its own table, and this process serves that one, too, the client gets it.
type Claims struct {
	cache   *etagcache.Cache
	above   func(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error)
	recheck func()
	wait    time.Duration // between two rounds of questions, approximately
	log     *slog.Logger
	claimed chan struct{} // of capacity 1: a client has named an unknown table
}

// NewClaims returns a resolver that asks in rounds about wait apart, with [Client.Ask] and [Client.Recheck].
func NewClaims(
	cache *etagcache.Cache, ask func(context.Context, table.Digest, uint64) (Opinion, error), recheck func(), wait time.Duration, log *slog.Logger,
) *Claims {
	return &Claims{cache, ask, recheck, wait, log, make(chan struct{}, 1)}
}

// Claimed reports that a client has named a table that may be newer. It never blocks.
func (c *Claims) Claimed() {
	select {
	case c.claimed <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends.
func (c *Claims) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.claimed:
		}
		for open := c.cache.Claims(); len(open) > 0; open = c.cache.Claims() {
			rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			wait := c.wait
			for _, claim := range open[:min(len(open), maxQuestions)] {
				if err := c.ask(ctx, claim); err != nil {
					wait *= restAfterError
					break
				}
			}
			if !pause(ctx, wait/2+rand.N(wait)) {
				return
			}
		}
	}
}

func (c *Claims) ask(ctx context.Context, claim etagcache.Claim) error {
	o, err := c.above(ctx, claim.Digest, claim.Revision)
	switch {
	case err != nil:
		return err
	case o.Keep:
	case c.cache.Resolve(claim, o.Digest, o.Revision):
		c.log.Info(LogClientOlder, "digest", claim.Digest.String(), "revision", claim.Revision)
	default:
		c.recheck() // it has another table by now
	}
	return nil
}
