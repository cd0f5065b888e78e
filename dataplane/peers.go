package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

const defaultPeerTimeout = 3 * time.Second

// maxPeers is how many peers are asked: each may return its own table, which takes memory.
const maxPeers = 8

// Errors of [AskPeers].
var (
	// ErrNoPeer means that the name has no address other than our own.
	ErrNoPeer = errors.New("no other replica")
	// ErrNoPeerTable means that no peer returned a usable table. It is wrapped with the failure of each peer.
	ErrNoPeerTable = errors.New("no other replica has a table to compare with")
)

// errStale is the error for a peer whose own table is not confirmed.
var errStale = errors.New("its table is from a last-known-good file, not confirmed by a read yet")

// PeerResolver resolves a name to addresses. [net.Resolver] implements it.
type PeerResolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// PeersConfig configures [AskPeers]. URL and Transport are required.
type PeersConfig struct {
	// URLs are http://HOST:PORT or https://HOST:PORT. All addresses of the hosts are peers, as for a headless Service.
	URLs []string
	// Transport returns the transport for requests to one peer. It must connect to the address, HOST:PORT, whatever the URL of a
	// request says, so that certificates are verified for the host in the URL. Idle connections are closed at the end.
	Transport func(address string) (http.RoundTripper, error)

	// Resolver defaults to net.DefaultResolver.
	Resolver PeerResolver
	// Own lists our addresses, which are not asked; nil means the addresses of the network interfaces.
	Own []netip.Addr
	// Timeout defaults to 3 seconds.
	Timeout time.Duration
	// MaxBytes and Memory are for Config; all peers share the memory.
	MaxBytes, Memory int64
	// Logger logs which peers returned no table although others did; nil means no log.
	Logger *slog.Logger
}

// PeerTable is what a peer serves.
type PeerTable struct {
	Table *table.Table
	From  string          // address of the peer
	Kept  []*publish.Kept // what the peer keeps, and what is frozen; nil if nothing is
}

// AskPeers asks the other replicas of a route server what they serve. The error wraps ErrNoPeer or ErrNoPeerTable, or says why the peers
// could not be found.
//
// A replica that starts without a last-known-good file has nothing to compare its first table with, and a guard without a
// served table lets any table pass. It fetches the table of a peer for the comparison, and the objects that the peer keeps at
// earlier versions, so that the first table has them as well.
//
// Tables are fetched and verified as in a data plane: length, digest, size, parse, and no route that would crash a
// proxy. A table from a last-known-good file (stale) proves nothing and is not used. Of the other tables, the one with the
// highest revision is used, so that a lagging replica does not decide. A table that a peer serves while it holds another one
// back counts like any other: it is the last-known-good one.
//
// Asking takes at most PeersConfig.Timeout, whatever peers and name servers do. At most eight addresses are asked, once each and
// concurrently.
//
// It does not judge the table, and the replica does not serve it. It trusts whoever answers under the name of the peers, so use a
// name inside the cluster, and TLS on the listeners if the network is not trusted.
func AskPeers(ctx context.Context, cfg PeersConfig) (PeerTable, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultPeerTimeout)
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	peers, err := cfg.find(ctx)
	if err != nil {
		return PeerTable{}, err
	}
	answers := make([]peerAnswer, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		all.Go(func() {
			one := &answers[i]
			one.From = net.JoinHostPort(p.address.String(), p.url.Port())
			one.err = cfg.fetch(ctx, p.url, int64(len(peers)), &one.PeerTable)
		})
	}
	all.Wait()
	return cfg.best(answers)
}

// peer is one address of one of the URLs.
type peer struct {
	url     *url.URL
	address netip.Addr
}

// find returns the addresses of all URLs, at most maxPeers, sorted. A name without an address is an error only if no other name has one.
func (cfg *PeersConfig) find(ctx context.Context) (peers []peer, err error) {
	var failed []error
	cfg.resolve(ctx, maxPeers, func(u *url.URL, a netip.Addr) {
		peers = append(peers, peer{u, a})
	}, func(_ string, err error) {
		failed = append(failed, err)
	})
	if len(peers) == 0 {
		return nil, cmp.Or(errors.Join(failed...), ErrNoPeer)
	}
	slices.SortFunc(peers, func(a, b peer) int { return a.address.Compare(b.address) })
	return peers, nil
}

// resolve resolves the hosts of all URLs at the same time. It calls found for each address of a peer, at most most of them, and failed for
// each host without one, as soon as it knows; only one of them runs at a time.
func (cfg *PeersConfig) resolve(ctx context.Context, most int, found func(u *url.URL, address netip.Addr), failed func(host string, err error)) {
	var resolving sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[netip.Addr]bool) // guarded by mu
	for _, text := range cfg.URLs {
		resolving.Go(func() {
			var host string
			var addresses []netip.Addr
			u, err := parse(text)
			if err == nil {
				host = u.Hostname()
				addresses, err = cfg.addresses(ctx, host)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed(host, err)
			}
			for _, a := range addresses {
				if !seen[a] && len(seen) < most {
					seen[a] = true
					found(u, a)
				}
			}
		})
	}
	resolving.Wait()
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

// addresses returns the addresses of the peers with a name, sorted.
func (cfg *PeersConfig) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
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
	return addresses, nil
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
	PeerTable
	err error
}

// fetch fetches and verifies the table of one of several peers.
func (cfg *PeersConfig) fetch(ctx context.Context, u *url.URL, peers int64, found *PeerTable) error {
	transport, err := cfg.Transport(found.From)
	if err != nil {
		return err
	}
	defer closeIdle(transport)
	c, err := New(Config{
		URLs: []string{u.String()}, UpdateMode: Poll, Timeout: cfg.Timeout, Transport: asPeer{transport},
		MaxBytes: cfg.MaxBytes, Memory: cfg.Memory / peers,
		Guard: guard.Config{MaxLoss: 1, MaxBackendLoss: 1}, // without a served table to compare with, only an empty table is held
	})
	if err != nil {
		return err
	}
	if err := c.Poll(ctx); err != nil {
		return err
	}
	status := c.Status()
	switch {
	case status.Held != nil:
		return errors.New(status.Held.Detail)
	case status.Applied == nil:
		return ErrNoPeerTable
	case status.Applied.ServerState == api.StateStale:
		return errStale
	}
	found.Table = c.Current()
	err = readPeer(ctx, u.JoinPath(api.PathKept), transport, func(r io.Reader) (err error) {
		found.Kept, err = publish.ReadKept(r)
		return err
	})
	if err != nil && !errors.Is(err, statusError(http.StatusNotFound)) { // a peer that knows only tables keeps none
		return fmt.Errorf("which objects it keeps: %w", err)
	}
	return nil
}

// FromPeer reads a document of the first peer that has it, at a path of the main listener. The error is the one of read, or says why no peer has the
// document. It takes at most ten seconds.
func FromPeer(ctx context.Context, cfg PeersConfig, path string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	peers, err := cfg.find(ctx)
	if err != nil {
		return err
	}
	failed := []error{fmt.Errorf("no other replica has %s", path)}
	for _, p := range peers {
		from := net.JoinHostPort(p.address.String(), p.url.Port())
		if err = cfg.document(ctx, p.url.JoinPath(path), from, read); err == nil {
			return nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", from, err))
	}
	return errors.Join(failed...)
}

// FromPeers reads a document of every peer, one after another, at a path of the main listener. The error joins those of the peers that do not have it,
// and of read. It takes at most two seconds.
func FromPeers(ctx context.Context, cfg PeersConfig, path string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	peers, err := cfg.find(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range peers {
		from := net.JoinHostPort(p.address.String(), p.url.Port())
		if err := cfg.document(ctx, p.url.JoinPath(path), from, read); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", from, err))
		}
	}
	return errors.Join(failed...)
}

const (
	// documentTimeout limits FromPeer: a server that starts waits for it.
	documentTimeout = 10 * time.Second
	// pollTimeout limits FromPeers, which is called every few seconds.
	pollTimeout = 2 * time.Second
)

// document reads a document of the peer at an address.
func (cfg *PeersConfig) document(ctx context.Context, u *url.URL, address string, read func(io.Reader) error) error {
	transport, err := cfg.Transport(address)
	if err != nil {
		return err
	}
	defer closeIdle(transport)
	return readPeer(ctx, u, transport, read)
}

func closeIdle(transport http.RoundTripper) {
	(&http.Client{Transport: transport}).CloseIdleConnections()
}

// statusError is the status of an answer that has no document.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// readPeer reads a document of another replica.
func readPeer(ctx context.Context, u *url.URL, transport http.RoundTripper, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := asPeer{transport}.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	return read(resp.Body)
}

// asPeer names the sender of requests: otherwise the other replica would take it for a client, which falls silent.
type asPeer struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (a asPeer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", api.AgentPeer)
	return a.RoundTripper.RoundTrip(r)
}

// best returns the table with the highest revision; among equals, the one from the lowest address.
func (cfg *PeersConfig) best(answers []peerAnswer) (found PeerTable, err error) {
	var failed []error
	for _, a := range answers {
		if a.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", a.From, a.err))
			continue
		}
		if found.Table == nil || a.Table.Revision() > found.Table.Revision() {
			found = a.PeerTable
		}
	}
	if found.Table == nil {
		return PeerTable{}, fmt.Errorf("%w: %w", ErrNoPeerTable, errors.Join(failed...))
	}
	if cfg.Logger != nil {
		for _, err := range failed {
			cfg.Logger.Info("a peer gave no table", "error", err)
		}
	}
	return found, nil
}
