package query

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

// Answer is the answer of one replica.
type Answer[T any] struct {
	Replica string
	Value   T
	Err     error
	Fault   bool // the replica could not be queried; Err is the reason
}

// Reply holds the answers of the replicas of one cluster.
type Reply[T any] struct {
	Cluster string
	Err     error // the replicas could not be found
	Answers []Answer[T]
}

// parallel is how many clusters are asked at a time.
const parallel = 16

// Ask asks all replicas of all clusters, each cluster for at most the time. The replies are in the order of the clusters.
func Ask[T any](ctx context.Context, most time.Duration, clusters []Cluster, question func(context.Context, Replica) (T, error)) []Reply[T] {
	replies := make([]Reply[T], len(clusters))
	turns := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, c := range clusters {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("no answer within %v", most))
			defer cancel()
			replies[i] = askCluster(ctx, c, question)
		})
	}
	wg.Wait()
	return replies
}

// askCluster finds the replicas of a cluster and asks them concurrently.
func askCluster[T any](ctx context.Context, c Cluster, question func(context.Context, Replica) (T, error)) Reply[T] {
	replicas, err := Bounded(ctx, c.Find)
	r := Reply[T]{Cluster: c.Name, Err: err, Answers: make([]Answer[T], len(replicas))}
	var wg sync.WaitGroup
	for i, replica := range replicas {
		r.Answers[i].Replica = replica.Name
		if replica.Fault != "" {
			r.Answers[i].Err, r.Answers[i].Fault = errors.New(replica.Fault), true
			continue
		}
		wg.Go(func() {
			r.Answers[i].Value, r.Answers[i].Err = Bounded(ctx, func(ctx context.Context) (T, error) { return question(ctx, replica) })
		})
	}
	wg.Wait()
	return r
}

// Bounded returns when ctx has ended, even if f does not: a context cannot stop a credential plugin.
func Bounded[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
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

// Answered returns the answers received.
func (r Reply[T]) Answered() []Answer[T] {
	var there []Answer[T]
	for _, a := range r.Answers {
		if a.Err == nil {
			there = append(there, a)
		}
	}
	return there
}

// Missing returns a sentence for each replica that did not answer.
func (r Reply[T]) Missing() []string {
	if r.Err != nil {
		return []string{Label(r.Cluster, "") + r.Err.Error()}
	}
	var lines []string
	for _, a := range r.Answers {
		if a.Err != nil {
			lines = append(lines, Label(r.Cluster, a.Replica)+a.Err.Error())
		}
	}
	return lines
}

// Label returns the prefix of a sentence about an answer: its cluster and replica.
func Label(cluster, replica string) string {
	if name := strings.Trim(cluster+"/"+replica, "/"); name != "" {
		return name + ": "
	}
	return ""
}

// maxAnswer limits the answer of a route server, in bytes. The largest is /clients: 20,000 clients take about 15 MB.
const maxAnswer = 64 << 20

// Page is an answer of a listener.
type Page struct {
	Status int
	Text   string // of the status line
	Body   []byte
}

// Do sends one request, with a body unless it is nil. It does not follow redirects.
func Do(ctx context.Context, l *Listener, method, path string, query url.Values, accept string, body io.Reader) (*Page, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(l.URL+path+"?"+query.Encode(), "?"), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", api.AgentTool)
	client := http.Client{Transport: l.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
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
	return &Page{resp.StatusCode, resp.Status, answer}, nil
}

// Post sends a body and requests JSON. Any status but 200 is an error.
func Post(ctx context.Context, l *Listener, path string, query url.Values, body io.Reader) ([]byte, error) {
	p, err := Do(ctx, l, http.MethodPost, path, query, "application/json", body)
	if err == nil && p.Status != http.StatusOK {
		err = p.refusal(path)
	}
	if err != nil {
		return nil, err
	}
	return p.Body, nil
}

// Get requests JSON. Any status that is not listed is an error.
func Get(ctx context.Context, l *Listener, path string, query url.Values, dst any, also ...int) (*Page, error) {
	p, err := GetAs(ctx, l, path, query, "application/json", also...)
	if err == nil && (p.Status == http.StatusOK || json.Valid(p.Body)) {
		if err = json.Unmarshal(p.Body, dst); err != nil {
			err = fmt.Errorf("%s: the answer is not what a route server says: %w", path, err)
		}
	}
	return p, err
}

// GetAs requests a media type. Any status that is not listed is an error.
func GetAs(ctx context.Context, l *Listener, path string, query url.Values, accept string, also ...int) (*Page, error) {
	p, err := Do(ctx, l, http.MethodGet, path, query, accept, nil)
	if err == nil && p.Status != http.StatusOK && !slices.Contains(also, p.Status) {
		err = p.refusal(path)
	}
	return p, err
}

// refusal converts a negative answer to an error.
func (p *Page) refusal(path string) error {
	text := p.Line()
	if said := new(api.Error); json.Unmarshal(p.Body, said) == nil && said.Error != "" {
		text = said.Error
	}
	if p.Status == http.StatusNotFound && !strings.Contains(text, "no ") {
		text = "is this the support listener of a route server?"
	}
	return fmt.Errorf("%s: %s: %s", path, p.Text, text)
}

// Line returns the first line of an answer, for an error.
func (p *Page) Line() string {
	text, _, _ := strings.Cut(strings.TrimSpace(string(p.Body)), "\n")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}
