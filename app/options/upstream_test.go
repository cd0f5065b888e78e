package options_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/options"
)

// relay parses the arguments of a relay.
func relay(t *testing.T, args ...string) (*options.RouteServer, []string) {
	t.Helper()
	c, warnings, err := parseArgs(args, options.Env{})
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c, texts(warnings)
}

func TestRelayNeedsNoSource(t *testing.T) {
	c, warnings := relay(t, "--upstream=http://a,http://b", "--upstream", "http://c", "-source-poll-timeout=1000")
	if want := []string{"http://a", "http://b", "http://c"}; !slices.Equal(c.Server.Upstream.URLs, want) {
		t.Errorf("URLs %q, want %q", c.Server.Upstream.URLs, want)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %q", warnings)
	}
	if c.Server.Address != ":9090" {
		t.Errorf("listens on %s", c.Server.Address)
	}
}

// TestLossesPassTheGuardOfARelay: unless a limit is set explicitly, even if it is the usual one.
func TestLossesPassTheGuardOfARelay(t *testing.T) {
	if c, _ := relay(t, "--upstream=http://a"); c.Server.Guard.MaxLoss != 0 {
		t.Errorf("max loss %v, want 0, the default of a relay", c.Server.Guard.MaxLoss)
	}
	if c, _ := relay(t, "--upstream=http://a", "--guard=max-loss=0.5"); c.Server.Guard.MaxLoss != 0.5 {
		t.Errorf("max loss %v, want 0.5", c.Server.Guard.MaxLoss)
	}
}

func TestWhatHasNoEffectInARelayIsSaid(t *testing.T) {
	_, got := relay(t, "--upstream=http://a", "-kubernetes-ingress-class=x", "-edit-route=/a/b/", "-kubernetes-in-cluster",
		"-kubernetes-redis-service-namespace=n", "-kubernetes-redis-service-name=n")
	const text = "has no effect with --upstream, whose table is served unchanged"
	want := []string{
		"-edit-route: " + text, "-kubernetes-in-cluster: " + text, "-kubernetes-ingress-class: " + text,
		"-kubernetes-redis-service-name: " + text, "-kubernetes-redis-service-namespace: " + text,
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	_, got = parse(t, options.Env{}, "--update-mode=poll")
	slices.Sort(got)
	want = []string{"--update-mode: has no effect without --upstream or --peers"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestManifestsTakeThePlaceOfAnUpstreamInCompile(t *testing.T) {
	c, warnings, err := parseCompile([]string{"--upstream=http://a", "./manifests"}, options.Env{})
	if err != nil || len(c.Server.Upstream.URLs) != 0 || len(warnings) == 0 {
		t.Errorf("%v, %v, %v", c, warnings, err)
	}
}
