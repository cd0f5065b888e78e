package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
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

// maxAnswer limits the answer of a route server, in bytes. The largest is /clients: 20,000 clients take about 15 MB.
const maxAnswer = 64 << 20

// page is an answer of a listener.
type page struct {
	status int
	text   string // of the status line
	body   []byte
}

// do sends one request, with a body unless it is nil. It does not follow redirects.
func do(ctx context.Context, l *Listener, method, path string, query url.Values, accept string, body io.Reader) (*page, error) {
	u := l.URL + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", api.AgentTool)
	resp, err := l.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the caller names the replica
		}
		// net/http may put the name of one of its functions before the error of a connection that ended without an answer.
		if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "readLoopPeekFailLocked: ") {
			err = inner
		}
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", path, maxAnswer)
	}
	return &page{resp.StatusCode, resp.Status, answer}, nil
}

// get requests JSON. Any status that is not listed is an error.
func get(ctx context.Context, l *Listener, path string, query url.Values, dst any, also ...int) (*page, error) {
	p, err := getAs(ctx, l, path, query, "application/json", also...)
	if err != nil {
		return nil, err
	}
	if dst == nil || p.status != http.StatusOK && !json.Valid(p.body) {
		return p, nil
	}
	if err := json.Unmarshal(p.body, dst); err != nil {
		return nil, fmt.Errorf("%s: the answer is not what a route server says: %w", path, err)
	}
	return p, nil
}

// getAs requests a media type. Any status that is not listed is an error.
func getAs(ctx context.Context, l *Listener, path string, query url.Values, accept string, also ...int) (*page, error) {
	p, err := do(ctx, l, http.MethodGet, path, query, accept, nil)
	if err == nil && p.status != http.StatusOK && !slices.Contains(also, p.status) {
		return nil, p.refusal(path)
	}
	return p, err
}

// refusal converts a negative answer to an error.
func (p *page) refusal(path string) error {
	var said api.Error
	text := strings.TrimSpace(string(p.body))
	if json.Unmarshal(p.body, &said) == nil && said.Error != "" {
		text = said.Error
	}
	text = firstLine(text)
	if p.status == http.StatusNotFound && !strings.Contains(text, "no ") {
		return fmt.Errorf("%s: %s: is this the support listener of a route server?", path, p.text)
	}
	return fmt.Errorf("%s: %s: %s", path, p.text, text)
}

// line returns the first line of an unexpected answer.
func (p *page) line() string { return firstLine(string(p.body)) }

// firstLine returns the part of a text that an error shows.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}
