//go:build linux

// Package kubelet runs a pod as its manifest says, without a node, for tests: volumes are made real, containers are started
// from an unpacked image with exactly the command, arguments, environment, user and permissions of the manifest, probes are
// asked, and the end is that of Kubernetes. What a Service does for the clients of pods does Service.
//
// The pod comes from an API server, with all defaults filled in. A field that is not imitated is an error, so that a manifest
// cannot say something that silently does not happen. Left out on purpose are the fields that are about other things than
// what runs: where it is scheduled, how images are pulled, how much memory and processor it has, and seccomp.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/routesrv/routesrv/internal/sandbox"
)

// Config says which pod runs and what its node is like.
type Config struct {
	// Pod is the pod, as the API server has it. Its service account has to exist there.
	Pod *corev1.Pod
	// IP is the address of the pod, which only it can reach.
	IP netip.Addr
	// Without are containers that are not run. They have to be in the pod.
	Without []string
	// Images are the images by the name that the manifest has.
	Images map[string]v1.Image
	// Client reads ConfigMaps and Services, and asks for tokens.
	Client kubernetes.Interface
	// APIServer is host and port of the API server, and CA the authority of its certificate. The certificate has to be good
	// for 127.0.0.1, where the pod finds it.
	APIServer string
	CA        []byte
	// Reach says what the pod reaches at which address, besides itself and the API server.
	Reach map[netip.AddrPort]Dial
	// Hosts are the names that the pod can look up.
	Hosts map[string]netip.Addr
	// Dir is an empty folder for volumes and file systems.
	Dir string
}

// Dial opens a connection to what is behind an address.
type Dial func(context.Context) (net.Conn, error)

// Pod is a pod that runs. Its methods may be called concurrently.
type Pod struct {
	cfg     Config
	net     *sandbox.Network
	volumes map[string]*volume // set by Start, read only
	sides   []*container       // sidecars, in their order; set by Start, read only
	mains   []*container       // the other containers that run; set by Start, read only

	stop     context.CancelFunc // ends probes and forwarding
	working  sync.WaitGroup     // probes and forwarding
	stopping atomic.Bool

	mu     sync.Mutex
	faults []error // what must not happen to a pod, guarded by mu
}

// Start starts the pod: the sidecars one after the other, each when the one before it has passed its startup probe, and then
// the other containers. ctx limits the start only; the caller has to call Stop or Kill if there was no error.
func Start(ctx context.Context, c Config) (_ *Pod, err error) {
	if err := check(c); err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", c.Pod.Namespace, c.Pod.Name, err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &Pod{cfg: c, stop: stop, volumes: map[string]*volume{}}
	defer func() {
		if err != nil {
			p.Kill()
			err = fmt.Errorf("pod %s/%s: %w", c.Pod.Namespace, c.Pod.Name, err)
		}
	}()
	addresses := []netip.Addr{c.IP}
	for at := range c.Reach {
		if !at.Addr().IsLoopback() && !slices.Contains(addresses, at.Addr()) {
			addresses = append(addresses, at.Addr())
		}
	}
	if p.net, err = sandbox.NewNetwork(addresses...); err != nil {
		return nil, err
	}
	if err := p.forwardAll(running); err != nil {
		return nil, err
	}
	if err := p.makeVolumes(ctx); err != nil {
		return nil, err
	}
	for i := range c.Pod.Spec.InitContainers {
		side, err := p.start(ctx, running, &c.Pod.Spec.InitContainers[i])
		if err != nil {
			return nil, err
		}
		p.sides = append(p.sides, side)
		if err := p.await(ctx, "container "+side.spec.Name+" to start", side.started.Load); err != nil {
			return nil, err
		}
	}
	for i := range c.Pod.Spec.Containers {
		spec := &c.Pod.Spec.Containers[i]
		if slices.Contains(c.Without, spec.Name) {
			continue
		}
		main, err := p.start(ctx, running, spec)
		if err != nil {
			return nil, err
		}
		p.mains = append(p.mains, main)
	}
	return p, nil
}

// Name is the name of the pod.
func (p *Pod) Name() string { return p.cfg.Pod.Name }

// Spec is the container of that name, nil if there is none.
func (p *Pod) Spec(name string) *corev1.Container {
	s := &p.cfg.Pod.Spec
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// AwaitReady waits until all containers that run are ready.
func (p *Pod) AwaitReady(ctx context.Context) error {
	if err := p.await(ctx, "all containers to be ready", p.Ready); err != nil {
		return fmt.Errorf("pod %s/%s: %w", p.cfg.Pod.Namespace, p.cfg.Pod.Name, err)
	}
	return nil
}

// Ready tells whether the pod may get traffic.
func (p *Pod) Ready() bool {
	for _, c := range p.containers() {
		if !c.ready.Load() {
			return false
		}
	}
	return !p.stopping.Load()
}

// Dial opens a connection to a port of the pod as another pod does: at its address.
func (p *Pod) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return p.net.Dial(ctx, netip.AddrPortFrom(p.cfg.IP, port))
}

// DialLoopback opens a connection as another container of the same pod does.
func (p *Pod) DialLoopback(ctx context.Context, port uint16) (net.Conn, error) {
	return p.net.Dial(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
}

// Log is what a container has printed so far.
func (p *Pod) Log(name string) string {
	for _, c := range p.containers() {
		if c.spec.Name == name {
			return c.log.String()
		}
	}
	return ""
}

// Faults are what has happened for which a kubelet would have restarted a container: it ended by itself, or its liveness or
// startup probe failed. Nothing is restarted here.
func (p *Pod) Faults() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.faults...)
}

func (p *Pod) fault(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, err)
}

// containers are those that were started.
func (p *Pod) containers() []*container { return slices.Concat(p.sides, p.mains) }

// await waits for a condition, or for a fault.
func (p *Pod) await(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if err := p.Faults(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// Stop ends the pod: first the containers, then the sidecars in the reverse of their order, by SIGTERM, all within the grace
// period of the pod. An exit status that is not zero is an error, and so is what is left when the time is over and has to be
// killed. took is how long it took.
func (p *Pod) Stop() (took time.Duration, err error) {
	begin := time.Now()
	p.stopping.Store(true)
	grace := time.Duration(*p.cfg.Pod.Spec.TerminationGracePeriodSeconds) * time.Second
	over := time.After(grace)
	var errs []error
	end := func(all ...*container) {
		for _, c := range all {
			if err := c.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, err)
			}
		}
		for _, c := range all {
			select {
			case <-c.process.Done():
				if err := c.process.Wait(); err != nil {
					errs = append(errs, fmt.Errorf("container %s: %w", c.spec.Name, err))
				}
			case <-over:
				over = time.After(0) // for those that come after
				errs = append(errs, fmt.Errorf("container %s did not end in %v", c.spec.Name, grace))
			}
		}
	}
	end(p.mains...)
	for _, c := range slices.Backward(p.sides) {
		end(c)
	}
	took = time.Since(begin)
	p.Kill()
	if err := errors.Join(errs...); err != nil {
		return took, fmt.Errorf("pod %s/%s: %w", p.cfg.Pod.Namespace, p.cfg.Pod.Name, err)
	}
	return took, nil
}

// Kill ends everything that is left, at once. It may be called again, and after Stop.
func (p *Pod) Kill() {
	p.stopping.Store(true)
	p.stop()
	for _, c := range p.containers() {
		// It fails if the process has ended, which is what is wanted.
		c.process.Signal(syscall.SIGKILL)
		<-c.process.Done()
	}
	p.working.Wait()
	if p.net != nil {
		p.net.Close() // an error the second time
	}
}

// folder makes a folder of the pod.
func (p *Pod) folder(mode os.FileMode, elements ...string) (string, error) {
	dir := filepath.Join(append([]string{p.cfg.Dir}, elements...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, mode) // whatever the umask is
}
