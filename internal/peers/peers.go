// Package peers asks the other replicas of a route server what they serve, and which clients they know.
//
// A replica that starts without a last-known-good file has nothing to compare its first table with, and a guard without a
// served table lets any table pass. [Table] fetches the table of a peer for the comparison.
//
// # Guarantees
//
// Package dataplane fetches and verifies a table as in a data plane: length, digest, size, parse, and no route that would crash a
// proxy. A table from a last-known-good file (stale) proves nothing and is not used. Of the other tables, the one with the
// highest revision is used, so that a lagging replica does not decide. A table that a peer serves while it holds another one
// back counts like any other: it is the last-known-good one.
//
// Asking takes at most Config.Timeout, whatever peers and name servers do. At most eight addresses are asked, once each and
// concurrently.
//
// # What it does not do
//
// It does not judge the table, and the replica does not serve it. It trusts whoever answers under the name of the peers, so use a
// name inside the cluster, and TLS on the listeners if the network is not trusted.
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

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 3 * time.Second

// maxPeers is how many peers are asked: each may return its own table, which takes memory.
const maxPeers = 8

// Errors of [Table].
var (
	// ErrNoPeer means that the name has no address other than our own.
	ErrNoPeer = errors.New("no other replica")
	// ErrNoTable means that no peer returned a usable table. It is wrapped with the failure of each peer.
	ErrNoTable = errors.New("no other replica has a table to compare with")
)

// errStale is the error for a peer whose own table is not confirmed.
var errStale = errors.New("its table is from a last-known-good file, not confirmed by a read yet")

// Resolver resolves a name to addresses. [net.Resolver] implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config configures [Table]. URL and Transport are required.
type Config struct {
	// URLs are http://HOST:PORT or https://HOST:PORT. All addresses of the hosts are peers, as for a headless Service.
	URLs []string
	// Transport returns the transport for requests to one peer. It must connect to the address, HOST:PORT, whatever the URL of a
	// request says, so that certificates are verified for the host in the URL. Idle connections are closed at the end.
	Transport func(address string) (http.RoundTripper, error)

	// Resolver defaults to net.DefaultResolver.
	Resolver Resolver
	// Own lists our addresses, which are not asked; nil means the addresses of the network interfaces.
	Own []netip.Addr
	// Timeout defaults to DefaultTimeout.
	Timeout time.Duration
	// MaxBytes and Memory are for dataplane.Config; all peers share the memory.
	MaxBytes, Memory int64
	// Logger logs which peers returned no table although others did; nil means no log.
	Logger *slog.Logger
}

// Table returns the table that the peers serve, and the address of the peer that it came from. The error wraps ErrNoPeer or
// ErrNoTable, or says why the peers could not be found.
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

// find returns the addresses of all URLs, at most maxPeers. A name without an address is an error only if no other name has one.
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
		return nil, errors.New("the URL of the peers cannot be parsed") // the text may contain a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("URL of the peers %q: want http(s)://host:port", u.Redacted())
	}
	return u, nil
}

// addresses returns up to most addresses of the peers, sorted.
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
			return nil, fmt.Errorf("%w: %s has no address", ErrNoPeer, host) // such as a headless Service without ready pods
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

// peerAnswer is the result of asking a peer: a table or an error.
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
		URLs: []string{u.String()}, Follow: dataplane.Poll, NoDeltas: true, Timeout: cfg.Timeout, Transport: asPeer{transport},
		MaxBytes: cfg.MaxBytes, Memory: cfg.Memory / peers,
		Guard: guard.Config{MaxLoss: 1, MaxBackendLoss: 1}, // without a served table to compare with, only an empty table is held
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

// asPeer names the sender of requests: otherwise the other replica would take it for a client, which falls silent.
type asPeer struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a asPeer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", wire.AgentPeer)
	return a.RoundTripper.RoundTrip(r)
}

// best returns the table with the highest revision; among equals, the one from the lowest address.
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
