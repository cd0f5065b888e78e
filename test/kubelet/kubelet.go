//go:build linux

// Package kubelet runs a pod from its manifest without a node, for tests. It creates volumes, starts containers from an unpacked
// image with exactly the command, arguments, environment, user and permissions of the manifest, runs probes, and ends the pod as
// Kubernetes does. [Service] connects clients to pods as a Kubernetes Service does.
//
// The pod comes from an API server, with all defaults set. A field that the package does not imitate is an error, so that no
// setting of a manifest is silently ignored. Fields that do not affect what runs are left out on purpose: scheduling, image
// pulls, memory and CPU limits, and seccomp.
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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/routesrv/routesrv/test/sandbox"
)

// Config describes the pod to run and its node.
type Config struct {
	// Pod is the pod as stored in the API server. Its service account must exist there.
	Pod *corev1.Pod
	// IP is the address of the pod, which only the pod itself can reach.
	IP netip.Addr
	// Without lists containers that are not run. They must exist in the pod.
	Without []string
	// Images maps the image names in the manifest to images.
	Images map[string]Image
	// Client reads ConfigMaps and Services, and requests tokens.
	Client kubernetes.Interface
	// APIServer is the host and port of the API server, and CA the authority of its certificate. The certificate must be valid
	// for 127.0.0.1, the address that the pod uses.
	APIServer string
	CA        []byte
	// Reach maps addresses that the pod can reach to connections, besides itself and the API server.
	Reach map[netip.AddrPort]Dial
	// Hosts are the names that the pod can resolve.
	Hosts map[string]netip.Addr
	// Dir is an empty folder for volumes and file systems.
	Dir string
}

// Dial opens a connection to the target of an address.
type Dial func(context.Context) (net.Conn, error)

// Pod is a running pod. Its methods are safe for concurrent use.
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
	faults []error // events that must not happen, guarded by mu
}

// Start starts the pod: first the sidecars in order, each after the previous one has passed its startup probe, then the other
// containers. ctx limits only the start. If there is no error, the caller must call Stop or Kill.
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

// Spec returns the container with that name, or nil.
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

// AwaitReady waits until all running containers are ready.
func (p *Pod) AwaitReady(ctx context.Context) error {
	if err := p.await(ctx, "all containers to be ready", p.Ready); err != nil {
		return fmt.Errorf("pod %s/%s: %w", p.cfg.Pod.Namespace, p.cfg.Pod.Name, err)
	}
	return nil
}

// Ready reports whether the pod may receive traffic.
func (p *Pod) Ready() bool {
	for _, c := range p.containers() {
		if !c.ready.Load() {
			return false
		}
	}
	return !p.stopping.Load()
}

// Dial opens a connection to a port of the pod's address, as another pod would.
func (p *Pod) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return p.net.Dial(ctx, netip.AddrPortFrom(p.cfg.IP, port))
}

// DialLoopback opens a connection on the loopback interface, as another container of the pod would.
func (p *Pod) DialLoopback(ctx context.Context, port uint16) (net.Conn, error) {
	return p.net.Dial(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
}

// Log returns what a container has printed so far.
func (p *Pod) Log(name string) string {
	for _, c := range p.containers() {
		if c.spec.Name == name {
			return c.log.String()
		}
	}
	return ""
}

// Faults returns the events for which a kubelet would have restarted a container: it ended by itself, or its liveness or startup
// probe failed. This package restarts nothing.
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

// containers returns the started containers.
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

// Stop ends the pod with SIGTERM: first the containers, then the sidecars in reverse order, all within the grace period of the
// pod. It returns an error for an exit status other than zero, and for containers that had to be killed after that time. took is
// the duration.
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
				over = time.After(0) // for the following ones
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

// Kill ends all remaining processes at once. It may be called repeatedly, and after Stop.
func (p *Pod) Kill() {
	p.stopping.Store(true)
	p.stop()
	for _, c := range p.containers() {
		// Signal fails if the process has already ended, which is fine.
		c.process.Signal(syscall.SIGKILL)
		<-c.process.Done()
	}
	p.working.Wait()
	if p.net != nil {
		p.net.Close() // fails the second time
	}
}

// folder creates a folder of the pod.
func (p *Pod) folder(mode os.FileMode, elements ...string) (string, error) {
	dir := filepath.Join(append([]string{p.cfg.Dir}, elements...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, mode) // independent of the umask
}
