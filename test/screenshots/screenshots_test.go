// Package screenshots runs routesrv and a few data planes on a generated cluster, opens their pages in Chromium, and writes
// screenshots to docs/images. It takes about two minutes. See make screenshots.
package screenshots

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/browser"
	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/programs"
)

var (
	folder  = flag.String("out", "", "folder for the images; without it there are none")
	history = flag.Duration("history", time.Minute, "how long the cluster changes before the first picture")
)

// sidecars is how many data planes run.
const sidecars = 6

// stage holds the running parts.
type stage struct {
	cluster *kubetest.Server
	main    string // host:port
	support string
	proxies []*proxy
	running sync.WaitGroup // proxies
}

// TestScreenshots makes the pictures if there is a folder for them.
func TestScreenshots(t *testing.T) {
	if *folder == "" {
		return
	}
	out, err := filepath.Abs(*folder)
	if err != nil {
		t.Fatal(err)
	}
	bin, remove, err := programs.Build("../..", programs.Plain, "routesrv", "dataplane-client")
	t.Cleanup(remove)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // so that no picture shows a path of this machine
	cluster, err := kubetest.New([]byte(objects()), kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	cluster.SetRevision(48_211_900)
	ctx, cancel := context.WithCancel(t.Context())
	s := &stage{cluster: cluster}
	t.Cleanup(func() { cancel(); s.running.Wait() })
	s.start(ctx, t, bin, cluster.Start(t))
	t.Logf("routesrv on http://%s; the cluster changes for %s", s.support, *history)
	if err := s.change(ctx, *history); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second) // most proxies have the last table then
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := browser.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := s.shoot(ctx, b, out); err != nil {
		t.Fatal(err)
	}
}

// start starts the route server and the data planes, and waits until they serve.
func (s *stage) start(ctx context.Context, t *testing.T, bin, api string) {
	t.Helper()
	s.main, s.support = programs.FreeAddress(t), "127.0.0.1:9911" // the name of a replica does not have the default port
	programs.Start(t, filepath.Join(bin, "routesrv"), s.main, s.support, []string{
		"-kubernetes", "-kubernetes-url", api, "-address", s.main, "-support-listener", ":9911", "-source-poll-timeout=500",
		"-enable-kubernetes-endpointslices", "--state-dir", "state",
	}).Ready(t)
	for i := range sidecars {
		address, support := programs.FreeAddress(t), programs.FreeAddress(t)
		args := []string{
			"--upstream", "http://" + s.main + "/routes", "--pod-name", fmt.Sprintf("skipper-ingress-%d", i), "--zone", zones[i%len(zones)],
			"--address", address, "--support-listener", support, "--mode", "Exec", "--fallback", "never",
			"--state-dir", fmt.Sprintf("state%d", i), "--proxy-metrics-url", s.metricsOf(ctx, address),
		}
		if i == 0 { // this one compares, and has a different flag
			args = append(args[:4], "--address", address, "--support-listener", support, "--mode", "Pre", "--state-dir", "state0", "-kubernetes", "-kubernetes-url", api,
				"-enable-kubernetes-endpointslices", "-source-poll-timeout=1000", "-kubernetes-https-redirect-code=301")
		}
		p := programs.Start(t, filepath.Join(bin, "dataplane-client"), address, support, args)
		programs.Eventually(t, "a data plane", func() bool {
			a, err := programs.Fetch(t.Context(), p.Support+"/health", "")
			return err == nil && a.Status < http.StatusMultipleChoices
		})
	}
	s.bare(ctx, 24)
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
