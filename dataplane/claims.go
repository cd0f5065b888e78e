package dataplane

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// ClaimAnswer is the outcome of a question.
type ClaimAnswer string

// The answers.
const (
	ClaimSend  ClaimAnswer = "send"  // send the client the table served here
	ClaimOther ClaimAnswer = "other" // the client needs another table, which is not here yet
	ClaimKeep  ClaimAnswer = "keep"  // the client keeps its table
	ClaimNone  ClaimAnswer = "none"  // the server above did not answer
)

// ClaimAnswers returns all answers.
func ClaimAnswers() []ClaimAnswer { return []ClaimAnswer{ClaimSend, ClaimOther, ClaimKeep, ClaimNone} }

// ClaimsConfig configures a Claims. All fields are required.
type ClaimsConfig struct {
	Cache *etagcache.Cache
	// Ask asks the server above about a table.
	Ask func(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error)
	// Recheck asks for a fetch from the server above, which has another table by now.
	Recheck func()
	// Wait is the approximate time between two rounds of questions.
	Wait time.Duration
	// Told is called for each answer.
	Told func(etagcache.Claim, ClaimAnswer)
}

// Claims asks the server above about the claims of a cache. Its methods are safe for concurrent use; call Run once.
//
// It is for a process that fetches its table from another route server, a relay or a restarted data plane, and whose clients name a
// table that it does not know. Such a process does not read a cluster. The ETag says that its table has nothing newer than its
// revision, but not up to which revision the table is complete. So the process cannot tell which of the two tables is newer. It
// lets the client keep its table and asks the server above, which may ask the server above it. The root reads the cluster past
// all caches ([Client.Ask], [etagcache.Cache.Resolve]). If the server above would send its own table to the client, and
// this process serves that same table, it sends it, too.
type Claims struct {
	cfg     ClaimsConfig
	claimed chan struct{} // of capacity 1: a client has named an unknown table
}

const (
	// maxQuestions is how many claims are asked about at a time: the server above remembers as many for one client.
	maxQuestions = 4
	// restAfterError multiplies the delay after a question without an answer.
	restAfterError = 5
)

// NewClaims returns a resolver. It starts no goroutine.
func NewClaims(cfg ClaimsConfig) *Claims { return &Claims{cfg, make(chan struct{}, 1)} }

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
			open := r.cfg.Cache.Claims()
			if len(open) == 0 {
				break
			}
			rand.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			wait := r.cfg.Wait
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
	o, err := r.cfg.Ask(ctx, claim.Digest, claim.Revision)
	switch {
	case err != nil:
		r.cfg.Told(claim, ClaimNone)
		return err
	case o.Keep:
		r.cfg.Told(claim, ClaimKeep)
	case r.cfg.Cache.Resolve(claim, o.Digest, o.Revision):
		r.cfg.Told(claim, ClaimSend)
	default:
		r.cfg.Told(claim, ClaimOther)
		r.cfg.Recheck() // the server above has another table by now
	}
	return nil
}
