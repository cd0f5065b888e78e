// Package proxy runs proxies as real processes for tests: a stand-in that behaves on the wire like an unmodified Skipper, or the Skipper
// that the variable ROUTESRV_PROXY names. What would end a process, or block it, is part of its table; something starts it again, as the
// kubelet does.
//
// The stand-in fetches with -routes-urls, or reads -routes-file, shows metrics in the flavour of Prometheus and its routes on the support
// listener, and sends requests to the backends of the route that package match finds. Of the filters it knows status. Its command line
// is the one of a Skipper. A binary of tests is the program: call [Main] first in TestMain.
//
// It does not do what filters do, follows no <loopback>, and has neither TLS nor the codahale flavour.
package proxy

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/programs"
)

// ProgramVariable is the variable with the path of a real Skipper. Faults then say nothing: a table must have what ends that one.
const ProgramVariable = "ROUTESRV_PROXY"

// standInVariable makes a binary of tests a stand-in. Its value is the JSON form of Faults.
const standInVariable = "ROUTESRV_TEST_STAND_IN"

// Faults are parts of the texts of routes with which a stand-in does not live. Empty means none. A text of a filter ends with its closing parenthesis.
type Faults struct {
	Die       []string // its process ends after it has applied the table
	Hang      []string // it applies no other table any more
	Grow      []string // it needs 400 MiB more
	Busy      []string // it uses a whole core
	Refuse    []string // it does not use the route
	DieInUse  []string // its process ends with the first request through the route that accepts brotli
	HangInUse []string // a request through the route gets no answer, and no table is applied any more
}

// Main runs a stand-in and does not return, if this process was started as one.
func Main() {
	faults, ok := os.LookupEnv(standInVariable)
	if !ok {
		return
	}
	var f Faults
	if err := json.Unmarshal([]byte(faults), &f); err != nil {
		panic(err)
	}
	os.Exit(standIn(os.Args[1:], f))
}

// failedStart is the status of a proxy that ends because its first download has failed.
const failedStart = 1

// Config configures a Proxy. Set one of RoutesURL and RoutesFile.
type Config struct {
	RoutesURL, RoutesFile string
	Poll                  time.Duration // between two polls; default 200 ms
	Backoff               time.Duration // until an ended process is started again; default 100 ms
	Faults                Faults
	// AliveURL is a liveness probe of the process, which is replaced when it answers 503; empty means that there is none.
	AliveURL string
	// Addresses, HOST:PORT, of the listeners; empty picks free ones.
	Support, Traffic string
}

// Proxy is a proxy that is started again whenever its process ends.
type Proxy struct {
	Support, Traffic string // base URLs of the listeners

	mu      sync.Mutex // guards the fields below
	starts  int
	started time.Time // of the last process
	deaths  []time.Time
	now     *exec.Cmd // the running process; nil between two
	ended   bool
}

// Start starts a proxy. It ends with the test.
func Start(t testing.TB, cfg Config) *Proxy {
	t.Helper()
	if cfg.Poll == 0 {
		cfg.Poll = 200 * time.Millisecond
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 100 * time.Millisecond
	}
	for _, address := range []*string{&cfg.Support, &cfg.Traffic} {
		if *address == "" {
			*address = programs.FreeAddress(t)
		}
	}
	p := &Proxy{Support: "http://" + cfg.Support, Traffic: "http://" + cfg.Traffic}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { p.run(t, cfg, stop) })
	if cfg.AliveURL != "" {
		running.Go(func() { p.probe(cfg.AliveURL, stop) })
	}
	t.Cleanup(func() {
		close(stop)
		p.end()
		running.Wait()
	})
	return p
}

// initialDelay is how old a process is before its liveness probe is asked, as a kubelet does it.
const initialDelay = 2 * time.Second

// probe ends the process whenever its liveness probe says so, until stop is closed.
func (p *Proxy) probe(url string, stop <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		young := time.Since(p.started) < initialDelay
		p.mu.Unlock()
		if young {
			continue
		}
		answer, err := http.Get(url)
		if err != nil {
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusServiceUnavailable {
			p.Kill()
		}
	}
}

// command returns the process to start.
func command(t testing.TB, cfg Config) *exec.Cmd {
	args := []string{
		"-address=" + cfg.Traffic, "-support-listener=" + cfg.Support, "-metrics-flavour=prometheus", "-wait-first-route-load",
		"-source-poll-timeout=" + strconv.FormatInt(cfg.Poll.Milliseconds(), 10), "-normalize-host",
	}
	if cfg.RoutesURL != "" {
		args = append(args, "-routes-urls="+cfg.RoutesURL)
	} else {
		args = append(args, "-routes-file="+cfg.RoutesFile)
	}
	if path := os.Getenv(ProgramVariable); path != "" {
		return exec.Command(path, args...)
	}
	faults, err := json.Marshal(cfg.Faults)
	if err != nil {
		t.Error(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), standInVariable+"="+string(faults))
	return c
}

// run starts the process again whenever it ends, until stop is closed.
func (p *Proxy) run(t testing.TB, cfg Config, stop <-chan struct{}) {
	for {
		c := command(t, cfg)
		p.mu.Lock()
		if p.ended {
			p.mu.Unlock()
			return
		}
		err := c.Start()
		if p.starts++; err == nil {
			p.now, p.started = c, time.Now()
		}
		p.mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Wait() // the status tells
		p.mu.Lock()
		if p.now = nil; !p.ended && c.ProcessState.ExitCode() != failedStart {
			p.deaths = append(p.deaths, time.Now())
		}
		p.mu.Unlock()
		select {
		case <-stop:
			return
		case <-time.After(cfg.Backoff):
		}
	}
}

// end ends the process for good.
func (p *Proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.now != nil {
		_ = p.now.Process.Kill() // it may have ended
	}
}

// Kill ends the process, which is started again.
func (p *Proxy) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil {
		_ = p.now.Process.Kill() // it may have ended
	}
}

// Deaths returns when processes have ended by themselves or by Kill. Processes that found no table at their start do not count.
func (p *Proxy) Deaths() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time(nil), p.deaths...)
}

// Starts returns how many processes were started.
func (p *Proxy) Starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// Ready reports whether the proxy takes requests, which it does once it has a table.
func (p *Proxy) Ready() bool {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(p.Traffic, "http://"), time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}
