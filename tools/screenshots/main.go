// Command screenshots runs routesrv and a few data planes on a generated cluster, opens their pages in Chromium, and writes
// screenshots to docs/images. It takes about two minutes. See make screenshots.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/internal/browser"
	"github.com/routesrv/routesrv/internal/kubetest"
	"github.com/routesrv/routesrv/kube"
)

func main() {
	bin := flag.String("bin", "bin", "folder with the binaries")
	out := flag.String("out", "docs/images", "folder for the images")
	history := flag.Duration("history", time.Minute, "how long the cluster changes before the first picture")
	flag.Parse()
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bin, *out, *history); err != nil {
		log.Fatal("screenshots: ", err)
	}
}

// sidecars is how many data planes run.
const sidecars = 6

// stage holds the running parts.
type stage struct {
	bin, logs string
	cluster   *kubetest.Server
	api       string // URL
	main      string // host:port
	support   string
	sidecar   string // support listener of the one in mode Pre
	proxies   []*proxy
	running   sync.WaitGroup // proxies
}

func run(ctx context.Context, bin, out string, history time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	folder, err := os.MkdirTemp("", "screenshots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	cluster, err := kubetest.New([]byte(objects()), kubetest.API{})
	if err != nil {
		return err
	}
	cluster.SetRevision(48_211_900)
	api := httptest.NewServer(cluster)
	defer api.Close()
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	s := &stage{bin: bin, logs: folder, cluster: cluster, api: api.URL}
	ended, err := s.start(ctx)
	defer func() { // all of them, before the API ends
		cancel()
		for _, end := range ended {
			<-end
		}
		s.running.Wait()
	}()
	if err != nil {
		return err
	}
	log.Printf("routesrv on http://%s; the cluster changes for %s", s.support, history)
	if err := s.change(ctx, history); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	b, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	return s.shoot(ctx, b, out)
}

// start starts the route server and the data planes, and waits until they serve. Each channel is closed when a process has ended.
func (s *stage) start(ctx context.Context) (ended []<-chan struct{}, err error) {
	addresses, err := free(2 + 2*sidecars)
	if err != nil {
		return nil, err
	}
	s.main, s.support, s.sidecar = addresses[0], addresses[1], addresses[3]
	end, err := s.run(ctx, "routesrv", "-kubernetes", "-kubernetes-url", s.api, "-address", s.main, "-support-listener", s.support, "-source-poll-timeout=500",
		"-enable-kubernetes-endpointslices", "--state-dir", "state")
	if err != nil {
		return nil, err
	}
	ended = append(ended, end)
	if err := await(ctx, "http://"+s.main+"/health"); err != nil {
		return ended, err
	}
	for i := range sidecars {
		args := []string{
			"--upstream", "http://" + s.main + "/routes", "--pod-name", fmt.Sprintf("skipper-ingress-%d", i), "--zone", zones[i%len(zones)],
			"--address", addresses[2+2*i], "--support-listener", addresses[3+2*i], "--mode", "Exec", "--fallback", "never",
			"--state-dir", filepath.Join(s.logs, fmt.Sprintf("state%d", i)), "--proxy-metrics-url", s.metricsOf(ctx, addresses[2+2*i]),
		}
		if i == 0 { // this one compares, and has a different flag
			args = append(args[:4], "--address", addresses[2], "--support-listener", addresses[3], "--mode", "Pre", "-kubernetes", "-kubernetes-url", s.api,
				"-enable-kubernetes-endpointslices", "-source-poll-timeout=1000", "-kubernetes-https-redirect-code=301")
		}
		if end, err = s.run(ctx, "dataplane-client", args...); err != nil {
			return ended, err
		}
		ended = append(ended, end)
	}
	for i := range sidecars {
		if err := await(ctx, "http://"+addresses[3+2*i]+"/health"); err != nil {
			return ended, err
		}
	}
	s.bare(ctx, 24)
	return ended, nil
}

// run runs a binary until ctx ends. The channel is closed when it has ended.
func (s *stage) run(ctx context.Context, name string, args ...string) (<-chan struct{}, error) {
	file, err := os.CreateTemp(s.logs, name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.logs, file, file // so that no picture shows a path of this machine
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 20*time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: run make build first", err)
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		defer file.Close()
		err := cmd.Wait()
		if ctx.Err() == nil {
			text, _ := os.ReadFile(file.Name())
			log.Printf("%s ended: %v\n%s", name, err, text)
		}
	}()
	return end, nil
}

// free finds free ports of the loopback interface.
func free(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// await waits until a URL answers successfully.
func await(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			if resp.StatusCode < 300 {
				return nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", url, ctx.Err())
		}
	}
}

// change changes the cluster like teams do: pods start and stop, and sometimes an Ingress is added. Halfway some teams make
// mistakes.
func (s *stage) change(ctx context.Context, history time.Duration) error {
	random := rand.New(rand.NewPCG(3, 4))
	start, planted := time.Now(), false
	for i := 0; time.Since(start) < history; i++ {
		n := random.IntN(len(namespaces))
		ns := namespaces[n]
		k := random.IntN(len(ns.services))
		objects := service(ns.name, ns.services[k], endpoints(n, k, 2+random.IntN(6)))
		if i%3 == 0 {
			name := fmt.Sprintf("campaign-%d", i)
			objects += ingress(ns.name, name, name, ns.services[k])
		}
		if i%9 == 8 {
			name := fmt.Sprintf("campaign-%d", i-8)
			for _, one := range namespaces {
				s.cluster.Delete(kube.Ref{Kind: kube.KindIngress, Namespace: one.name, Name: name})
			}
		}
		if !planted && time.Since(start) > history/2 {
			objects, planted = objects+mistakes(), true
			s.lag()
		}
		if err := s.cluster.Apply(strings.TrimSuffix(objects, "---\n")); err != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(700+random.IntN(2200)) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if !planted {
		return errors.New("the history is too short")
	}
	return nil
}
