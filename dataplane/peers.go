package dataplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Limits of requests to peers.
const (
	defaultPeerTimeout    = 3 * time.Second
	defaultClientsTimeout = 1500 * time.Millisecond
	// documentTimeout limits FromPeers: a server that starts waits for it.
	documentTimeout = 10 * time.Second
	maxPeers        = 8 // each may return its own table, which takes memory
	maxClientPeers  = 32
	maxViews        = 64 << 20 // bytes of the answers of all peers about their clients
)

// Errors of peers.
var (
	// ErrNoPeer means that the name has no address other than our own.
	ErrNoPeer = errors.New("no other replica")
	// ErrNoPeerTable means that no peer returned a usable table. It is wrapped with the failure of each peer.
	ErrNoPeerTable = errors.New("no other replica has a table to compare with")

	errStale = errors.New("its table is from a last-known-good file, not confirmed by a read yet")
)

// PeersConfig configures requests to the other replicas. URLs is required; Transport is, except for [PeerClients].
type PeersConfig struct {
	// URLs are http://HOST:PORT or https://HOST:PORT. All addresses of the hosts are peers, as for a headless Service.
	URLs []string
	// Transport returns the transport for requests to one peer. It must connect to the address, HOST:PORT, whatever the URL of a
	// request says, so that certificates are verified for the host in the URL. Idle connections are closed at the end.
	Transport func(address string) (http.RoundTripper, error)

	// Lookup resolves a name to addresses; nil means the method of net.DefaultResolver.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// Own lists our addresses, which are not asked; nil means the addresses of the network interfaces.
	Own []netip.Addr
	// Timeout defaults to 3 seconds, for [PeerClients] to 1.5.
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

// AskPeers asks the other replicas of a route server what they serve. The error wraps ErrNoPeer or ErrNoPeerTable, or is the
// failure to find the peers. A replica that starts without a last-known-good file compares its first table with the table of a peer,
// and needs the objects that the peer keeps.
//
// Tables are verified as in a data plane. A stale one proves nothing; of the others, the one with the highest revision is used.
// It takes at most PeersConfig.Timeout, asks at most eight addresses, once each, and trusts every address of the name.
func AskPeers(ctx context.Context, cfg PeersConfig) (found PeerTable, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Timeout, defaultPeerTimeout))
	defer cancel()
	peers, err := cfg.find(ctx)
	if err != nil {
		return PeerTable{}, err
	}
	answers, failed := make([]PeerTable, len(peers)), make([]error, len(peers))
	var asking sync.WaitGroup
	for i, p := range peers {
		asking.Go(func() { answers[i], failed[i] = cfg.fetch(ctx, p, int64(len(peers))) })
	}
	asking.Wait()
	for i, a := range answers {
		if failed[i] != nil {
			failed[i] = fmt.Errorf("%s: %w", peers[i], failed[i])
		} else if found.Table == nil || a.Table.Revision() > found.Table.Revision() {
			found = a
		}
	}
	if found.Table == nil {
		return PeerTable{}, fmt.Errorf("%w: %w", ErrNoPeerTable, errors.Join(failed...))
	}
	for _, err := range failed {
		if err != nil && cfg.Logger != nil {
			cfg.Logger.Info("a peer gave no table", "error", err)
		}
	}
	return found, nil
}

// fetch fetches and verifies the table of one of several peers.
func (cfg *PeersConfig) fetch(ctx context.Context, p peer, peers int64) (found PeerTable, err error) {
	transport, err := cfg.Transport(p.String())
	if err != nil {
		return found, err
	}
	defer closeIdle(transport)
	c, err := New(Config{
		URLs: []string{p.url.String()}, UpdateMode: Poll, Timeout: cmp.Or(cfg.Timeout, defaultPeerTimeout), Transport: asPeer{transport},
		MaxBytes: cfg.MaxBytes, Memory: cfg.Memory / peers,
		Guard: guard.Config{MaxLoss: 1, MaxBackendLoss: 1}, // without a served table to compare with, only an empty table is held
	})
	if err != nil {
		return found, err
	}
	if err := c.Poll(ctx); err != nil {
		return found, err
	}
	status := c.Status()
	switch {
	case status.Held != nil:
		return found, errors.New(status.Held.Detail)
	case status.Applied == nil:
		return found, ErrNoPeerTable
	case status.Applied.ServerState == api.StateStale:
		return found, errStale
	}
	found = PeerTable{Table: c.Current(), From: p.String()}
	err = readPeer(ctx, p.url.JoinPath(api.PathKept), transport, func(r io.Reader) (err error) {
		found.Kept, err = publish.ReadKept(r)
		return err
	})
	if err != nil && !errors.Is(err, statusError(http.StatusNotFound)) { // a peer that knows only tables keeps none
		return found, fmt.Errorf("which objects it keeps: %w", err)
	}
	return found, nil
}

// FromPeers reads a document of the peers, one after another, at a path of the main listener: of all of them or, if first is set,
// until one of them has it. The error joins the failures of the other peers. It takes at most ten seconds.
func FromPeers(ctx context.Context, cfg PeersConfig, path string, first bool, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	peers, err := cfg.find(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range peers {
		transport, err := cfg.Transport(p.String())
		if err == nil {
			err = readPeer(ctx, p.url.JoinPath(path), transport, read)
			closeIdle(transport)
		}
		if err == nil && first {
			return nil
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s has no %s: %w", p, path, err))
		}
	}
	return errors.Join(failed...)
}

// PeerClients asks the peers which clients each of them knows. It returns one answer for each address, and one with an error for
// each name that it cannot resolve. port is the port of the support listeners, which speak plain HTTP; of cfg, URLs, Lookup, Own
// and Timeout count.
func PeerClients(ctx context.Context, cfg PeersConfig, port int) []fleet.Answer {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Timeout, defaultClientsTimeout))
	defer cancel()
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	peers, failed := cfg.resolve(ctx, maxClientPeers)
	answers := make([]fleet.Answer, len(peers))
	var asking sync.WaitGroup
	for i, p := range peers {
		asking.Go(func() {
			one := &answers[i]
			one.Address = net.JoinHostPort(p.address.String(), strconv.Itoa(port))
			one.Clients, one.Err = askClients(ctx, transport, one.Address, int64(maxViews/len(peers)))
		})
	}
	asking.Wait()
	for host, err := range failed {
		if !errors.Is(err, ErrNoPeer) {
			answers = append(answers, fleet.Answer{Address: host, Err: err})
		}
	}
	return answers
}

// askClients asks one peer for its own clients, all of them.
func askClients(ctx context.Context, transport http.RoundTripper, address string, limit int64) (v *fleet.Clients, err error) {
	u := url.URL{Scheme: "http", Host: address, Path: api.PathClients, RawQuery: "local&limit=" + strconv.Itoa(fleet.DefaultMax)}
	err = readPeer(ctx, &u, transport, func(r io.Reader) error {
		limited := &io.LimitedReader{R: r, N: limit}
		switch err := json.NewDecoder(limited).Decode(&v); {
		case limited.N <= 0:
			return fmt.Errorf("its answer has more than %d bytes", limit)
		case err != nil:
			return fmt.Errorf("read its answer: %w", err)
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		err = errors.New("no answer in time")
	}
	return v, err
}

// peer is one address of one of the URLs.
type peer struct {
	url     *url.URL
	address netip.Addr
}

// String returns the address with the port.
func (p peer) String() string { return net.JoinHostPort(p.address.String(), p.url.Port()) }

// find returns the addresses of all URLs, at most maxPeers. A name without an address is an error only if no other name has one.
func (cfg *PeersConfig) find(ctx context.Context) ([]peer, error) {
	peers, failed := cfg.resolve(ctx, maxPeers)
	if len(peers) > 0 {
		return peers, nil
	}
	var all []error
	for _, err := range failed {
		all = append(all, err)
	}
	return nil, cmp.Or(errors.Join(all...), ErrNoPeer)
}

// resolve resolves the hosts of all URLs concurrently, in half of the time that ctx leaves. It returns the addresses, at most
// most of them, sorted, and the failures by host.
func (cfg *PeersConfig) resolve(ctx context.Context, most int) (peers []peer, failed map[string]error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	failed = make(map[string]error)
	var resolving sync.WaitGroup
	var mu sync.Mutex // guards peers and failed
	for _, text := range cfg.URLs {
		resolving.Go(func() {
			found, host, err := cfg.addresses(ctx, text)
			mu.Lock()
			defer mu.Unlock()
			if peers = append(peers, found...); err != nil {
				failed[host] = err
			}
		})
	}
	resolving.Wait()
	slices.SortFunc(peers, func(a, b peer) int { return a.address.Compare(b.address) })
	peers = slices.CompactFunc(peers, func(a, b peer) bool { return a.address == b.address })
	return peers[:min(len(peers), most)], failed
}

// addresses returns the peers at a URL, and its host.
func (cfg *PeersConfig) addresses(ctx context.Context, text string) (peers []peer, host string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, "", errors.New("the URL of the peers cannot be parsed") // the text may contain a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, "", fmt.Errorf("URL of the peers %q: must be http(s)://host:port", u.Redacted())
	}
	host = u.Hostname()
	own := cfg.Own
	if own == nil {
		list, err := net.InterfaceAddrs()
		if err != nil {
			return nil, host, fmt.Errorf("find the own addresses: %w", err)
		}
		for _, a := range list {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				own = append(own, prefix.Addr().Unmap())
			}
		}
	}
	lookup := cfg.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	found, err := lookup(ctx, "ip", host)
	if err != nil {
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			return nil, host, fmt.Errorf("%w: %s has no address", ErrNoPeer, host) // such as a headless Service without ready pods
		}
		return nil, host, fmt.Errorf("resolve the peers: %w", err)
	}
	for _, a := range found {
		if a = a.Unmap(); !slices.Contains(own, a) {
			peers = append(peers, peer{u, a})
		}
	}
	if len(peers) == 0 {
		return nil, host, fmt.Errorf("%w: %s has only our own address", ErrNoPeer, host)
	}
	return peers, host, nil
}

func closeIdle(transport http.RoundTripper) {
	(&http.Client{Transport: transport}).CloseIdleConnections()
}

// statusError is the status of an answer that has no document.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

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
