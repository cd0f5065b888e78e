package httpserve_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/app/httpserve"
)

// diary records what happens to listeners, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// DrainStreams lets a main listener serve from a diary.
func (d *diary) DrainStreams(window time.Duration) {
	if window > 0 {
		d.note("streams drain")
	}
}

// notedListener records that it is closed.
type notedListener struct {
	net.Listener
	closed func()
}

func (l notedListener) Close() error {
	l.closed()
	return l.Listener.Close()
}

// newListeners makes listeners whose main one is opened first. addresses receives the address of each when it is open.
func newListeners(d *diary, change func(*httpserve.ListenersConfig)) (l *httpserve.Listeners, addresses chan string) {
	addresses = make(chan string, 2)
	names := []string{"main closes", "support closes"}
	registry, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	cfg := httpserve.ListenersConfig{
		Address: "127.0.0.1:0", SupportAddress: "127.0.0.1:0",
		Listen: func(network, address string) (net.Listener, error) {
			inner, err := net.Listen(network, address)
			if err != nil {
				return nil, err
			}
			name := names[0]
			names = names[1:]
			addresses <- inner.Addr().String()
			return notedListener{inner, sync.OnceFunc(func() { d.note(name) })}, nil
		},
		DrainStreams: d.DrainStreams, MaxConnections: 10,
		Drain: time.Millisecond, Draining: func() { d.note("drain begins") }, ShutdownTimeout: 10 * time.Second,
		Logger: log, Registry: registry,
	}
	if change != nil {
		change(&cfg)
	}
	l, err := httpserve.NewListeners(cfg)
	if err != nil {
		panic(err) // cannot happen without certificates
	}
	return l, addresses
}

func TestListenersEndInOrder(t *testing.T) {
	d := &diary{}
	listeners, addresses := newListeners(d, nil)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- listeners.Run(ctx, func(ctx context.Context) {
			<-ctx.Done()
			d.note("work ends")
		})
	}()
	client := &http.Client{Transport: &http.Transport{}}
	for range 2 { // so that both serve
		res, err := client.Get("http://" + <-addresses)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	client.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
	want := []string{"drain begins", "streams drain", "main closes", "support closes", "work ends"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("order of the end %q, want %q", d.lines, want)
	}
}

// TestFailedMainListenerEndsAll: in that case the shutdown does not wait for the drain.
func TestFailedMainListenerEndsAll(t *testing.T) {
	d := &diary{}
	listeners, _ := newListeners(d, func(cfg *httpserve.ListenersConfig) {
		cfg.SupportAddress, cfg.Drain = "", time.Hour
		listen := cfg.Listen
		cfg.Listen = func(network, address string) (net.Listener, error) {
			main, err := listen(network, address)
			if err == nil {
				err = main.Close()
			}
			return main, err
		}
	})
	err := listeners.Run(t.Context(), func(ctx context.Context) { <-ctx.Done() })
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "main listener (-address): ") {
		t.Errorf("Run: %v, want an error of the main listener", err)
	}
	if slices.Contains(d.lines, "drain begins") {
		t.Errorf("it drained: %q", d.lines)
	}
}
