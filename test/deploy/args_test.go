package deploy

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/eskip"
)

// check asks the built binary whether it could run with these settings.
func check(t *testing.T, p process) (status int, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.binary, append(slices.Clone(p.args), "--check-config")...)
	cmd.Env = p.env
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestBinariesTakeTheirArguments: every flag, variable and configuration file is accepted without a warning.
func TestBinariesTakeTheirArguments(t *testing.T) {
	found := make(map[string]int)
	for render, objects := range rendered {
		for _, o := range objects {
			if o.kind != "Deployment" {
				continue
			}
			d := as[appsv1.Deployment](t, o)
			for _, c := range containers(&d.Spec.Template.Spec) {
				binary, ok := ours(c)
				if !ok {
					continue
				}
				found[binary]++
				p := prepare(t, render, d, c, nil)
				if status, out := check(t, p); status != 0 || out != "configuration is valid\n" {
					t.Errorf("%s, %s, container %s: exit status %d\n%s", render, o, c.Name, status, out)
				}
			}
		}
	}
	if found["routesrv"] < 8 || found["dataplane-client"] < 8 {
		t.Errorf("containers found: %v; these are not all", found)
	}
}

// TestWhatABinaryDoesNotTakeIsNoticed: in each of the three places; otherwise the test above would prove nothing.
func TestWhatABinaryDoesNotTakeIsNoticed(t *testing.T) {
	d := as[appsv1.Deployment](t, find(t, "base", "Deployment", "routesrv"))
	c := &d.Spec.Template.Spec.Containers[0]
	for _, tt := range []struct {
		name   string
		change func(*process)
		want   string
	}{
		{"argument", func(p *process) { p.args = append(p.args, "--state-folder=/x") }, "-state-folder"},
		{"variable", func(p *process) { p.env = append(p.env, "ROUTESRV_FLAG_MTLS=true") }, "ROUTESRV_FLAG_MTLS"},
		{"file", func(p *process) {
			i := slices.IndexFunc(p.args, func(a string) bool { return strings.HasPrefix(a, "-config-file=") })
			p.args[i] += ".gone"
		}, "-config-file"},
	} {
		p := prepare(t, "base", d, c, nil)
		tt.change(&p)
		if status, out := check(t, p); status != 2 || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit status %d, want 2 and %q in\n%s", tt.name, status, tt.want, out)
		}
	}
}

// TestProxiesGetFlagsThatSkipperHas: as far as the route server, which accepts the arguments of a Skipper, knows them.
func TestProxiesGetFlagsThatSkipperHas(t *testing.T) {
	known := make(map[string]bool)
	flags := options.RouteServerFlags(&cobra.Command{}, new(options.RouteServer))
	for _, f := range flags.All() {
		if !f.Own {
			known[f.Name] = true
		}
	}
	for _, f := range flags.Ignored() {
		known[f.Name] = true
	}
	proxies := 0
	for render, objects := range rendered {
		for _, o := range objects {
			if o.kind != "Deployment" {
				continue
			}
			for _, c := range as[appsv1.Deployment](t, o).Spec.Template.Spec.Containers {
				if len(c.Args) == 0 || c.Args[0] != "skipper" {
					continue
				}
				proxies++
				for _, a := range c.Args[1:] {
					name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
					if !known[name] {
						t.Errorf("%s, %s: Skipper has no flag -%s", render, o, name)
					}
					if name != "inline-routes" {
						continue
					}
					if routes, err := eskip.Parse(value); err != nil || len(routes) == 0 {
						t.Errorf("%s, %s: %d routes, error %v in\n%s", render, o, len(routes), err, bytes.TrimSpace([]byte(value)))
					}
				}
			}
		}
	}
	if proxies < 8 {
		t.Errorf("%d proxies found; these are not all", proxies)
	}
}
