package dataplane_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

const (
	name = "routesrv-peers.routesrv.svc"
	own  = "10.2.0.1"
)

// replicas resolves the name to addresses and has a handler for each.
type peerReplicas struct {
	handlers  map[string]http.Handler // by address
	addresses []string                // nil means those of handlers and our own
	err       error                   // of the resolver
	wait      bool                    // the resolver does not answer
	asked     []string                // addresses that were connected to, in any order; read when Table has returned
	connected chan string
}

func (f *peerReplicas) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if network != "ip" || host != name {
		return nil, fmt.Errorf("asked for %s %s", network, host)
	}
	if f.wait {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	addresses := f.addresses
	if addresses == nil {
		addresses = []string{own}
		for a := range f.handlers {
			addresses = append(addresses, a)
		}
	}
	var out []netip.Addr
	for _, a := range addresses {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, f.err
}

// table queries the replicas, with sockets in memory.
func (f *peerReplicas) table(ctx context.Context, change func(*dataplane.PeersConfig)) (*table.Table, string, error) {
	f.connected = make(chan string, 100)
	cfg := dataplane.PeersConfig{
		URLs: []string{"http://" + name + ":9090"}, Lookup: f.LookupNetIP, Own: []netip.Addr{netip.MustParseAddr(own)},
		Transport: func(address string) (http.RoundTripper, error) {
			f.connected <- address
			host, _, _ := net.SplitHostPort(address)
			network := &localNetwork{}
			network.Set(name+":9090", f.handlers[host])
			return network, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	found, err := dataplane.AskPeers(ctx, cfg)
	close(f.connected)
	f.asked = nil
	for a := range f.connected {
		f.asked = append(f.asked, a)
	}
	slices.Sort(f.asked)
	return found.Table, found.From, err
}

func peerTable(t *testing.T, revision uint64, ids ...string) *table.Table {
	t.Helper()
	var routes []table.Route
	for _, id := range ids {
		routes = append(routes, table.Route{ID: id, Text: id + ": * -> <shunt>;"})
	}
	tab, err := table.New(routes, revision, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// serving is a replica that has read its source.
func serving(t *testing.T, tab *table.Table) *etagcache.Cache {
	t.Helper()
	c := peerCache(t)
	c.Begin()(tab, table.Read{Oldest: tab.Revision(), Newest: tab.Revision(), Consistent: true, At: time.Now()})
	return c
}

func peerCache(t *testing.T) *etagcache.Cache {
	t.Helper()
	c, err := etagcache.New(etagcache.Config{Recheck: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stale is a replica that has only a last-known-good file.
func stale(t *testing.T, tab *table.Table) http.Handler {
	c := peerCache(t)
	c.Restore(tab, time.Now())
	return c.Handler()
}

// liar serves a text under the name of another.
func liar(t *testing.T, revision uint64) http.Handler {
	tab := peerTable(t, revision, "a")
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", api.Tag{Revision: revision, Digest: tab.Digest()}.String())
		w.Header().Set(api.HeaderRevision, fmt.Sprint(revision))
		_, _ = w.Write([]byte("b: * -> <shunt>;"))
	})
}

func hanging() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

func refusing() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
}

func TestPeers(t *testing.T) {
	type handlers = map[string]http.Handler
	for _, test := range []struct {
		name     string
		replicas func(t *testing.T) *peerReplicas
		from     string // "" if there is an error
		err      error
		says     []string
		asked    int
		takes    time.Duration
	}{
		{name: "nobody", replicas: func(*testing.T) *peerReplicas {
			return &peerReplicas{err: &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}}
		}, err: dataplane.ErrNoPeer, says: []string{"no other replica: " + name + " has no address"}},
		{name: "only we", replicas: func(*testing.T) *peerReplicas { return &peerReplicas{} }, err: dataplane.ErrNoPeer, says: []string{"only our own address"}},
		{name: "we as an address of IPv6", replicas: func(*testing.T) *peerReplicas {
			return &peerReplicas{addresses: []string{"::ffff:" + own}}
		}, err: dataplane.ErrNoPeer},
		{name: "the name server fails", replicas: func(*testing.T) *peerReplicas {
			return &peerReplicas{err: &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}}
		}, says: []string{"resolve the peers: ", "server misbehaving"}},
		{name: "the name server is silent", replicas: func(*testing.T) *peerReplicas { return &peerReplicas{wait: true} },
			err: context.DeadlineExceeded, takes: 1500 * time.Millisecond},
		{name: "one", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{"10.2.0.2": serving(t, peerTable(t, 5, "a")).Handler()}}
		}, from: "10.2.0.2:9090", asked: 1},
		{name: "one by IPv6, named twice", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{addresses: []string{"fd00::2", "fd00::2"}, handlers: handlers{"fd00::2": serving(t, peerTable(t, 5, "a")).Handler()}}
		}, from: "[fd00::2]:9090", asked: 1},
		{name: "the newest", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{
				"10.2.0.2": serving(t, peerTable(t, 5, "a")).Handler(), "10.2.0.3": serving(t, peerTable(t, 9, "b")).Handler(),
				"10.2.0.4": serving(t, peerTable(t, 7, "c")).Handler(),
			}}
		}, from: "10.2.0.3:9090", asked: 3},
		{name: "the first of equals", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{
				"10.2.0.10": serving(t, peerTable(t, 5, "a")).Handler(), "10.2.0.9": serving(t, peerTable(t, 5, "b")).Handler(),
			}}
		}, from: "10.2.0.9:9090", asked: 2},
		{name: "not one that has only a last-known-good file", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{
				"10.2.0.2": stale(t, peerTable(t, 9, "a")), "10.2.0.3": serving(t, peerTable(t, 5, "b")).Handler(),
			}}
		}, from: "10.2.0.3:9090", says: []string{"10.2.0.2:9090: its table is from a last-known-good file"}, asked: 2},
		{name: "one that holds another back", replicas: func(t *testing.T) *peerReplicas {
			c := serving(t, peerTable(t, 5, "a"))
			c.Begin()(nil, table.Read{Oldest: 6, Newest: 6, Consistent: true, Held: true, At: time.Now()})
			return &peerReplicas{handlers: handlers{"10.2.0.2": c.Handler()}}
		}, from: "10.2.0.2:9090", asked: 1},
		{name: "one lies", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{"10.2.0.2": liar(t, 9), "10.2.0.3": serving(t, peerTable(t, 5, "b")).Handler()}}
		}, from: "10.2.0.3:9090", says: []string{"10.2.0.2:9090: ", "text has digest"}, asked: 2},
		{name: "one hangs", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{"10.2.0.2": hanging(), "10.2.0.3": serving(t, peerTable(t, 5, "b")).Handler()}}
		}, from: "10.2.0.3:9090", says: []string{"10.2.0.2:9090: "}, asked: 2, takes: 3 * time.Second},
		{name: "one has an empty table", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{"10.2.0.2": serving(t, peerTable(t, 9)).Handler()}}
		}, err: dataplane.ErrNoPeerTable, says: []string{"10.2.0.2:9090: the table has no route"}, asked: 1},
		{name: "one would end proxies", replicas: func(t *testing.T) *peerReplicas {
			tab, err := table.New([]table.Route{{ID: "a", Text: `a: * -> admissionControl("a", "active", "0s") -> <shunt>;`}}, 1, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return &peerReplicas{handlers: handlers{"10.2.0.2": serving(t, tab).Handler()}}
		}, err: dataplane.ErrNoPeerTable, says: []string{"10.2.0.2:9090: the table has no route"}, asked: 1},
		{name: "all refuse", replicas: func(t *testing.T) *peerReplicas {
			return &peerReplicas{handlers: handlers{"10.2.0.2": refusing(), "10.2.0.3": peerCache(t).Handler(), "10.2.0.4": nil}}
		}, err: dataplane.ErrNoPeerTable, asked: 3, says: []string{
			"no other replica has a table to compare with", "10.2.0.2:9090: ", "status 403", "10.2.0.3:9090: ", "no table yet", "10.2.0.4:9090: ", "refused",
		}},
		{name: "many", replicas: func(t *testing.T) *peerReplicas {
			f := &peerReplicas{handlers: handlers{}}
			for i := range 30 {
				f.handlers[fmt.Sprintf("10.2.1.%d", i)] = refusing()
			}
			return f
		}, err: dataplane.ErrNoPeerTable, asked: 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := test.replicas(t)
				var log bytes.Buffer
				start := time.Now()
				tab, from, err := f.table(t.Context(), func(c *dataplane.PeersConfig) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				if took := time.Since(start); took != test.takes {
					t.Errorf("took %v, want %v", took, test.takes)
				}
				if from != test.from || (err == nil) != (from != "") || (tab == nil) != (err != nil) {
					t.Fatalf("table %v from %q, error %v; want it from %q", tab, from, err, test.from)
				}
				if test.err != nil && !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				for _, text := range test.says {
					if said := fmt.Sprint(err, log.String()); !strings.Contains(said, text) {
						t.Errorf("%s lacks %q", said, text)
					}
				}
				if len(f.asked) != test.asked || slices.Contains(f.asked, own+":9090") {
					t.Errorf("asked %v, want %d and not us", f.asked, test.asked)
				}
			})
		})
	}
}

// TestTableIsThatOfThePeer: and the peer can tell that it was not asked by a client.
func TestTableIsThatOfThePeer(t *testing.T) {
	want := peerTable(t, 5, "a", "b")
	next := serving(t, want).Handler()
	f := &peerReplicas{handlers: map[string]http.Handler{"10.2.0.2": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if agent := r.UserAgent(); agent != "routesrv-peer" {
			t.Errorf("asked by %q", agent)
		}
		next.ServeHTTP(w, r)
	})}}
	got, _, err := f.table(t.Context(), nil)
	if err != nil || got.Digest() != want.Digest() || got.Revision() != 5 {
		t.Errorf("table %v, error %v", got, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, u := range []string{"", "routesrv-peers:9090", "http://routesrv-peers", "ftp://a:1", "http://a:1/x", "http://:1", "http://u:secret@\x00"} {
		f := &peerReplicas{}
		if _, _, err := f.table(t.Context(), func(c *dataplane.PeersConfig) { c.URLs = []string{u} }); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v", u, err)
		}
	}
	f := &peerReplicas{handlers: map[string]http.Handler{"10.2.0.2": refusing()}}
	broken := errors.New("no certificate")
	_, _, err := f.table(t.Context(), func(c *dataplane.PeersConfig) {
		c.Transport = func(string) (http.RoundTripper, error) { return nil, broken }
	})
	if !errors.Is(err, broken) || !errors.Is(err, dataplane.ErrNoPeerTable) {
		t.Errorf("error %v", err)
	}
	small := &peerReplicas{handlers: map[string]http.Handler{"10.2.0.2": serving(t, peerTable(t, 5, "a", "b")).Handler()}}
	if _, _, err := small.table(t.Context(), func(c *dataplane.PeersConfig) { c.MaxBytes = 10 }); !errors.Is(err, dataplane.ErrNoPeerTable) || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Errorf("a table beyond the limit: error %v", err)
	}
}

// TestOwnAddressesAreThoseOfTheInterfaces uses real sockets: the loopback interface is ours.
func TestOwnAddressesAreThoseOfTheInterfaces(t *testing.T) {
	s := httptest.NewServer(serving(t, peerTable(t, 5, "a")).Handler())
	defer s.Close()
	cfg := dataplane.PeersConfig{URLs: []string{s.URL}, Transport: func(address string) (http.RoundTripper, error) {
		return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}, nil
	}}
	if _, err := dataplane.AskPeers(t.Context(), cfg); !errors.Is(err, dataplane.ErrNoPeer) {
		t.Errorf("error %v, want %v", err, dataplane.ErrNoPeer)
	}
	cfg.Own = []netip.Addr{}
	if found, err := dataplane.AskPeers(t.Context(), cfg); err != nil || found.Table.Len() != 1 || "http://"+found.From != s.URL {
		t.Errorf("%+v, error %v", found, err)
	}
}
