package deploy

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/rollout"
)

// probes returns the probes of a container by their purpose.
func probes(c *corev1.Container) map[string]*corev1.Probe {
	all := map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe}
	maps.DeleteFunc(all, func(_ string, p *corev1.Probe) bool { return p == nil })
	return all
}

// listenerOf returns the listener that a probe uses, by the port in the manifest.
func listenerOf(t *testing.T, c *corev1.Container, listens map[string]string, p *corev1.Probe) string {
	t.Helper()
	port := p.HTTPGet.Port.IntValue()
	if name := p.HTTPGet.Port.StrVal; name != "" {
		port = ports(c)[name]
	}
	for listener, address := range listens {
		if portOf(t, address) == port && !strings.HasPrefix(address, "127.") {
			return listener
		}
	}
	t.Fatalf("a probe of %s asks port %d, which nobody outside of the pod can reach: %v", c.Name, port, listens)
	return ""
}

// passes reports whether a kubelet counts the response as a success.
func passes(status int) bool { return status >= 200 && status < 400 }

// TestProbesAskWhatTheyAreMeantToAsk: with a table every probe passes. Without a table, because the API server is down, the
// probes fail that report whether there is a table. Those pass that would restart the container, which would repair nothing.
func TestProbesAskWhatTheyAreMeantToAsk(t *testing.T) {
	api := shop(t)
	for _, tt := range []struct {
		name, render string
		container    func(t *testing.T, render string) (*appsv1.Deployment, *corev1.Container)
		needsTable   []string
	}{
		{"route server", "base", routeServer, []string{"readiness"}},
		{"sidecar", "overlay-pre", sidecarOf, []string{"startup"}},
		{"sidecar of mode Exec, whose route servers are away", "overlay-exec", sidecarOf, []string{"startup"}},
	} {
		d, c := tt.container(t, tt.render)
		p := prepare(t, tt.render, d, c, nil)
		listens := p.reading(t, nowhere).listens(t)
		with := p.reading(t, api).serve(t)
		if tt.render == "overlay-exec" {
			with = p.reading(t, nowhere).asking(t, d, routeServerFor(t, api).addresses[mainListener]).serve(t)
		}
		without := prepare(t, tt.render, d, c, nil).reading(t, nowhere).asking(t, d, "127.0.0.1:1").serve(t)
		with.ready(t)
		all := probes(c)
		if all["liveness"] == nil || all[tt.needsTable[0]] == nil {
			t.Errorf("%s: probes %v", tt.name, slices.Sorted(maps.Keys(all)))
		}
		for kind, probe := range all {
			listener := listenerOf(t, c, listens, probe)
			if status, body := with.get(t, listener, probe.HTTPGet.Path); !passes(status) {
				t.Errorf("%s, %s, with a table: %s answers %d %s", tt.name, kind, probe.HTTPGet.Path, status, body)
			}
			status, body := without.get(t, listener, probe.HTTPGet.Path)
			if want := !slices.Contains(tt.needsTable, kind); passes(status) != want {
				t.Errorf("%s, %s, without a table: %s answers %d %s; to pass would be right: %v", tt.name, kind, probe.HTTPGet.Path, status, body, want)
			}
		}
	}
}

func sidecarOf(t *testing.T, render string) (*appsv1.Deployment, *corev1.Container) {
	t.Helper()
	d := dataPlane(t, render)
	return d, sidecar(t, d)
}

// routeServerFor starts the route server of base, and waits until it has the table.
func routeServerFor(t *testing.T, api string) *server {
	t.Helper()
	d, c := routeServer(t, "base")
	s := prepare(t, "base", d, c, nil).reading(t, api).serve(t)
	s.ready(t)
	return s
}

// TestServerHasTimeToEnd: it continues to serve, finishes requests and writes its last-known-good file before the kubelet kills
// it.
func TestServerHasTimeToEnd(t *testing.T) {
	const toWrite = 10 * time.Second
	for _, render := range []string{"base", "component-mtls"} {
		d, c := routeServer(t, render)
		p := prepare(t, render, d, c, nil)
		var cfg options.RouteServer
		cmd := &cobra.Command{Use: "routesrv"}
		flags := options.RouteServerFlags(cmd, &cfg)
		cmd.RunE = func(_ *cobra.Command, args []string) error {
			return flags.Resolve(args, options.Env{Environ: p.env, ReadFile: os.ReadFile})
		}
		if _, err := options.SetArgs(cmd, p.args); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		least := cfg.Server.WaitForHealthcheckInterval + cfg.Server.ShutdownTimeout + toWrite
		if grace := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace < least {
			t.Errorf("%s: killed after %v, needs up to %v", render, grace, least)
		}
	}
}

// TestSidecarIsNotRestartedBeforeItsFallback: a restart would make it wait for its slot again.
func TestSidecarIsNotRestartedBeforeItsFallback(t *testing.T) {
	p := sidecar(t, dataPlane(t, "overlay-exec")).StartupProbe
	patience := time.Duration(p.FailureThreshold*p.PeriodSeconds) * time.Second
	if least := rollout.DefaultFallbackAfter + rollout.DefaultFallbackWindow + time.Minute; patience < least {
		t.Errorf("restarted after %v without a table; a fallback may take %v", patience, least)
	}
}

// TestMemoryLimitsLeaveRoom: they are above the limit of the garbage collector.
func TestMemoryLimitsLeaveRoom(t *testing.T) {
	_, server := routeServer(t, "overlay-pre")
	_, beside := sidecarOf(t, "overlay-pre")
	for _, c := range []*corev1.Container{server, beside} {
		limit, request := c.Resources.Limits.Memory(), c.Resources.Requests.Memory()
		if request.IsZero() || c.Resources.Requests.Cpu().IsZero() || limit.Cmp(*request) < 0 {
			t.Errorf("%s: memory from %s to %s, CPU from %s", c.Name, request, limit, c.Resources.Requests.Cpu())
		}
		at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
		if at < 0 {
			t.Errorf("%s: no GOMEMLIMIT", c.Name)
			continue
		}
		soft, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[at].Value, "B")) // MiB and Mi are the same
		if err != nil {
			t.Fatal(err)
		}
		if room := limit.Value() - soft.Value(); room < limit.Value()/20 || room > limit.Value()/4 {
			t.Errorf("%s: GOMEMLIMIT %s of %s", c.Name, c.Env[at].Value, limit)
		}
	}
}
