package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/kube"
)

func TestRunWithContextThatHasEndedOpensNothing(t *testing.T) {
	f := &fixture{}
	cfg := f.config(t, service)
	cfg.WaitForHealthcheckInterval = time.Hour
	cfg.Open = func(string, string) (net.Listener, error) {
		t.Error("a listener was opened")
		return nil, errors.New("no")
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
}

func TestAddressInUseIsAnErrorThatNamesTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := &fixture{}
	cfg := f.config(t, service)
	cfg.Address, cfg.WaitForHealthcheckInterval = taken.Addr().String(), time.Hour // without delay
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "(-address)") || !strings.Contains(err.Error(), taken.Addr().String()) ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v, want one that names the flag and the address", err)
	}
}

func TestEverythingIsServedWhileLoadBalancersNotice(t *testing.T) {
	const lameDuck = time.Second
	f := start(t, service+ingress("a"), func(cfg *server.Config) { cfg.WaitForHealthcheckInterval = lameDuck })
	f.ready()
	begin := time.Now()
	f.cancel()
	f.logged("shutting down the server in 1s...")
	f.apply(ingress("b")) // and the table is fresh
	f.eventually("the new table", func() bool { return f.get("/routes").header.Get("X-Count") == "2" })
	if got := f.get("/health").status; got != http.StatusNoContent {
		t.Errorf("health: %d, want 204 all the time", got)
	}
	if err := f.stop(); err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
	if took := time.Since(begin); took < lameDuck {
		t.Errorf("Run has ended after %v, want at least %v", took, lameDuck)
	}
	for _, address := range []string{f.main, f.support} {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s still takes connections", address)
		}
	}
	if lines := linesWith(f.log.String(), "polling stopped"); len(lines) != 1 {
		t.Errorf("%d lines about the end of the loop, want one", len(lines))
	}
}

func TestMainListenerThatFailsEndsTheServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cancel bool // the server is already in its lame duck period
	}{{"while serving", false}, {"while load balancers notice", true}} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fixture{}
			cfg := f.config(t, service+ingress("a"))
			cfg.WaitForHealthcheckInterval = time.Hour
			opened := make(chan net.Listener, 2)
			cfg.Open = func(network, address string) (net.Listener, error) {
				l, err := f.listen(network, address)
				if address == mainAddress {
					opened <- l
				}
				return l, err
			}
			f.run(cfg)
			f.ready()
			if tt.cancel {
				f.cancel()
				f.logged("shutting down the server in 1h0m0s...")
			}
			(<-opened).Close()
			select {
			case err := <-f.done:
				if err == nil || !strings.Contains(err.Error(), "main listener (-address): ") {
					t.Errorf("Run: %v, want the error of the listener", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("Run goes on without its main listener")
			}
			f.stopped = true
			f.cancel()
		})
	}
}

// large is a source of a table of some 16 MB, which no buffer on the way holds as a whole.
type large struct{ snapshot *kube.Snapshot }

func newLarge() large {
	s := &kube.Snapshot{Revision: 1}
	for i := range 64 {
		s.Ingresses = append(s.Ingresses, &kube.Ingress{
			Meta: kube.Meta{Namespace: "shop", Name: fmt.Sprint("i", i), Annotations: kube.PairsOf(map[string]string{
				"zalando.org/skipper-filter": `inlineContent("` + strings.Repeat("x", 256<<10) + `")`,
			})},
			Spec: &kube.IngressSpec{Rules: []kube.IngressRule{{
				Host: "large.example.org", HTTP: true,
				Paths: []kube.IngressPath{{Path: fmt.Sprint("/", i), Backend: &kube.IngressBackend{Service: "s", PortNumber: 80}}},
			}}},
		})
	}
	s.Services = []*kube.Service{{
		Namespace: "shop", Name: "s", Ports: []kube.ServicePort{{Port: 80, TargetPort: kube.NumberPort(8080)}},
	}}
	s.Endpoints = []*kube.Endpoints{{
		Namespace: "shop", Name: "s",
		Subsets: []kube.Subset{{Addresses: []string{"10.2.0.1"}, Ports: []kube.EndpointPort{{Port: 8080, Protocol: "TCP"}}}},
	}}
	return large{s}
}

func (l large) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	return l.snapshot, nil
}

// download starts to download the table of a large source, and returns the rest of the body and its length.
func (f *fixture) download() (body io.Reader, length int64) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.main)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		f.t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /routes HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusOK || resp.ContentLength < 16<<20 {
		f.t.Fatalf("error %v, response %+v: want 16 MB", err, resp)
	}
	return resp.Body, resp.ContentLength
}

// closed waits until the main listener accepts no connections any more.
func (f *fixture) closed() {
	f.t.Helper()
	f.eventually("closed port", func() bool {
		conn, err := net.Dial("tcp", f.main)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestSlowDownloadIsFinishedWithinTheDeadline(t *testing.T) {
	f := start(t, "", func(cfg *server.Config) { cfg.Source, cfg.ShutdownTimeout = newLarge(), time.Minute })
	f.ready()
	body, length := f.download()
	f.cancel()
	f.closed()
	// Operators can observe it: the support listener is closed after the main one.
	if got := f.request("GET", f.support, "/status"); got.status != 200 {
		t.Errorf("/status: %d during the shutdown, want 200", got.status)
	}
	select {
	case err := <-f.done:
		t.Fatalf("Run has ended (%v) during a download", err)
	default:
	}
	if n, err := io.Copy(io.Discard, body); n != length || err != nil {
		t.Errorf("%d of %d bytes, error %v", n, length, err)
	}
	if err := f.stop(); err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
}

func TestDownloadIsCutAtTheDeadline(t *testing.T) {
	f := start(t, "", func(cfg *server.Config) { cfg.Source, cfg.ShutdownTimeout = newLarge(), 100*time.Millisecond })
	f.ready()
	body, length := f.download()
	if err := f.stop(); err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
	if n, err := io.Copy(io.Discard, body); n == length || err == nil {
		t.Errorf("%d of %d bytes, error %v: want a cut that can be noticed", n, length, err)
	}
	if lines := linesWith(f.log.String(), "requests did not end in time, cutting them (--timing=shutdown)"); len(lines) != 1 {
		t.Errorf("log of the cut: %q", lines)
	}
}

// At shutdown, streams are asked to reconnect elsewhere within the time in which load balancers notice, and do not delay the
// exit.
func TestStreamsAreHandedOverAtTheEnd(t *testing.T) {
	f := start(t, service+ingress("a"), func(cfg *server.Config) {
		cfg.MaxStreams, cfg.WaitForHealthcheckInterval, cfg.ShutdownTimeout = 10, 200*time.Millisecond, time.Minute
	})
	f.ready()
	resp, err := f.client.Get(f.scheme + "://" + f.main + "/routes/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if streams := f.request("GET", f.support, "/metrics").body; !strings.Contains(streams, "routesrv_streams 1\n") {
		t.Errorf("streams: %s", streams)
	}
	begin := time.Now()
	if err := f.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), "event: reconnect\n") {
		t.Errorf("the stream ended with %q, error %v, want reconnect", body, err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the end took %v", took)
	}
}
