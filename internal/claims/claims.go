// Package claims decides about tables that clients name and that are not known here, for those who have their table from another
// route server: a relay, and a data plane that was restarted.
//
// Such a server has no revisions of a cluster. It knows that its table has nothing from after its revision, because that is what
// the ETag means, and it does not know up to which revision it is complete. So of a client that names a table which it has
// never had, it cannot tell which one is newer. It keeps such a client where it is and asks the server above, which may ask
// the one above it, and the root reads the cluster past all caches ([dataplane.Client.Ask], [etagcache.Cache.Resolve]). If the
// answer is that the server would send its table, and it is the table that is served here, then it is sent here, too.
package claims

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// Answer is what became of a question.
type Answer string

// The answers.
const (
	Send  Answer = "send"  // the table that is served here is fit for the client
	Other Answer = "other" // another table is, which is not here yet
	Keep  Answer = "keep"  // the client is to keep what it has
	None  Answer = "none"  // there was no answer
)

// Answers returns all answers.
func Answers() []Answer { return []Answer{Send, Other, Keep, None} }

// Opinion is what the server above would do with a client that has the claimed table.
type Opinion struct {
	Keep bool // it would leave the client with it
	// Digest and Revision are those of the table that it would send otherwise.
	Digest   table.Digest
	Revision uint64
}

// Config is what a Resolver is made of. All fields are required.
type Config struct {
	Cache *etagcache.Cache
	// Ask asks the server above about a table.
	Ask func(ctx context.Context, digest table.Digest, revision uint64) (Opinion, error)
	// Recheck asks for a read of the server above: it has another table by now.
	Recheck func()
	// Wait is the time between two rounds of questions, more or less.
	Wait time.Duration
	// Told is called with each answer.
	Told func(etagcache.Claim, Answer)
}

// Resolver asks about the claims of a cache. Its methods are safe for concurrent use; Run is to be called once.
type Resolver struct {
	cfg     Config
	claimed chan struct{} // of capacity 1: a client has named a table that is not known
}

const (
	// maxQuestions is how many claims are asked about at a time: the server above remembers as many of one client.
	maxQuestions = 4
	// restAfterError is how many times longer the next question waits after one that got no answer.
	restAfterError = 5
)

// New returns a resolver. It starts nothing.
func New(cfg Config) *Resolver { return &Resolver{cfg, make(chan struct{}, 1)} }

// Claimed says that a client has named a table that may be newer. It never blocks.
func (r *Resolver) Claimed() {
	select {
	case r.claimed <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends.
func (r *Resolver) Run(ctx context.Context) {
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

// ask asks about one claim, and resolves it if the answer does.
func (r *Resolver) ask(ctx context.Context, claim etagcache.Claim) error {
	o, err := r.cfg.Ask(ctx, claim.Digest, claim.Revision)
	switch {
	case err != nil:
		r.cfg.Told(claim, None)
		return err
	case o.Keep:
		r.cfg.Told(claim, Keep)
	case r.cfg.Cache.Resolve(claim, o.Digest, o.Revision):
		r.cfg.Told(claim, Send)
	default:
		r.cfg.Told(claim, Other)
		r.cfg.Recheck() // the server above has another table by now
	}
	return nil
}
