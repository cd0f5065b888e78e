package robustness

// A world runs the members of a plan: built binaries as processes, clients in this process, a fake API server, and a fault proxy on every
// connection between them. It applies faults and records events.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/test/robustness/clients"
	"github.com/routesrv/routesrv/test/robustness/faultproxy"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/plan"
	"github.com/routesrv/routesrv/test/robustness/record"
)

// Binaries are the programs to run.
type Binaries struct {
	Routesrv, Dataplane string   // paths
	Env                 []string // NAME=value, for both
}

// WorldConfig configures a World.
type WorldConfig struct {
	Plan     *plan.Plan
	Binaries Binaries
	Folder   string // existing folder for the files and logs of processes
}

// World holds all members. Its methods are safe for concurrent use, except Start and Close.
type World struct {
	cfg       WorldConfig
	rec       *record.Recorder
	API       *API
	Processes map[string]*Process

	proxies map[string]*faultproxy.Proxy // by link
	clients []*clients.Client
	trials  []*trialProxy
	control *http.Client
	net     [2]byte      // of the addresses of this run: 127.a.b.0
	claim   net.Listener // keeps other runs away from them

	mu       sync.Mutex
	traps    []*trap
	disabled map[string]string // faults that are not possible here, with the reason
}

// trap kills a process at a point.
type trap struct {
	member, point string
	sprung        chan struct{}
}

// NewWorld creates the members of a plan. Only the API and the proxies run yet.
func NewWorld(cfg WorldConfig, rec *record.Recorder) (w *World, err error) {
	w = &World{
		cfg: cfg, rec: rec, Processes: make(map[string]*Process), proxies: make(map[string]*faultproxy.Proxy),
		control:  &http.Client{Timeout: 5 * time.Second},
		disabled: make(map[string]string),
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := w.claimNet(); err != nil {
		return w, err
	}
	if w.API, err = NewAPI(rec); err != nil {
		return w, err
	}
	for _, m := range cfg.Plan.Members {
		if err := w.member(m); err != nil {
			return w, fmt.Errorf("member %s: %w", m.Name, err)
		}
	}
	rec.Watch(nil, w.seen)
	return w, nil
}

// claimNet chooses a network that no other run on this machine has, until Close: many run side by side, and two with the same one could
// not listen.
func (w *World) claimNet() (err error) {
	for range 100 {
		w.net = [2]byte{byte(16 + rand.IntN(200)), byte(rand.IntN(250))}
		if w.claim, err = net.Listen("tcp", net.JoinHostPort(w.listening(), "9090")); err == nil {
			return nil
		}
	}
	return fmt.Errorf("find a free network of loopback addresses: %w", err)
}

// listening returns the address of the API and the proxies of this run. No connection comes from it, so none can occupy its
// ports.
func (w *World) listening() string { return fmt.Sprintf("127.%d.%d.1", w.net[0], w.net[1]) }

// asking returns the address from which a member connects.
func (w *World) asking(member string) string {
	n := 0
	for i, m := range w.cfg.Plan.Members {
		if m.Name == member {
			n = i
		}
	}
	return fmt.Sprintf("127.%d.%d.%d", w.net[0], int(w.net[1])+1+n/200, 2+n%200)
}

// link creates the connection between two members, and returns the URL to use.
func (w *World) link(asker history.Member, asked, target string, checked bool) (string, error) {
	name := plan.Link(asker.Name, asked)
	p, err := faultproxy.New(faultproxy.Config{
		Address: net.JoinHostPort(w.listening(), "0"), Target: target, Local: w.asking(asker.Name), Checked: checked,
		Seed: w.cfg.Plan.Seed ^ hash(name),
		OnBody: func(r *http.Request, _ int64) {
			if r.URL.Path == "/routes/watch" {
				w.spring(asked, plan.InStream)
			}
		},
	})
	if err != nil {
		return "", err
	}
	w.proxies[name] = p
	return p.URL(), nil
}

func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(s) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// member creates a member. Its upstreams already exist.
func (w *World) member(m history.Member) error {
	switch m.Kind {
	case history.Server, history.Relay, history.Sidecar:
		return w.process(m)
	}
	cfg := clients.Config{
		Member: m, Interval: w.cfg.Plan.Asking, Timeout: w.cfg.Plan.Timeout, Seed: w.cfg.Plan.Seed ^ hash(m.Name),
		NewConnections: hash(m.Name)%8 == 0,
	}
	if m.Mortal {
		cfg.Metrics = w.Processes[m.Upstreams[0]].proxy()
	}
	for _, u := range m.Upstreams {
		url, err := w.link(m, u, "http://"+w.Processes[u].Main, m.Kind != history.Poller)
		if err != nil {
			return err
		}
		if m.Canary {
			url += "/canary"
		}
		cfg.Upstreams = append(cfg.Upstreams, clients.Upstream{Name: u, URL: url})
	}
	w.clients = append(w.clients, clients.New(cfg, w.rec))
	return nil
}

// process creates a process; the address of the next replica is known before that replica is created.
func (w *World) process(m history.Member) error {
	p, err := w.place(m.Name)
	if err != nil {
		return err
	}
	pl := w.cfg.Plan
	millis := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	p.args = []string{
		"-application-log-json-enabled", "-application-log-level=DEBUG", "-source-poll-timeout=" + millis(pl.Interval), "--timing=max-backoff=1s",
		"--guard=hold=" + pl.Hold.String(), fmt.Sprintf("--guard=max-loss=%g", pl.MaxLoss), "--guard=window=" + pl.Window.String(), "--timing=shutdown=10s",
	}
	if plan.ReadsAPI(m) {
		api, err := w.API.Listen(m.Name, w.listening())
		if err != nil {
			return err
		}
		url, err := w.link(m, plan.APIName, api, false)
		if err != nil {
			return err
		}
		p.args = append(p.args, "-kubernetes", "-kubernetes-url="+url, "-enable-kubernetes-endpointslices",
			"--timing=request-timeout="+pl.Timeout.String())
	}
	var upstreams []string
	for _, u := range m.Upstreams {
		url, err := w.link(m, u, "http://"+w.Processes[u].Main, true)
		if err != nil {
			return err
		}
		upstreams = append(upstreams, url)
	}
	state := filepath.Join(p.Folder, "state")
	switch m.Kind {
	case history.Server:
		p.path = w.cfg.Binaries.Routesrv
		p.args = append(p.args, "--kubernetes-read="+m.Transport)
		if pl.KeepTakeovers {
			p.args = append(p.args, "--keep-takeovers=namespace")
		}
		if pl.Soak > 0 {
			p.args = append(p.args, "--canary="+pl.Soak.String())
		}
		if pl.Trial {
			proxy := startTrialProxy(p.Support)
			w.trials = append(w.trials, proxy)
			p.args = append(p.args, "--trial-proxy="+proxy.URL)
		}
		if peer := pl.Peer(m); peer != "" {
			other, err := w.place(peer)
			if err != nil {
				return err
			}
			url, err := w.link(m, peer, "http://"+other.Main, true)
			if err != nil {
				return err
			}
			p.args = append(p.args, "--peers="+url)
		}
	case history.Relay:
		p.path = w.cfg.Binaries.Routesrv
		p.args = append(p.args, "--upstream="+strings.Join(upstreams, ","), "--update-mode="+m.Transport, "--timing=fetch-timeout="+pl.Timeout.String())
	case history.Sidecar:
		p.path = w.cfg.Binaries.Dataplane
		if err := os.WriteFile(filepath.Join(p.Folder, "mode"), []byte(m.Mode), 0o600); err != nil {
			return err
		}
		p.args = append(p.args, "--upstream="+strings.Join(upstreams, ","), "--update-mode="+m.Transport,
			"--timing=fetch-timeout="+pl.Timeout.String(), "--mode-file="+filepath.Join(p.Folder, "mode"), "--pod-name="+m.Name,
			"--proxy-metrics-url=http://"+p.proxy()+"/metrics", "--state-dir="+state, "--fallback=after=5s", "--fallback=window=5s", "--zone="+m.Zone,
			"--address="+p.Main, "--support-listener="+p.Support, "--cutover-check=clean-for=2s", "--cutover-check=comparisons=5")
	}
	if m.Kind != history.Sidecar {
		p.args = append(p.args, "-address="+p.Main, "-support-listener="+p.Support, "-wait-for-healthcheck-interval=0s", "--state-dir="+state)
	}
	return nil
}

// proxy returns the address of the metrics of a mortal client beside the process.
func (p *Process) proxy() string {
	ip, _, _ := net.SplitHostPort(p.Main)
	return net.JoinHostPort(ip, "9912")
}

// place assigns addresses and a folder to a process.
func (w *World) place(name string) (*Process, error) {
	if p := w.Processes[name]; p != nil {
		return p, nil
	}
	p := &Process{Name: name, rec: w.rec, env: w.cfg.Binaries.Env, Folder: filepath.Join(w.cfg.Folder, name)}
	// A separate address, on which nothing else listens.
	ip := fmt.Sprintf("127.%d.%d.%d", w.net[0], w.net[1], 2+len(w.Processes))
	p.Main, p.Support = net.JoinHostPort(ip, "9090"), net.JoinHostPort(ip, "9911")
	if err := os.MkdirAll(filepath.Join(p.Folder, "state"), 0o700); err != nil {
		return nil, err
	}
	if err := w.mount(filepath.Join(p.Folder, "state")); err != nil {
		return nil, err
	}
	p.OnLine(func(l logLine) {
		if l.Message == messageTable {
			w.spring(name, plan.OnPublish)
		}
	})
	w.Processes[name] = p
	return p, nil
}

// Start starts all processes and waits until each has a table: servers first, then the members that ask them.
func (w *World) Start(ctx context.Context, patience time.Duration) error {
	for _, kind := range []string{history.Server, history.Relay, history.Sidecar} {
		for _, m := range w.cfg.Plan.Members {
			if m.Kind == kind {
				if err := w.Processes[m.Name].Start(); err != nil {
					return err
				}
			}
		}
		for _, m := range w.cfg.Plan.Members {
			if m.Kind != kind {
				continue
			}
			if err := w.AwaitReady(ctx, m.Name, patience); err != nil {
				return err
			}
		}
	}
	return nil
}

// AwaitReady waits until a process has a table.
func (w *World) AwaitReady(ctx context.Context, name string, patience time.Duration) error {
	p := w.Processes[name]
	err := await(ctx, patience, func() bool { return p.Ready(w.control) })
	if err != nil {
		return fmt.Errorf("%s has no table: %w; its log:\n%s", name, err, tail(p.Log(), 20))
	}
	w.rec.Event(history.Event{At: w.rec.Now(), Member: name, Name: "ready"})
	return nil
}

// await polls until ok or the end of its patience.
func await(ctx context.Context, patience time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %v", patience))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Clients runs all clients until ctx ends.
func (w *World) Clients(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range w.clients {
		all.Go(func() { c.Run(ctx) })
	}
	all.Wait()
}

// Sample samples all processes in turn until ctx ends.
func (w *World) Sample(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		for _, m := range w.cfg.Plan.Members {
			if p := w.Processes[m.Name]; p != nil {
				one, cancel := context.WithTimeout(ctx, time.Second) // a frozen process does not answer
				if s, ok := p.sample(one, w.control); ok {
					w.rec.Sample(s)
				}
				cancel()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// End ends all processes as Kubernetes does. The error names members that did not end cleanly, ended by themselves before, or had
// a data race.
func (w *World) End(patience time.Duration) error {
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for _, p := range w.Processes {
		all.Go(func() {
			err := p.End(patience)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			}
			for _, what := range append(p.Crashes(), p.Races()...) {
				errs = append(errs, errors.New(what))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close ends everything that is left, and frees resources.
func (w *World) Close() {
	if w.claim != nil {
		defer w.claim.Close()
	}
	for _, p := range w.Processes {
		p.Continue()
		p.Kill("")
		p.Gone()
	}
	for _, p := range w.proxies {
		p.Close()
	}
	for _, p := range w.trials {
		p.Close()
	}
	if w.API != nil {
		w.API.Close()
	}
	w.control.CloseIdleConnections()
	for _, p := range w.Processes {
		unmount(filepath.Join(p.Folder, "state"))
	}
}

// PIDs returns the running processes.
func (w *World) PIDs() []int {
	var out []int
	for _, p := range w.Processes {
		if pid := p.PID(); pid != 0 {
			out = append(out, pid)
		}
	}
	return out
}

// Disabled returns the faults that are not possible here, with the reason.
func (w *World) Disabled() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]string, len(w.disabled))
	for k, v := range w.disabled {
		out[k] = v
	}
	return out
}

func (w *World) disable(fault string, reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disabled[fault] = reason.Error()
}
