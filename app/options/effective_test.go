package options_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/routesrv/routesrv/app/options"
)

// printed is the output of --check-config=yaml.
type printed struct {
	Settings map[string]struct {
		Value any    `yaml:"value"`
		From  string `yaml:"from"`
	} `yaml:"settings"`
	Ignored map[string]struct {
		From string `yaml:"from"`
		Why  string `yaml:"why"`
	} `yaml:"ignored"`
}

// effective returns the settings in effect.
func effective(t *testing.T, env options.Env, args ...string) (printed, string) {
	t.Helper()
	var b bytes.Buffer
	cmd := &cobra.Command{Use: "routesrv", SilenceErrors: true, SilenceUsage: true}
	flags := options.RouteServerFlags(cmd, new(options.RouteServer))
	cmd.RunE = func(_ *cobra.Command, args []string) error { return flags.Resolve(args, env) }
	if _, err := options.SetArgs(cmd, append(args, "--check-config=yaml")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Execute(); !errors.Is(err, options.ErrChecked) {
		t.Fatalf("error %v, want settings that were checked", err)
	}
	if err := flags.WriteChecked(&b); err != nil {
		t.Fatal(err)
	}
	var p printed
	if err := yaml.Unmarshal(b.Bytes(), &p); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return p, b.String()
}

func TestSettingsInEffectSayWhereTheyComeFrom(t *testing.T) {
	env := options.Env{
		Environ: []string{"ROUTESRV_FLAG_SOURCE_POLL_TIMEOUT=40000", "ROUTESRV_FLAG_ADDRESS=:1"},
		ReadFile: func(string) ([]byte, error) {
			return []byte("# file\nkubernetes-path-mode: path-prefix\naddress: :2\nkubernetes-east-west-range-domains: [a.local, b.local]\n" +
				"edit-route: [/a/b/, /c/d/]\nenable-swarm: true\n"), nil
		},
	}
	p, text := effective(t, env, "-kubernetes", "-kubernetes-url=https://me:secret@api:6443/x", "-config-file=/etc/f.yaml", "-address=:9990",
		"-edit-route=/x/y/", "-edit-route=/z/a: b/", "-swarm-redis-password=hunter2", "-enable-mtls", "-tls-cert=c", "-tls-key=k", "-mtls-authn-ca=a",
		"-kubernetes-healthcheck=F")
	for name, want := range map[string][2]any{
		"address":                            {":9990", "command line"},
		"kubernetes":                         {true, "command line"},
		"kubernetes-healthcheck":             {false, "command line"},
		"kubernetes-url":                     {"https://REDACTED@api:6443/x", "command line"},
		"source-poll-timeout":                {40000, "environment ROUTESRV_FLAG_SOURCE_POLL_TIMEOUT"},
		"kubernetes-path-mode":               {"path-prefix", "/etc/f.yaml:2"},
		"kubernetes-east-west-range-domains": {"a.local,b.local", "/etc/f.yaml:4"},
		"support-listener":                   {":9911", "default"},
		"enable-tls":                         {true, "-enable-mtls"},
		"config-file":                        {"/etc/f.yaml", "command line"},
	} {
		if got := p.Settings[name]; got.Value != want[0] || got.From != want[1] {
			t.Errorf("%s: %v (%[2]T) from %s, want %v from %v", name, got.Value, got.From, want[0], want[1])
		}
	}
	if got := p.Settings["edit-route"]; !slices.Equal(got.Value.([]any), []any{"/x/y/", "/z/a: b/", "/a/b/", "/c/d/", "/x/y/", "/z/a: b/"}) ||
		got.From != "command line and /etc/f.yaml:5" {
		t.Errorf("edit-route: %v", got)
	}
	if got := p.Ignored["enable-swarm"]; got.From != "/etc/f.yaml:6" || !strings.Contains(got.Why, "swarm") {
		t.Errorf("enable-swarm: %+v", got)
	}
	if got, ok := p.Ignored["swarm-redis-password"]; !ok || got.From != "command line" {
		t.Errorf("swarm-redis-password: %+v", got)
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "secret") {
		t.Errorf("a password in\n%s", text)
	}
	for _, f := range allFlags() {
		_, ok := p.Settings[f.Name]
		if question := f.Name == "help" || f.Name == "version" || f.Name == "check-config" || f.Name == "o"; ok == question {
			t.Errorf("%s is there: %t", f.Name, ok)
		}
	}
}

func TestManifestsChangeTheListenersInEffect(t *testing.T) {
	p, _ := effective(t, options.Env{}, "--manifests=x", "--events")
	for name, want := range map[string][2]any{
		"address": {options.LoopbackAddress, "--manifests"}, "support-listener": {options.LoopbackSupportAddress, "--manifests"},
		"events": {false, "no API to write to"},
	} {
		if got := p.Settings[name]; got.Value != want[0] || got.From != want[1] {
			t.Errorf("%s: %v from %s", name, got.Value, got.From)
		}
	}
}

func TestWhatIsInvalidIsNotChecked(t *testing.T) {
	for _, args := range [][]string{{"--check-config=yaml", "-kubernetes", "-address=x"}, {"--check-config=json", "-kubernetes"}} {
		if _, _, err := parseArgs(args, options.Env{}); err == nil || errors.Is(err, options.ErrChecked) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
