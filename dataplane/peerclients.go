package dataplane

import (
	"cmp"
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

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
)

// Limits of [PeerClients].
const (
	defaultClientsTimeout = 1500 * time.Millisecond
	maxClientPeers        = 32
	maxViews              = 64 << 20 // bytes of all answers together
)

// PeerClients asks the peers which clients each of them knows. It returns one answer for each address, and one with an error for each
// name that it cannot resolve in time. Addresses come only from the configured names. port is the port of the support listeners, which speak
// plain HTTP; of cfg, URLs, Resolver, Own and Timeout count. The default of Timeout is 1.5 seconds.
func PeerClients(ctx context.Context, cfg PeersConfig, port int) []fleet.Answer {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Timeout, defaultClientsTimeout))
	defer cancel()
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	var asking sync.WaitGroup
	var mu sync.Mutex
	var answers []fleet.Answer // guarded by mu
	add := func(one fleet.Answer) {
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, one)
	}
	budget := new(atomic.Int64) // remaining bytes for all answers
	budget.Store(maxViews)
	cfg.resolve(ctx, maxClientPeers, func(_ *url.URL, a netip.Addr) {
		asking.Go(func() {
			one := fleet.Answer{Address: net.JoinHostPort(a.String(), strconv.Itoa(port))}
			one.View, one.Err = askClients(ctx, transport, one.Address, budget)
			add(one)
		})
	}, func(host string, err error) {
		if !errors.Is(err, ErrNoPeer) {
			add(fleet.Answer{Address: host, Err: err})
		}
	})
	asking.Wait()
	return answers
}

// askClients asks one peer for all of its own clients.
func askClients(ctx context.Context, transport http.RoundTripper, address string, budget *atomic.Int64) (*fleet.View, error) {
	u := url.URL{Scheme: "http", Host: address, Path: api.PathClients, RawQuery: "local&limit=" + strconv.Itoa(fleet.DefaultMax)}
	v := &fleet.View{}
	err := readPeer(ctx, &u, transport, func(r io.Reader) error {
		if err := json.NewDecoder(&budgeted{r, budget}).Decode(v); err != nil {
			return fmt.Errorf("read its answer: %w", err)
		}
		return nil
	})
	switch {
	case err == nil:
		return v, nil
	case ctx.Err() != nil:
		return nil, errLate
	}
	return nil, err
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
