//go:build linux

package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe runs the probes of a container: the startup probe until it has succeeded, then the others. A container without a probe
// counts as having passed it.
func (p *Pod) probe(ctx context.Context, c *container) {
	if s := c.spec.StartupProbe; s != nil {
		if !p.repeat(ctx, c, s, func(ok bool) bool {
			if !ok {
				p.fault(fmt.Errorf("container %s has not started: its startup probe failed %d times", c.spec.Name, s.FailureThreshold))
			}
			return false
		}) {
			return
		}
	}
	c.started.Store(true)
	if l := c.spec.LivenessProbe; l != nil {
		p.working.Go(func() {
			p.repeat(ctx, c, l, func(ok bool) bool {
				if !ok {
					p.fault(fmt.Errorf("container %s would be restarted: its liveness probe failed %d times", c.spec.Name, l.FailureThreshold))
				}
				return ok
			})
		})
	}
	if r := c.spec.ReadinessProbe; r != nil {
		p.repeat(ctx, c, r, func(ok bool) bool { c.ready.Store(ok); return true })
		return
	}
	c.ready.Store(true)
}

// repeat runs a probe at its period, and reports the verdict after enough equal results in a row. It returns the verdict when
// decided says so, or false when ctx or the container ends.
func (p *Pod) repeat(ctx context.Context, c *container, probe *corev1.Probe, decided func(ok bool) (goOn bool)) (verdict bool) {
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second
	good, bad := int32(0), int32(0)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-c.process.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if p.ask(ctx, c, probe) == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
		}
		if ctx.Err() != nil {
			return false
		}
		if ok := good >= probe.SuccessThreshold; ok || bad >= probe.FailureThreshold {
			if !decided(ok) {
				return ok
			}
		}
		wait = time.Duration(probe.PeriodSeconds) * time.Second
	}
}

// ask sends one request of a probe to the address of the pod. A listener on the loopback interface only does not receive it.
func (p *Pod) ask(ctx context.Context, c *container, probe *corev1.Probe) error {
	port, err := portOf(c.spec, probe.HTTPGet.Port)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	url := "http://" + netip.AddrPortFrom(p.cfg.IP, port).String() + probe.HTTPGet.Path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "kube-probe/1.36")
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx, port) },
	}}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10)); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// portOf returns the number of a port given by number or name.
func portOf(spec *corev1.Container, port intstr.IntOrString) (uint16, error) {
	if port.Type == intstr.Int {
		return uint16(port.IntVal), nil
	}
	for _, p := range spec.Ports {
		if p.Name == port.StrVal {
			return uint16(p.ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("container %s has no port %q", spec.Name, port.StrVal)
}
