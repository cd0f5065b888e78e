package httpserve

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// ListenersConfig configures [Listeners]. All fields are required unless stated otherwise.
type ListenersConfig struct {
	// Address and SupportAddress are host:port to listen on. An empty SupportAddress means no support listener.
	Address, SupportAddress string
	// Listen opens the listeners; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)

	// Endpoints are the endpoints of all listeners. Main serves the main listener; nil means Endpoints.
	Endpoints []Endpoint
	Main      http.Handler
	// DrainStreams ends the streams of the main listener within the window, and returns when they have ended. It may be nil.
	DrainStreams func(window time.Duration)
	// StateDir is the folder with the control socket: see [ListenControl]. It may be empty.
	StateDir string
	// TLS configures TLS for the main listener.
	TLS TLSConfig
	// MaxConnections is how many connections the main listener holds, reduced to the limit of [MainConnections].
	MaxConnections int

	// Drain is how long to keep serving after the program was told to stop. Draining, if not nil, is called when that begins.
	Drain    time.Duration
	Draining func()
	// ShutdownTimeout is how long requests have to end after Drain.
	ShutdownTimeout time.Duration

	Logger   *slog.Logger
	Registry prometheus.Registerer // also gets the series of the process
}

// Listeners are the listeners of a program: the main one for its clients, the support one for its operators, and the control
// socket for operators who change what is served.
type Listeners struct {
	cfg                    ListenersConfig
	main, support, control *listener // control is nil if the program has nothing to control
}

// listener is a server with its limit of connections.
type listener struct {
	*http.Server
	name  string
	conns *Connections
}

// NewListeners reads the certificates, and creates the servers and their limits. It opens no socket.
func NewListeners(cfg ListenersConfig) (*Listeners, error) {
	cfg.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	secure, err := NewTLS(cfg.TLS, cfg.Logger, cfg.Registry)
	if err != nil {
		return nil, err
	}
	if cfg.Listen == nil {
		cfg.Listen = net.Listen
	}
	if cfg.DrainStreams == nil {
		cfg.DrainStreams = func(time.Duration) {}
	}
	if cfg.Draining == nil {
		cfg.Draining = func() {}
	}
	if cfg.Main == nil {
		cfg.Main = Mux(MainListener, cfg.Endpoints)
	}
	errors, metrics := NewErrorLog(cfg.Logger, cfg.Registry), NewConnectionMetrics(cfg.Registry)
	add := func(name string, limit int, h http.Handler) *listener {
		one := &listener{
			name: name, conns: NewConnections(name, limit, metrics),
			Server: &http.Server{
				Handler: limitBodies(name, cfg.Endpoints, h), ReadTimeout: readTimeout, ReadHeaderTimeout: headerTimeout,
				WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(errors, "", 0),
			},
		}
		one.conns.Track(one.Server)
		return one
	}
	support := Mux(SupportListener, cfg.Endpoints)
	l := &Listeners{cfg: cfg, main: add(MainListener, MainConnections(cfg.MaxConnections), cfg.Main), support: add(SupportListener, supportConnections, support)}
	l.main.TLSConfig = secure
	if slices.ContainsFunc(cfg.Endpoints, func(e Endpoint) bool { return e.Listener == ControlListener }) {
		l.control = add(ControlListener, supportConnections, Control(cfg.Endpoints, support))
		tracked := l.control.ConnContext
		l.control.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			ctx = tracked(ctx, c)
			if p, ok := peerOf(c); ok {
				ctx = p.Attach(ctx)
			}
			return ctx
		}
	}
	return l, nil
}

// Run opens the listeners, runs work, and serves until ctx ends or the main listener fails. It returns an error if the main
// listener cannot be opened or fails. If ctx has already ended, it opens nothing.
//
// The order of the shutdown: all listeners keep serving for the time of Drain, so that load balancers notice. Then the main
// listener closes, and requests have until the deadline to end. Then the others close, and last, the context of work ends, so
// that tables stay fresh until the end.
func (l *Listeners) Run(ctx context.Context, work func(context.Context)) (err error) {
	if ctx.Err() != nil {
		return nil
	}
	main, err := l.cfg.Listen("tcp", l.cfg.Address)
	if err != nil {
		return fmt.Errorf("open main listener (-address): %w", err)
	}
	l.cfg.Logger.Info("main listener open", "address", main.Addr().String(), "tls", l.main.TLSConfig != nil)
	working, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	var background sync.WaitGroup
	background.Go(func() { work(working) })
	background.Go(l.serveSupport)
	background.Go(l.serveControl)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err = l.main.serve(main); err != nil {
			err = fmt.Errorf("main listener (-address): %w", err)
		}
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

// serveSupport serves operators. Proxies do not need it, so a failure is only logged.
func (l *Listeners) serveSupport() {
	if l.cfg.SupportAddress == "" {
		return
	}
	support, err := l.cfg.Listen("tcp", l.cfg.SupportAddress)
	if err == nil {
		l.cfg.Logger.Info("support listener open", "address", support.Addr().String())
		err = l.support.serve(support)
	}
	if err != nil {
		l.cfg.Logger.Error("failed support listener: no metrics, no status (-support-listener)", "error", err)
	}
}

// serveControl serves operators in the pod. A failure is only logged: tables are served without it.
func (l *Listeners) serveControl() {
	if l.control == nil {
		return
	}
	const lost = "no control socket: held tables cannot be accepted in this process"
	if l.cfg.StateDir == "" {
		l.cfg.Logger.Info(lost, "reason", "no folder for it: set --state-dir")
		return
	}
	control, err := ListenControl(l.cfg.StateDir)
	if err == nil {
		l.cfg.Logger.Info("control socket open", "folder", l.cfg.StateDir)
		err = l.control.serve(control)
	}
	if err != nil {
		l.cfg.Logger.Warn(lost, "folder", l.cfg.StateDir, "error", err)
	}
}

// serve serves until the server is shut down, with TLS if it has a configuration for it.
func (s *listener) serve(on net.Listener) (err error) {
	on = s.conns.Listener(on)
	if s.TLSConfig != nil {
		err = s.ServeTLS(on, "", "")
	} else {
		err = s.Serve(on)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain keeps serving so that load balancers notice that the process is about to end, until the main listener has ended.
func (l *Listeners) drain(ended <-chan struct{}) {
	l.cfg.Draining()
	var draining sync.WaitGroup
	defer draining.Wait()
	// Clients do not end streams. By the end of the window, load balancers send new connections elsewhere.
	draining.Go(func() { l.cfg.DrainStreams(l.cfg.Drain) })
	timer := time.NewTimer(l.cfg.Drain)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ended:
	}
}

// shutdown lets the requests of all listeners end, and cuts requests that are still running at the deadline.
func (l *Listeners) shutdown() {
	var draining sync.WaitGroup
	defer draining.Wait()
	draining.Go(func() { l.cfg.DrainStreams(0) }) // the remaining streams
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.ShutdownTimeout)
	defer cancel()
	for _, one := range []*listener{l.main, l.support, l.control} {
		if one == nil {
			continue
		}
		if err := one.Shutdown(ctx); err != nil {
			l.cfg.Logger.Warn("requests did not end in time, cutting them (--timing=shutdown)", "listener", one.name, "error", err)
			_ = one.Close()
		}
	}
}
