package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// grace is how long to wait for an answer after its time limit: code that respects the limit then still reports what failed.
const grace = 300 * time.Millisecond

// answer is the answer of one replica.
type answer[T any] struct {
	replica string
	value   T
	err     error
	fault   bool // the replica could not be asked; err says why
}

// reply holds the answers of the replicas of one cluster.
type reply[T any] struct {
	cluster string
	err     error // the replicas could not be found
	answers []answer[T]
}

// ask asks all replicas of all clusters, a limited number of clusters at a time. The replies are in the order
// of the clusters.
func ask[T any](ctx context.Context, s *session, clusters []Cluster, question func(context.Context, Replica) (T, error)) []reply[T] {
	replies := make([]reply[T], len(clusters))
	turns := make(chan struct{}, s.parallel)
	var wg sync.WaitGroup
	for i, c := range clusters {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
			defer cancel()
			replies[i] = askCluster(ctx, c, question)
		})
	}
	wg.Wait()
	return replies
}

// askCluster finds the replicas of a cluster and asks them concurrently.
func askCluster[T any](ctx context.Context, c Cluster, question func(context.Context, Replica) (T, error)) reply[T] {
	r := reply[T]{cluster: c.Name}
	replicas, err := bounded(ctx, c.Find)
	if err != nil {
		r.err = err
		return r
	}
	r.answers = make([]answer[T], len(replicas))
	var wg sync.WaitGroup
	for i, replica := range replicas {
		r.answers[i].replica = replica.Name
		if replica.Fault != "" {
			r.answers[i].err, r.answers[i].fault = errors.New(replica.Fault), true
			continue
		}
		wg.Go(func() {
			r.answers[i].value, r.answers[i].err = bounded(ctx, func(ctx context.Context) (T, error) { return question(ctx, replica) })
		})
	}
	wg.Wait()
	return r
}

// bounded returns when ctx has ended, even if f does not return: a context cannot stop a credential plugin, or a connection that
// was accepted and then ignored.
func bounded[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f(ctx)
		done <- result{v, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case r = <-done:
		case <-timer.C:
			r.err = ctx.Err()
		}
	}
	if r.err != nil && ctx.Err() != nil && (errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, context.Canceled)) {
		r.err = context.Cause(ctx)
	}
	return r.value, r.err
}

// answered returns the answers received.
func (r reply[T]) answered() []answer[T] {
	var there []answer[T]
	for _, a := range r.answers {
		if a.err == nil {
			there = append(there, a)
		}
	}
	return there
}

// missing returns a sentence for each replica that did not answer.
func (r reply[T]) missing() []string {
	if r.err != nil {
		return []string{label(r.cluster, "") + r.err.Error()}
	}
	var lines []string
	for _, a := range r.answers {
		if a.err != nil {
			lines = append(lines, label(r.cluster, a.replica)+a.err.Error())
		}
	}
	return lines
}

// label returns the prefix of a sentence about an answer: its cluster and replica.
func label(cluster, replica string) string {
	switch {
	case cluster == "" && replica == "":
		return ""
	case cluster == "":
		return replica + ": "
	case replica == "":
		return cluster + ": "
	}
	return cluster + "/" + replica + ": "
}
