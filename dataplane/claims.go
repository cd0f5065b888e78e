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

// Claims asks the server above about the claims of a cache. Its methods are safe for concurrent use; call Run once.
//
// It is for a process that fetches its table from another route server, a relay or a restarted data plane, and whose clients name a
// table that it does not know. Such a process does not read a cluster. The ETag says that its table has nothing newer than its
// revision, but not up to which revision the table is complete. So the process cannot tell which of the two tables is newer. It
// lets the client keep its table and asks the server above, which may ask the server above it. The root reads the cluster past
// all caches ([Client.Ask], [etagcache.Cache.Resolve]). If the server above would send its own table to the client, and
// this process serves that same table, it sends it, too.
type Claims struct {
	cache   *etagcache.Cache
	above   above
	wait    time.Duration // between two rounds of questions, approximately
	log     *slog.Logger
	claimed chan struct{} // of capacity 1: a client has named an unknown table
}

const (
	// maxQuestions is how many claims are asked about at a time: the server above remembers as many for one client.
	maxQuestions = 4
	// restAfterError multiplies the delay after a question without an answer.
	restAfterError = 5
)

// above is the part of a [Client] that a Claims needs.
type above interface {
	Ask(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error)
	Recheck()
}

// NewClaims returns a resolver for the claims of a cache, which asks the server in use of a client, in rounds about wait apart. It starts no
// goroutine.
func NewClaims(cache *etagcache.Cache, client above, wait time.Duration, log *slog.Logger) *Claims {
	return &Claims{cache, client, wait, log, make(chan struct{}, 1)}
}

// Claimed reports that a client has named a table that may be newer. It never blocks.
func (r *Claims) Claimed() {
	select {
	case r.claimed <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends.
func (r *Claims) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.claimed:
		}
		for {
			open := r.cache.Claims()
			if len(open) == 0 {
				break
			}
			rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			wait := r.wait
			for _, claim := range open[:min(len(open), maxQuestions)] {
				if err := r.ask(ctx, claim); err != nil {
					wait *= restAfterError
					break
				}
			}
			timer := time.NewTimer(wait/2 + rand.N(wait))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	}
}

// ask asks about one claim, and resolves it if the answer allows that.
func (r *Claims) ask(ctx context.Context, claim etagcache.Claim) error {
	o, err := r.above.Ask(ctx, claim.Digest, claim.Revision)
	switch {
	case err != nil:
		return err
	case o.Keep:
	case r.cache.Resolve(claim, o.Digest, o.Revision):
		r.log.Info(LogClientOlder, "digest", claim.Digest.String(), "revision", claim.Revision)
	default:
		r.above.Recheck() // it has another table by now
	}
	return nil
}
