// Package peers asks the other replicas of a route server what they serve, and which clients they know.
//
// A replica that starts without a checkpoint has nothing to compare its first table with: whatever it reads, a guard without a served
// table lets it pass. [Table] gives it the table of a peer to compare with.
//
// # Guarantees
//
// A table is fetched and verified by package dataplane, as a data plane does it: length, digest, size, parse, and no route that
// would end the process of a proxy. A table from a checkpoint (stale) proves nothing and is not taken. Of the others the one with
// the highest revision is, so that a replica that lags does not decide. A table that a peer serves while it holds another one back
// counts as any: it is the one that was fine.
//
// Asking takes at most Config.Timeout, whatever peers and name servers do. Each address is asked once, at the same time as the others, and
// no more than eight are.
//
// # What it does not do
//
// It does not judge the table, and nobody serves it for having been fetched. Whoever answers under the name of the peers is
// believed, so the name should be one of the cluster, and the listeners have TLS where the network is not trusted.
package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/internal/wire"
	"github.com/routesrv/routesrv/table"
)

// DefaultTimeout is how long asking takes at most.
const DefaultTimeout = 3 * time.Second

// maxPeers is how many peers are asked: each may give a table of its own, which takes memory.
const maxPeers = 8

// Errors of [Table].
var (
	// ErrNoPeer says that the name has no address but our own.
	ErrNoPeer = errors.New("no other replica")
	// ErrNoTable says that no peer gave a table that can be used. It is wrapped with what was wrong with each.
	ErrNoTable = errors.New("no other replica has a table to compare with")
)

// errStale is of a peer whose own table is not confirmed.
var errStale = errors.New("its table is from a checkpoint, not confirmed by a read yet")

// Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config says who the peers are. URL and Transport are required.
type Config struct {
	// URLs are http://HOST:PORT or https://HOST:PORT. All addresses of the hosts are peers, such as those of a headless Service.
	URLs []string
	// Transport makes the requests to one peer: it connects to the address, HOST:PORT, whatever the URL of a request says. So
	// certificates are verified for the host of its URL. Idle connections are closed at the end.
	Transport func(address string) (http.RoundTripper, error)

	// Resolver is net.DefaultResolver if it is nil.
	Resolver Resolver
	// Own are our addresses, which are not asked; nil means those of the network interfaces.
	Own []netip.Addr
	// Timeout is DefaultTimeout if it is 0.
	Timeout time.Duration
	// MaxBytes and Memory are for dataplane.Config; the memory is shared by all peers.
	MaxBytes, Memory int64
	// Logger is told which peers gave nothing although others did; nil means no log.
	Logger *slog.Logger
}

// Table returns the table that the peers serve, and the address of the one that gave it. The error wraps ErrNoPeer or ErrNoTable, or
// says why the peers are not known.
func Table(ctx context.Context, cfg Config) (t *table.Table, from string, err error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	peers, err := cfg.find(ctx)
	if err != nil {
		return nil, "", err
	}
	answers := make([]peerAnswer, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() { answers[i] = cfg.ask(ctx, p.url, p.address, int64(len(peers))) })
	}
	all.Wait()
	return cfg.best(answers)
}

// peer is one address of one of the URLs.
type peer struct {
	url     *url.URL
	address string // HOST:PORT
}

// find returns the addresses of all URLs, at most maxPeers. A name without an address is an error if no other has one.
func (cfg *Config) find(ctx context.Context) (peers []peer, err error) {
	var failed []error
	for _, text := range cfg.URLs {
		u, err := parse(text)
		if err != nil {
			return nil, err
		}
		addresses, err := cfg.addresses(ctx, u.Hostname(), maxPeers)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, a := range addresses {
			peers = append(peers, peer{u, net.JoinHostPort(a.String(), u.Port())})
		}
	}
	if len(peers) == 0 {
		return nil, cmp.Or(errors.Join(failed...), ErrNoPeer)
	}
	return peers[:min(len(peers), maxPeers)], nil
}

// parse checks the URL.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL of the peers cannot be parsed") // it may have a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("URL of the peers %q: want http(s)://host:port", u.Redacted())
	}
	return u, nil
}

// addresses returns those of the peers, sorted, at most so many.
func (cfg *Config) addresses(ctx context.Context, host string, most int) ([]netip.Addr, error) {
	own := cfg.Own
	if own == nil {
		var err error
		if own, err = interfaces(); err != nil {
			return nil, fmt.Errorf("find the own addresses: %w", err)
		}
	}
	resolver := cfg.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			return nil, fmt.Errorf("%w: %s has no address", ErrNoPeer, host) // as a headless Service without ready pods
		}
		return nil, fmt.Errorf("resolve the peers: %w", err)
	}
	var addresses []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(own, a) {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: %s has only our own address", ErrNoPeer, host)
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	addresses = slices.Compact(addresses)
	return addresses[:min(len(addresses), most)], nil
}

// interfaces returns the addresses of this machine.
func interfaces() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, prefix.Addr().Unmap())
		}
	}
	return out, nil
}

// peerAnswer is what came of asking a peer: a table or an error.
type peerAnswer struct {
	address string
	table   *table.Table
	err     error
}

// ask fetches and verifies the table of one of several peers.
func (cfg *Config) ask(ctx context.Context, u *url.URL, address string, peers int64) peerAnswer {
	t, err := cfg.fetch(ctx, u, address, peers)
	return peerAnswer{address, t, err}
}

func (cfg *Config) fetch(ctx context.Context, u *url.URL, address string, peers int64) (*table.Table, error) {
	transport, err := cfg.Transport(address)
	if err != nil {
		return nil, err
	}
	if t, ok := transport.(interface{ CloseIdleConnections() }); ok {
		defer t.CloseIdleConnections()
	}
	c, err := dataplane.New(dataplane.Config{
		URLs: []string{u.String()}, Follow: dataplane.Poll, NoDeltas: true, Timeout: cfg.Timeout, Transport: transport,
		MaxBytes: cfg.MaxBytes, Memory: cfg.Memory / peers,
		Guard: guard.Config{MaxLoss: 1, MaxBackendLoss: 1}, // there is nothing to compare with; only an empty table is held
	})
	if err != nil {
		return nil, err
	}
	if err := c.Poll(ctx); err != nil {
		return nil, err
	}
	status := c.Status()
	switch {
	case status.Held != nil:
		return nil, errors.New(status.Held.Detail)
	case status.Applied == nil:
		return nil, dataplane.ErrNoTable
	case status.Applied.ServerState == wire.StateStale:
		return nil, errStale
	}
	return c.Current(), nil
}

// best returns the table with the highest revision; of several, that of the lowest address.
func (cfg *Config) best(answers []peerAnswer) (t *table.Table, from string, err error) {
	var failed []error
	for _, a := range answers {
		if a.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", a.address, a.err))
			continue
		}
		if t == nil || a.table.Revision() > t.Revision() {
			t, from = a.table, a.address
		}
	}
	if t == nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoTable, errors.Join(failed...))
	}
	if cfg.Logger != nil {
		for _, err := range failed {
			cfg.Logger.Info("a peer gave no table", "error", err)
		}
	}
	return t, from, nil
}
