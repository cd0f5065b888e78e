package httpserve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Routes serves tables on the main listener. It tracks when bodies arrive, and has streams that do not end by themselves.
type Routes interface {
	// Track is called before srv serves. WrapListener wraps the listener before everything else does.
	Track(srv *http.Server)
	WrapListener(l net.Listener) net.Listener
	// DrainStreams asks the streams to end within the window. It returns when they have ended.
	DrainStreams(window time.Duration)
}

// ListenersConfig configures [Listeners]. All fields are required unless stated otherwise.
type ListenersConfig struct {
	// Address and SupportAddress are host:port to listen on. An empty SupportAddress means no support listener.
	Address, SupportAddress string
	// Listen opens the listeners; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// Flags is the prefix of flags in messages: "-" or "--".
	Flags string

	Main, Support http.Handler
	Routes        Routes
	TLS           *tls.Config // of the main listener; nil means plain HTTP
	SupportTLS    *tls.Config // of the support listener; nil means plain HTTP
	// MaxConnections is how many connections the main listener holds, reduced to the limit of [MainConnections].
	MaxConnections int

	// Drain is how long to keep serving after the program was told to stop. Draining, if not nil, is called when that time
	// begins.
	Drain    time.Duration
	Draining func()
	// ShutdownTimeout is how long requests have to end after Drain.
	ShutdownTimeout time.Duration

	Errors   *ErrorLog
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// Listeners are the two listeners of a program: the main one for its clients, and the support one for its operators.
type Listeners struct {
	cfg           ListenersConfig
	main, support *http.Server
	mainConns     *Connections
	supportConns  *Connections
}

// NewListeners creates the servers and their limits. It opens no socket.
func NewListeners(cfg ListenersConfig) *Listeners {
	if cfg.Listen == nil {
		cfg.Listen = net.Listen
	}
	metrics := NewConnectionMetrics(cfg.Registry)
	l := &Listeners{
		cfg: cfg, main: newServer(cfg.Main, cfg.Errors), support: newServer(cfg.Support, cfg.Errors),
		mainConns:    NewConnections(MainListener, MainConnections(cfg.MaxConnections), metrics),
		supportConns: NewConnections(SupportListener, supportConnections, metrics),
	}
	l.main.TLSConfig, l.support.TLSConfig = cfg.TLS, cfg.SupportTLS
	cfg.Routes.Track(l.main)
	l.mainConns.Track(l.main)
	l.supportConns.Track(l.support)
	return l
}

// Open opens the main listener.
func (l *Listeners) Open() (net.Listener, error) { return l.cfg.Listen("tcp", l.cfg.Address) }

// Serve runs work, and serves until ctx ends or the main listener fails. Then it shuts both down in order. It returns the error
// of the main listener.
//
// The order of the shutdown: both listeners keep serving for the time of Drain, so that load balancers notice. Then the main
// listener closes, and requests have until the deadline to end. Then the support listener closes; until then it has shown the
// shutdown. Last, the context of work ends, so that tables stay fresh until the end.
func (l *Listeners) Serve(ctx context.Context, main net.Listener, work func(context.Context)) (err error) {
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var background sync.WaitGroup
	background.Go(func() { work(working) })
	background.Go(l.serveSupport)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = l.serveMain(main)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		l.drain(ended)
	}
	l.shutdown()
	<-ended
	stopWork()
	background.Wait()
	return err
}

func (l *Listeners) serveMain(main net.Listener) error {
	err := serve(l.main, l.mainConns.Listener(l.cfg.Routes.WrapListener(main)))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("main listener (%saddress): %w", l.cfg.Flags, err)
}

// serveSupport serves operators. Proxies do not need it, so a failure is only logged.
func (l *Listeners) serveSupport() {
	if l.cfg.SupportAddress == "" {
		return
	}
	support, err := l.cfg.Listen("tcp", l.cfg.SupportAddress)
	if err == nil {
		l.cfg.Logger.Info("support listener open", "address", support.Addr().String())
		err = serve(l.support, l.supportConns.Listener(support))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		l.cfg.Logger.Error("failed support listener: no metrics, no status ("+l.cfg.Flags+"support-listener)", "error", err)
	}
}

// serve uses TLS if the server has a TLS configuration.
func serve(srv *http.Server, l net.Listener) error {
	if srv.TLSConfig != nil {
		return srv.ServeTLS(l, "", "")
	}
	return srv.Serve(l)
}

// drain keeps serving so that load balancers notice that the process is about to end. It returns at once when the main listener
// has ended.
func (l *Listeners) drain(ended <-chan struct{}) {
	if l.cfg.Draining != nil {
		l.cfg.Draining()
	}
	var draining sync.WaitGroup
	defer draining.Wait()
	// Streams do not end by themselves. By the end of the window, load balancers send new connections elsewhere.
	draining.Go(func() { l.cfg.Routes.DrainStreams(l.cfg.Drain) })
	timer := time.NewTimer(l.cfg.Drain)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended:
	}
}

// shutdown lets the requests of both listeners end, and cuts requests that are still running at the deadline.
func (l *Listeners) shutdown() {
	var draining sync.WaitGroup
	defer draining.Wait()
	draining.Go(func() { l.cfg.Routes.DrainStreams(0) }) // the remaining streams
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.ShutdownTimeout)
	defer cancel()
	shutdown(ctx, l.main, MainListener, l.cfg.Logger)
	shutdown(ctx, l.support, SupportListener, l.cfg.Logger)
}

// shutdown lets the requests of a listener end, and cuts requests that are still running when ctx ends.
func shutdown(ctx context.Context, srv *http.Server, name string, log *slog.Logger) {
	err := srv.Shutdown(ctx)
	if err == nil {
		return
	}
	log.Warn("requests did not end in time, cutting them (--shutdown-timeout)", "listener", name, "error", err)
	if err := srv.Close(); err != nil {
		log.Debug("close listener", "listener", name, "error", err)
	}
}
