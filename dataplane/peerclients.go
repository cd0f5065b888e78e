package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/api"
)

// Limits of [PeerClients].
const (
	DefaultClientsTimeout = 1500 * time.Millisecond
	maxClientPeers        = 32
	maxViews              = 64 << 20 // bytes of all answers together
)

// PeerClientsConfig configures [PeerClients]. URLs and Port are required.
type PeerClientsConfig struct {
	// URLs are as in PeersConfig, but only their hosts are used.
	URLs []string
	// Port is the port of the support listeners, which speak plain HTTP.
	Port int
	// Resolver, Own and Timeout are as in PeersConfig; the default of Timeout is DefaultClientsTimeout.
	Resolver PeerResolver
	Own      []netip.Addr
	Timeout  time.Duration
}

// PeerClients asks the peers which clients each of them knows. It returns one answer for each address, and one with an error for each
// name that it cannot resolve in time. It takes at most the timeout. Addresses come only from the configured names.
func PeerClients(ctx context.Context, cfg PeerClientsConfig) []fleet.Answer {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultClientsTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	q := &question{
		cfg: &cfg, seen: make(map[netip.Addr]bool),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	q.budget.Store(maxViews)
	for _, u := range cfg.URLs {
		q.asking.Go(func() { q.ask(ctx, u) })
	}
	q.asking.Wait()
	return q.answers
}

// question is one call of PeerClients. A name that does not resolve delays no other name.
type question struct {
	cfg    *PeerClientsConfig
	client *http.Client
	asking sync.WaitGroup
	budget atomic.Int64 // remaining bytes for all answers

	mu      sync.Mutex // guards the fields below
	seen    map[netip.Addr]bool
	answers []fleet.Answer
}

// ask resolves the host of a URL and asks all its addresses.
func (q *question) ask(ctx context.Context, text string) {
	u, err := parse(text)
	if err != nil {
		q.answer(fleet.Answer{Err: err})
		return
	}
	c := PeersConfig{Resolver: q.cfg.Resolver, Own: q.cfg.Own}
	addresses, err := c.addresses(ctx, u.Hostname(), maxClientPeers)
	if err != nil && !errors.Is(err, ErrNoPeer) {
		q.answer(fleet.Answer{Address: u.Hostname(), Err: err})
	}
	for _, a := range addresses {
		if q.isNew(a) {
			q.asking.Go(func() {
				one := fleet.Answer{Address: net.JoinHostPort(a.String(), strconv.Itoa(q.cfg.Port))}
				one.View, one.Err = q.view(ctx, one.Address)
				q.answer(one)
			})
		}
	}
}

// isNew reports whether an address has not been asked yet and is to be asked.
func (q *question) isNew(a netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seen[a] || len(q.seen) >= maxClientPeers {
		return false
	}
	q.seen[a] = true
	return true
}

func (q *question) answer(one fleet.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers = append(q.answers, one)
}

// view asks one peer for all of its own clients.
func (q *question) view(ctx context.Context, address string) (*fleet.View, error) {
	u := url.URL{Scheme: "http", Host: address, Path: api.PathClients, RawQuery: "local&limit=" + strconv.Itoa(fleet.DefaultMax)}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", api.AgentPeer)
	resp, err := q.client.Do(req)
	if err != nil {
		return nil, unwrapURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	v := &fleet.View{}
	if err := json.NewDecoder(&budgeted{resp.Body, &q.budget}).Decode(v); err != nil {
		if ctx.Err() != nil {
			return nil, errLate
		}
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	return v, nil
}

// Errors of a peer.
var (
	errLate    = errors.New("no answer in time")
	errTooMuch = fmt.Errorf("the answers of all peers have more than %d bytes", maxViews)
)

// budgeted reads while all answers together stay within the budget.
type budgeted struct {
	r      io.Reader
	budget *atomic.Int64
}

func (b *budgeted) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.budget.Add(-int64(n)) < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// unwrapURL removes the URL from an error, because the address already identifies the peer.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return errLate
		}
		return e.Err
	}
	return err
}
