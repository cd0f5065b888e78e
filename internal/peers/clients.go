package peers

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
	"time"

	"github.com/routesrv/routesrv/fleet"
)

// Limits of [Clients].
const (
	DefaultClientsTimeout = 1500 * time.Millisecond
	maxClientPeers        = 32
	maxViews              = 64 << 20 // bytes of all answers together
)

// ClientsConfig says whom [Clients] asks. URLs and Port are required.
type ClientsConfig struct {
	// URLs are those of Config: of them only the hosts count.
	URLs []string
	// Port is that of the support listeners, which are plain HTTP.
	Port int
	// Resolver, Own and Timeout are as in Config; the default of Timeout is DefaultClientsTimeout.
	Resolver Resolver
	Own      []netip.Addr
	Timeout  time.Duration
}

// Clients asks the peers for the clients that each knows. There is one answer for each address, and one with an error for each name
// that cannot be resolved in time. It takes at most the timeout. Addresses come from the names of the configuration and from nowhere else.
func Clients(ctx context.Context, cfg ClientsConfig) []fleet.Answer {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultClientsTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	addresses, answers := cfg.find(ctx)
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	found := make([]fleet.Answer, len(addresses))
	var all sync.WaitGroup
	for i, a := range addresses {
		all.Go(func() {
			found[i].Address = a
			found[i].View, found[i].Err = view(ctx, client, a, int64(maxViews/len(addresses)))
		})
	}
	all.Wait()
	return append(answers, found...)
}

// find resolves the names, all at once. What cannot be resolved is an answer.
func (cfg *ClientsConfig) find(ctx context.Context) (addresses []string, failed []fleet.Answer) {
	type lookup struct {
		host  string
		addrs []netip.Addr
		err   error
	}
	lookups := make([]lookup, len(cfg.URLs))
	var all sync.WaitGroup
	for i, text := range cfg.URLs {
		all.Go(func() {
			u, err := parse(text)
			if err != nil {
				lookups[i].err = err
				return
			}
			c := Config{Resolver: cfg.Resolver, Own: cfg.Own}
			lookups[i].host = u.Hostname()
			lookups[i].addrs, lookups[i].err = c.addresses(ctx, u.Hostname(), maxClientPeers)
		})
	}
	all.Wait()
	seen := make(map[netip.Addr]bool)
	for _, l := range lookups {
		if l.err != nil && !errors.Is(l.err, ErrNoPeer) {
			failed = append(failed, fleet.Answer{Address: l.host, Err: l.err})
		}
		for _, a := range l.addrs {
			if !seen[a] && len(addresses) < maxClientPeers {
				seen[a] = true
				addresses = append(addresses, net.JoinHostPort(a.String(), strconv.Itoa(cfg.Port)))
			}
		}
	}
	return addresses, failed
}

// view asks one peer for its own clients, all of them.
func view(ctx context.Context, client *http.Client, address string, limit int64) (*fleet.View, error) {
	u := url.URL{Scheme: "http", Host: address, Path: "/clients", RawQuery: "local&limit=" + strconv.Itoa(fleet.DefaultMax)}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "routesrv-peer")
	resp, err := client.Do(req)
	if err != nil {
		return nil, unwrapURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	body := &io.LimitedReader{R: resp.Body, N: limit}
	v := &fleet.View{}
	if err := json.NewDecoder(body).Decode(v); err != nil {
		if body.N <= 0 {
			return nil, fmt.Errorf("its answer has more than %d bytes", limit)
		}
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	return v, nil
}

// unwrapURL leaves out the URL, which the address says.
func unwrapURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if e.Timeout() {
			return errors.New("no answer in time")
		}
		return e.Err
	}
	return err
}
