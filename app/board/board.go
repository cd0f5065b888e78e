// Package board asks the route servers of many clusters live, and shows them side by side on one page for one person.
//
// A [Board] asks each cluster a few small questions in turn: its status, its clients, its problems and its history. It stores nothing and
// copies nothing anywhere: the page's content is in memory until the next answer, and details come from the cluster's own
// console, which is proxied. Users see only what their transports to the clusters permit.
//
// # Budget
//
// A fixed number of workers asks all clusters. A cluster has at most one question at a time. One that exceeds the short time limit counts as slow
// until it answers in time again: its limit and its intervals are longer, and some workers never serve slow clusters. Browsers
// get the newest state of each cluster that changed, never a queue.
package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/query"
)

// What a board queries.
type (
	Cluster  = query.Cluster
	Replica  = query.Replica
	Listener = query.Listener
)

// Config configures a Board.
type Config struct {
	Clusters []Cluster // at least one, with different names
	// CleanFor is the time for which data planes in mode Pre must have been clean.
	CleanFor time.Duration
	// Every is the time between two questions for the status; 0 means 5 s. Other questions are asked less often.
	Every time.Duration
	// SlowAfter is the time limit of a question, after which a cluster counts as slow; 0 means 2 s. SlowLimit is the one for slow clusters;
	// 0 means 15 s.
	SlowAfter, SlowLimit time.Duration
}

// Limits of a board.
const (
	MaxClusters = 1000
	workers     = 24
	slowWorkers = 18 // at most so many of them ask slow clusters
	maxBackoff  = time.Minute
	maxAnswer   = 32 << 20 // bytes; only a part is in memory at a time
	shown       = 5        // elements of each list
)

// Board asks clusters. Make one with [New].
type Board struct {
	cfg      Config
	clusters []*cluster
	wake     chan struct{} // of capacity 1: a question is due
	passing  httpserve.Turns
	watching httpserve.Turns
	running  sync.WaitGroup

	mu      sync.Mutex // guards the fields below and the fields of clusters
	asking  int        // workers that ask slow clusters
	version uint64     // of the last change of a cluster
	changed chan struct{}
}

// cluster is the known state of a cluster, guarded by the mutex of the board.
type cluster struct {
	Cluster
	doc      api.BoardCluster
	version  uint64      // of the board at its last change
	busy     bool        // a worker asks it
	slow     bool        // it answers, but not within Config.SlowAfter
	due      []time.Time // by question
	failures int
	tries    int      // counts choices of a replica
	target   *Replica // that is asked; nil before it was found, and after a failure
}

// New checks the configuration. It opens no connection and starts no goroutine.
func New(cfg Config) (*Board, error) {
	switch {
	case len(cfg.Clusters) == 0:
		return nil, errors.New("no clusters")
	case len(cfg.Clusters) > MaxClusters:
		return nil, fmt.Errorf("%d clusters, limit %d", len(cfg.Clusters), MaxClusters)
	}
	cfg.Every, cfg.SlowAfter, cfg.SlowLimit = cmp.Or(cfg.Every, 5*time.Second), cmp.Or(cfg.SlowAfter, 2*time.Second), cmp.Or(cfg.SlowLimit, 15*time.Second)
	b := &Board{cfg: cfg, passing: httpserve.NewTurns(8), watching: httpserve.NewTurns(8), wake: make(chan struct{}, 1), changed: make(chan struct{})}
	names := make(map[string]bool)
	for _, c := range cfg.Clusters {
		if c.Name == "" || names[c.Name] {
			return nil, fmt.Errorf("%q: want a different name for each cluster", c.Name)
		}
		names[c.Name] = true
		one := &cluster{Cluster: c, doc: api.BoardCluster{Name: c.Name}}
		for q := range questions {
			one.due = append(one.due, time.Unix(0, int64(q))) // at the start, every cluster is asked the first one before any the second
		}
		b.clusters = append(b.clusters, one)
	}
	slices.SortFunc(b.clusters, func(x, y *cluster) int { return strings.Compare(x.Name, y.Name) })
	return b, nil
}

// Run queries all clusters until ctx ends, and returns once everything it started has stopped.
func (b *Board) Run(ctx context.Context) {
	for range workers {
		b.running.Go(func() { b.work(ctx) })
	}
	b.running.Wait()
}

// Ask asks each cluster all questions once, and returns the answers.
func (b *Board) Ask(ctx context.Context) *api.Board {
	turns := httpserve.NewTurns(workers)
	var all sync.WaitGroup
	for _, c := range b.clusters {
		done, ok := turns.Wait(ctx, 0)
		if !ok {
			break
		}
		all.Go(func() {
			defer done()
			for q := range questions {
				asked, cancel := context.WithTimeout(ctx, b.cfg.SlowLimit)
				err := b.ask(asked, c, q)
				cancel()
				b.mu.Lock()
				if err != nil {
					c.away(err, time.Now())
				}
				b.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	now := time.Now()
	doc := &api.Board{Schema: api.BoardSchema, Time: now.UTC(), CleanForSeconds: b.cfg.CleanFor.Seconds(), Clusters: []api.BoardCluster{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.clusters {
		doc.Clusters = append(doc.Clusters, c.judged(now))
	}
	return doc
}

// work asks questions that are due.
func (b *Board) work(ctx context.Context) {
	for {
		c, q := b.next(ctx)
		if c == nil {
			return
		}
		limit := b.cfg.SlowAfter
		if c.slow { // not modified while the cluster is busy
			limit = b.cfg.SlowLimit
		}
		began := time.Now()
		asked, cancel := context.WithTimeout(ctx, limit)
		err := b.ask(asked, c, q)
		cancel()
		if ctx.Err() != nil {
			return
		}
		b.settle(c, q, err, time.Since(began))
	}
}

// next waits for a question that is due and takes it. It returns nil when ctx ends.
func (b *Board) next(ctx context.Context) (*cluster, int) {
	for {
		c, q, wait := b.take()
		if c != nil {
			return c, q
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, 0
		case <-b.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take removes and returns the question that has been due longest; without one it returns how long to wait.
func (b *Board) take() (found *cluster, q int, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, more := time.Now(), false
	first := now.Add(time.Minute)
	for _, c := range b.clusters {
		if c.busy || c.slow && b.asking >= slowWorkers {
			continue
		}
		for i, due := range c.due {
			if due.Before(first) {
				more, found, q, first = found != nil && !first.After(now), c, i, due
			}
		}
	}
	if found == nil || first.After(now) {
		return nil, 0, first.Sub(now)
	}
	if found.busy = true; found.slow {
		b.asking++
	}
	if more {
		b.signal()
	}
	return found, q, 0
}

// signal wakes a worker.
func (b *Board) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// settle records the result of a question and when to ask again.
func (b *Board) settle(c *cluster, q int, err error, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if c.busy = false; c.slow {
		b.asking--
	}
	switch {
	case err == nil:
		c.failures, c.doc.AwaySince, c.doc.Error = 0, time.Time{}, ""
		c.due[q] = now.Add(max(time.Duration(questions[q].rounds)*b.cfg.Every, 4*took))
		c.slow = c.slow && took > b.cfg.SlowAfter
	case !c.slow && took >= b.cfg.SlowAfter && errors.Is(err, context.DeadlineExceeded):
		c.slow = true // it is asked again at once, with more time
	default:
		c.away(err, now)
		again := now.Add(api.Backoff(c.failures, b.cfg.Every, max(maxBackoff, b.cfg.Every), 0.5))
		for i := range c.due {
			c.due[i] = again
		}
	}
	b.touch(c)
	b.signal()
}

// away records that a question failed. The next one finds the replicas again, and asks another one.
func (c *cluster) away(err error, now time.Time) {
	if c.doc.AwaySince.IsZero() {
		c.doc.AwaySince = now.UTC()
	}
	c.doc.Error = cut(err.Error())
	c.failures++
	c.tries++
	c.target = nil
}

// touch notifies browsers that a cluster changed. The caller holds mu.
func (b *Board) touch(c *cluster) {
	b.version++
	c.version = b.version
	close(b.changed)
	b.changed = make(chan struct{})
}

// cut limits a text of a server.
func cut(text string) string {
	const longest = 200
	text = strings.ToValidUTF8(text, "?")
	if r := []rune(text); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return text
}
