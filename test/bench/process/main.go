// Command process measures a whole route server as users run it: the built binary with a state folder, history, and a policy
// for takeovers, fed by an API server in this process with a generated cluster. One Ingress changes at every interval.
//
//	go run ./test/bench/process -base HEAD~1 -modes watch -length 30s
//
// It prints a row of Markdown for each way to read, with and without a state folder: of the base commit, then of this checkout.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/test/scale"
)

// options are the flags.
type options struct {
	factor                   float64
	length, interval, settle time.Duration
	clients, burst           int
	floods                   bool
	canary                   time.Duration
	modes, states            string
	base, exec               string
	profile, allocs          string
}

func main() {
	var o options
	flag.Float64Var(&o.factor, "factor", 1, "size; 1 is 15,000 Ingresses, 5,000 RouteGroups and 20,000 Services")
	flag.DurationVar(&o.length, "length", time.Minute, "duration of a measurement")
	flag.DurationVar(&o.interval, "interval", 3*time.Second, "time between two changes, and between two polls")
	flag.DurationVar(&o.settle, "settle", 10*time.Second, "time between the first table and the measurement")
	flag.IntVar(&o.clients, "clients", 0, "clients that poll full tables")
	flag.BoolVar(&o.floods, "floods", false, "clients that invent zones, tables and clients")
	flag.IntVar(&o.burst, "burst", 0, "more Ingresses that change at the same time")
	flag.DurationVar(&o.canary, "canary", 0, "soak time of a canary, on which the first changes soak; 0 for none")
	flag.StringVar(&o.modes, "modes", "watch,json,protobuf", "ways to read: a watch, or polls of JSON or protobuf lists")
	flag.StringVar(&o.states, "states", "with,without", "with or without a state folder")
	flag.StringVar(&o.base, "base", "", "commit to compare with")
	flag.StringVar(&o.exec, "exec", "", "binary to measure instead of this checkout")
	flag.StringVar(&o.profile, "profile", "", "file for a CPU profile of the last measurement")
	flag.StringVar(&o.allocs, "allocs", "", "file for a profile of the allocations of the last measurement")
	flag.Parse()
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

// program is a built binary with the name of its version.
type program struct{ name, path string }

func run(o options) error {
	dir, err := os.MkdirTemp("", "routesrv-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var programs []program
	if o.base != "" {
		p, err := buildCommit(dir, o.base)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	p := program{"this", o.exec}
	if p.path == "" {
		if p.path, err = build(dir, ".", "this"); err != nil {
			return err
		}
	}
	programs = append(programs, p)
	fmt.Println("| read | state | version | CPU per change | without change | write to client, p50 | max | first table | peak | " +
		"read per change | written to disk |")
	fmt.Printf("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, mode := range strings.Split(o.modes, ",") {
		for _, state := range strings.Split(o.states, ",") {
			for _, p := range programs {
				f, err := measure(o, p.path, mode, state == "with", dir)
				if err != nil {
					return fmt.Errorf("%s %s: %w", mode, p.name, err)
				}
				fmt.Printf("| %s | %s | %s | %v |\n", mode, state, p.name, f)
			}
		}
	}
	return nil
}

// buildCommit builds the binary of another commit.
func buildCommit(dir, commit string) (program, error) {
	tree := filepath.Join(dir, "base")
	if out, err := exec.Command("git", "worktree", "add", "--quiet", "--detach", tree, commit).CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("worktree of %s: %w: %s", commit, err, out)
	}
	path, err := build(dir, tree, "base-routesrv")
	out, removed := exec.Command("git", "worktree", "remove", "--force", tree).CombinedOutput()
	if err == nil && removed != nil {
		err = fmt.Errorf("remove the worktree: %w: %s", removed, out)
	}
	return program{commit, path}, err
}

func build(dir, tree, name string) (string, error) {
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, "./cmd/routesrv")
	if cmd.Dir = tree; tree == "." {
		top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
		if err != nil {
			return "", fmt.Errorf("find the checkout: %w", err)
		}
		cmd.Dir = strings.TrimSpace(string(top))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

// idle is how many intervals without a change are measured.
const idle = 4

// figures are the results of one measurement.
type figures struct {
	changes       int
	cpu           time.Duration
	idle          time.Duration // CPU of an interval without a change
	latency       []time.Duration
	firstCPU      time.Duration // until the first table
	firstMiB      float64       // peak memory until then
	peakMiB       float64
	read, written int64
	length        time.Duration
}

// String returns cells of a row.
func (f figures) String() string {
	slices.Sort(f.latency)
	return fmt.Sprintf("%d ms | %d ms | %d ms | %d ms | %.1f CPU s, %.0f MiB | %.0f MiB | %.1f MB | %.2f MB/s",
		f.cpu.Milliseconds()/int64(f.changes), f.idle.Milliseconds(),
		f.latency[len(f.latency)/2].Milliseconds(), f.latency[len(f.latency)-1].Milliseconds(),
		f.firstCPU.Seconds(), f.firstMiB, f.peakMiB, float64(f.read)/1e6/float64(f.changes), float64(f.written)/1e6/f.length.Seconds())
}

// measure starts a binary and changes objects.
func measure(o options, binary, mode string, state bool, dir string) (f figures, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	api := scale.New(o.factor).Handler()
	api.SetEncodings(mode != "json", true)
	api.Warm()
	server := httptest.NewServer(api)
	defer server.Close()
	defer server.CloseClientConnections()

	args := []string{
		"-kubernetes", "-kubernetes-url=" + server.URL, "-enable-kubernetes-endpointslices", "-wait-for-healthcheck-interval=0s",
		"-kubernetes-healthcheck", "-kubernetes-https-redirect", "--keep-takeovers=namespace", "-enable-profile",
		fmt.Sprintf("-source-poll-timeout=%d", o.interval.Milliseconds()),
	}
	if mode == "watch" {
		args = append(args, "--kubernetes-read=watch")
	}
	if o.canary > 0 {
		args = append(args, fmt.Sprintf("--canary=%v", o.canary))
	}
	if state {
		folder, err := os.MkdirTemp(dir, "state-")
		if err != nil {
			return f, err
		}
		args = append(args, "--state-dir="+folder)
	}
	p, err := start(ctx, binary, args)
	if err != nil {
		return f, err
	}
	defer p.stop()
	first := p.usage()
	f.firstCPU, f.firstMiB = first.cpu, first.peakMiB
	for range o.clients {
		go poll(ctx, p.url())
	}
	if o.floods {
		go flood(ctx, p.url())
	}
	heard, err := p.follow(ctx, map[bool]string{false: "/routes", true: "/canary/routes"}[o.canary > 0])
	if err != nil {
		return f, err
	}
	api.Mutate(0) // the first change costs more: the guard counts the table
	if mode != "watch" {
		api.Warm()
	}
	<-heard
	time.Sleep(o.settle)
	var profiles []func() error
	seconds := fmt.Sprint(int(o.length.Seconds()))
	for name, file := range map[string]string{"profile": o.profile, "allocs": o.allocs} {
		if file != "" {
			profiles = append(profiles, p.profile(ctx, name+"?seconds="+seconds, file))
		}
	}
	before, begin := p.usage(), time.Now()
	for n := 0; time.Since(begin) < o.length; n++ {
		tick := time.After(o.interval)
		api.Mutate(1 + n%100)
		for i := range o.burst {
			api.Mutate(200 + n*o.burst + i)
		}
		written := time.Now()
		if mode != "watch" {
			api.Warm()
		}
		select {
		case at := <-heard:
			f.latency = append(f.latency, at.Sub(written))
		case <-time.After(20 * time.Second):
			return f, fmt.Errorf("no client heard of change %d", n)
		}
		<-tick
		f.changes++
	}
	f.length = time.Since(begin)
	after := p.usage()
	time.Sleep(idle * o.interval)
	f.idle = (p.usage().cpu - after.cpu) / idle
	f.cpu, f.read, f.written = after.cpu-before.cpu, after.read-before.read, after.written-before.written
	f.peakMiB = after.peakMiB
	for _, done := range profiles {
		if err := done(); err != nil {
			return f, err
		}
	}
	return f, nil
}

// poll fetches full tables with new connections, as proxies do.
func poll(ctx context.Context, url string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	etag := ""
	for wait := rand.N(3 * time.Second); ; wait = 3 * time.Second {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/routes", nil)
		if err != nil {
			return
		}
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("If-None-Match", etag)
		resp, err := client.Do(r)
		if err != nil {
			continue
		}
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			etag = resp.Header.Get("Etag")
		}
		resp.Body.Close()
	}
}

// follow opens a stream and reports when it announces tables.
func (p *process) follow(ctx context.Context, path string) (<-chan time.Time, error) {
	head, err := http.Head(p.url() + path)
	if err != nil {
		return nil, err
	}
	head.Body.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+path+"/watch", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Last-Event-ID", head.Header.Get("Etag"))
	resp, err := (&http.Client{Transport: &http.Transport{DisableCompression: true}}).Do(r)
	if err != nil {
		return nil, err
	}
	heard := make(chan time.Time, 100)
	go func() {
		defer resp.Body.Close()
		for lines := bufio.NewReader(resp.Body); ; {
			line, err := lines.ReadSlice('\n')
			switch {
			case err == bufio.ErrBufferFull:
			case err != nil:
				return
			case bytes.HasPrefix(line, []byte("event: delta")), bytes.HasPrefix(line, []byte("event: fetch")):
				heard <- time.Now()
			}
		}
	}()
	return heard, nil
}
