package httpserve_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/routesrv/routesrv/app/httpserve"
)

// bounded is a listener with room for two connections, whose requests wait until they may end.
type bounded struct {
	server   *http.Server
	url      string
	arrived  chan struct{} // one value for each request that has arrived
	proceed  chan struct{} // one value for each request that may end
	registry *prometheus.Registry
	served   chan error
}

func newBounded(t *testing.T) *bounded {
	t.Helper()
	b := &bounded{arrived: make(chan struct{}), proceed: make(chan struct{}), registry: prometheus.NewRegistry(), served: make(chan error, 1)}
	b.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.arrived <- struct{}{}
		<-b.proceed
		io.WriteString(w, "done")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.url = "http://" + l.Addr().String()
	c := httpserve.NewConnections("main", 2, httpserve.NewConnectionMetrics(b.registry))
	c.Track(b.server)
	go func() { b.served <- b.server.Serve(c.Listener(l)) }()
	t.Cleanup(func() { b.server.Close() })
	return b
}

// get sends a request on a new connection, which stays open after the response.
func (b *bounded) get(t *testing.T) error {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	res, err := (&http.Client{Transport: transport}).Get(b.url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.ReadAll(res.Body)
	return err
}

func (b *bounded) evicted(t *testing.T) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "routesrv_connections_evicted_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no series of evicted connections")
	return 0
}

func TestIdleConnectionsMakeRoomAndBusyOnesDoNot(t *testing.T) {
	b := newBounded(t)
	var clients sync.WaitGroup
	failed := make(chan error, 4)
	for range 4 { // more than fit: two work, two wait
		clients.Go(func() { failed <- b.get(t) })
	}
	<-b.arrived
	<-b.arrived
	for range 2 { // each finished one is idle then, and makes room for a waiting one
		b.proceed <- struct{}{}
		<-b.arrived
	}
	if got := b.evicted(t); got != 2 {
		t.Errorf("%v connections evicted, want the 2 that were idle", got)
	}
	b.proceed <- struct{}{}
	b.proceed <- struct{}{}
	clients.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Errorf("a client beside others: %v", err)
		}
	}
}

func TestListenerThatIsFullCanBeClosed(t *testing.T) {
	b := newBounded(t)
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() { _ = b.get(t) })
	}
	<-b.arrived
	<-b.arrived
	if err := b.server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-b.served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve ended with %v", err)
	}
	close(b.proceed)
	clients.Wait()
}

func TestMainListenerLeavesDescriptors(t *testing.T) {
	if got := httpserve.MainConnections(100); got != 100 {
		t.Errorf("%d connections of 100 that are asked for", got)
	}
	if got := httpserve.MainConnections(1 << 40); got >= 1<<40 {
		t.Errorf("%d connections, as if there was no limit of open files", got)
	}
}

func TestConnectionSeriesAreLinted(t *testing.T) {
	reg := prometheus.NewRegistry()
	httpserve.NewConnections("main", 2, httpserve.NewConnectionMetrics(reg))
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, error %v", problems, err)
	}
}
