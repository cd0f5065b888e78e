package dataplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/fleet"
)

// names resolves names to addresses.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	list, ok := n[host]
	switch {
	case !ok:
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	case list == nil:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var addresses []netip.Addr
	for _, a := range list {
		addresses = append(addresses, netip.MustParseAddr(a))
	}
	return addresses, nil
}

// listen opens the port on an address, for a handler.
func listen(t *testing.T, address string, port int, h http.Handler) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(h)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return l.Addr().(*net.TCPAddr).Port
}

// knows answers as a replica does.
func knows(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/clients" || !r.URL.Query().Has("local") {
			http.Error(w, "it would ask others", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(fleet.Clients{Replicas: []fleet.Replica{{Name: name, Instance: name}}})
	}
}

func TestClientsOfAllPeers(t *testing.T) {
	silent := make(chan struct{})
	port := listen(t, "127.0.0.2", 0, knows("a"))
	listen(t, "127.0.0.3", port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-silent }))
	listen(t, "127.0.0.4", port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("[", 100)) }))
	listen(t, "127.0.0.5", port, http.RedirectHandler("http://169.254.169.254/", http.StatusFound))
	listen(t, "127.0.0.6", port, knows("relay"))
	listen(t, "127.0.0.1", port, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it asks itself") }))
	t.Cleanup(func() { close(silent) })
	answers := dataplane.PeerClients(t.Context(), dataplane.PeersConfig{
		URLs: []string{"http://peers:1", "https://relays:2", "http://nobody:3", "http://slow:4"},
		Lookup: names{
			"peers": {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.7"}, "relays": {"127.0.0.6", "127.0.0.2"}, "slow": nil,
		}.LookupNetIP,
		Own: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Timeout: 3 * time.Second,
	}, port)
	got := make(map[string]string)
	for _, a := range answers {
		host, _, _ := strings.Cut(a.Address, ":")
		if a.Err == nil {
			got[host] = a.Clients.Replicas[0].Name
		} else {
			got[host] = "error: " + a.Err.Error()
		}
	}
	if len(answers) != 7 {
		t.Errorf("%d answers: %v", len(answers), got)
	}
	for host, want := range map[string]string{
		"slow": "error: ", "127.0.0.2": "a", "127.0.0.3": "error: no answer in time", "127.0.0.4": "error: read its answer", "127.0.0.5": "error: status 302",
		"127.0.0.6": "relay", "127.0.0.7": "error: ",
	} {
		if !strings.HasPrefix(got[host], want) {
			t.Errorf("%s: %q, want %q", host, got[host], want)
		}
	}
}

func TestClientsOfNobody(t *testing.T) {
	answers := dataplane.PeerClients(t.Context(), dataplane.PeersConfig{URLs: []string{"http://nobody:1", "http://bad"}, Lookup: names{}.LookupNetIP}, 1)
	if len(answers) != 1 || answers[0].Err == nil || errors.Is(answers[0].Err, dataplane.ErrNoPeer) {
		t.Errorf("%+v", answers)
	}
}
