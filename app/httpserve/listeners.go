package httpserve

import (
	"context"
	"errors"
	"fmt"
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

	// Endpoints are the endpoints of all listeners. The support listener and the control socket serve exactly these. Main serves the
	// main listener; nil means Endpoints.
	Endpoints []Endpoint
	Main      http.Handler
	// DrainStreams ends the streams of the main listener, which would otherwise stay open, within the window. It returns when
	// they have ended. nil means that the main listener has no streams.
	DrainStreams func(window time.Duration)
	// StateDir is the folder with the control socket: see [ListenControl]. Without it, or without endpoints of [ControlListener],
	// the program has no control socket.
	StateDir string
	// TLS configures TLS for the main listener.
	TLS TLSConfig
	// MaxConnections is how many connections the main listener holds, reduced to the limit of [MainConnections].
	MaxConnections int

	// Drain is how long to keep serving after the program was told to stop. Draining, if not nil, is called when that time
	// begins.
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
	main, support, control *http.Server // control is nil if the program has nothing to control
	conns                  map[*http.Server]*Connections
}

// NewListeners reads the certificates, and creates the servers and their limits. It opens no socket.
func NewListeners(cfg ListenersConfig) (*Listeners, error) {
	cfg.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	secure, err := NewTLS(cfg.TLS, cfg.Logger, cfg.Registry)
	if err != nil {
		return nil, err
	}
	errors := NewErrorLog(cfg.Logger, cfg.Registry)
	if cfg.Listen == nil {
		cfg.Listen = net.Listen
	}
	if cfg.DrainStreams == nil {
		cfg.DrainStreams = func(time.Duration) {}
	}
	if cfg.Main == nil {
		cfg.Main = Mux(MainListener, cfg.Endpoints)
	}
	support := Mux(SupportListener, cfg.Endpoints)
	l := &Listeners{cfg: cfg, conns: make(map[*http.Server]*Connections)}
	metrics := NewConnectionMetrics(cfg.Registry)
	add := func(name string, limit int, h http.Handler) *http.Server {
		var mine []Endpoint
		for _, e := range cfg.Endpoints {
			if e.Listener == name {
				mine = append(mine, e)
			}
		}
		srv := newServer(limitBodies(mine, h), errors)
		l.conns[srv] = NewConnections(name, limit, metrics)
		l.conns[srv].Track(srv)
		return srv
	}
	l.main = add(MainListener, MainConnections(cfg.MaxConnections), cfg.Main)
	l.support = add(SupportListener, supportConnections, support)
	l.main.TLSConfig = secure
	if slices.ContainsFunc(cfg.Endpoints, func(e Endpoint) bool { return e.Listener == ControlListener }) {
		l.control = add(ControlListener, supportConnections, Control(cfg.Endpoints, support))
		tracked := l.control.ConnContext
		l.control.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return rememberPeer(tracked(ctx, c), c) }
	}
	return l, nil
}

// Run opens the listeners, runs work, and serves until ctx ends or the main listener fails. Then it shuts everything down in
// order. It returns an error if the main listener cannot be opened or fails. If ctx has already ended, it opens nothing.
//
// The order of the shutdown: both listeners keep serving for the time of Drain, so that load balancers notice. Then the main
// listener closes, and requests have until the deadline to end. Then the support listener closes; until then it has shown the
// shutdown. Last, the context of work ends, so that tables stay fresh until the end.
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
	err := serve(l.main, l.conns[l.main].Listener(main))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("main listener (-address): %w", err)
}

// serveSupport serves operators. Proxies do not need it, so a failure is only logged.
func (l *Listeners) serveSupport() {
	if l.cfg.SupportAddress == "" {
		return
	}
	support, err := l.cfg.Listen("tcp", l.cfg.SupportAddress)
	if err == nil {
		l.cfg.Logger.Info("support listener open", "address", support.Addr().String())
		err = serve(l.support, l.conns[l.support].Listener(support))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
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
		err = serve(l.control, l.conns[l.control].Listener(control))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		l.cfg.Logger.Warn(lost, "folder", l.cfg.StateDir, "error", err)
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
	// Clients do not end streams. By the end of the window, load balancers send new connections elsewhere.
	draining.Go(func() { l.cfg.DrainStreams(l.cfg.Drain) })
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
	draining.Go(func() { l.cfg.DrainStreams(0) }) // the remaining streams
	ctx, cancel := context.WithTimeout(context.Background(), l.cfg.ShutdownTimeout)
	defer cancel()
	shutdown(ctx, l.main, MainListener, l.cfg.Logger)
	shutdown(ctx, l.support, SupportListener, l.cfg.Logger)
	if l.control != nil {
		shutdown(ctx, l.control, ControlListener, l.cfg.Logger)
	}
}

// shutdown lets the requests of a listener end, and cuts requests that are still running when ctx ends.
func shutdown(ctx context.Context, srv *http.Server, name string, log *slog.Logger) {
	err := srv.Shutdown(ctx)
	if err == nil {
		return
	}
	log.Warn("requests did not end in time, cutting them (--timing=shutdown)", "listener", name, "error", err)
	if err := srv.Close(); err != nil {
		log.Debug("close listener", "listener", name, "error", err)
	}
}
