package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/app/options"
)

// TestSettingsInTheMigrationGuideAreCheckedAsItShows runs the commands of the guide that use --check-config.
func TestSettingsInTheMigrationGuideAreCheckedAsItShows(t *testing.T) {
	const guide = "../../docs/start/migrate.md"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```console\n$ routesrv --check-config")
	if !ok {
		t.Fatalf("%s has no block with --check-config", guide)
	}
	block, _, _ = strings.Cut("$ routesrv --check-config"+block, "```")
	block = strings.ReplaceAll(block, "\\\n", " ")
	commands := 0
	for _, part := range strings.Split(block, "$ routesrv ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		commands++
		if r := runWith(t, "", strings.Fields(command)...); r.err+r.out != want {
			t.Errorf("routesrv %s\ngot\n%swant\n%s", command, r.err+r.out, want)
		}
	}
	if commands < 3 {
		t.Errorf("only %d commands were run", commands)
	}
}

// TestArgumentsWithoutEffectAreListed checks the arguments of a platform's Deployment, and every flag that has no effect.
func TestArgumentsWithoutEffectAreListed(t *testing.T) {
	text, err := os.ReadFile("../../examples/migrate/skipper-ingress-routesrv.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n---\n")
	var d struct {
		Spec struct {
			Template struct {
				Spec struct{ Containers []struct{ Args []string } }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(first), &d); err != nil {
		t.Fatal(err)
	}
	listed := func(args ...string) []string {
		t.Helper()
		r := runWith(t, "", append([]string{"--check-config", "routesrv"}, args...)...)
		if r.status != 0 {
			t.Fatalf("exit status %d\n%s", r.status, r.err)
		}
		var names []string
		for line := range strings.Lines(r.err) {
			flag, _ := strings.CutPrefix(line, "routesrv: warning: -")
			name, why, _ := strings.Cut(flag, ": ")
			if strings.TrimSpace(why) == "" {
				t.Errorf("no reason in %q", line)
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	want := []string{"enable-swarm", "forwarded-headers", "forwarded-headers-exclude-cidrs", "opentracing"}
	if got := listed(d.Spec.Template.Spec.Containers[0].Args[1:]...); !slices.Equal(got, want) {
		t.Errorf("of the platform: %q, want %q", got, want)
	}

	args := []string{"-kubernetes"}
	want = nil
	for _, f := range options.RouteServerFlags(&cobra.Command{}, new(options.RouteServer)).Ignored() {
		if f.Refused {
			continue
		}
		value := "=1"
		if f.Type() == "bool" {
			value = "=true"
		}
		args, want = append(args, "-"+f.Name+value), append(want, f.Name)
	}
	if got := listed(args...); !slices.Equal(got, want) || len(want) < 150 {
		t.Errorf("%d flags are listed, want %d", len(got), len(want))
	}
}
