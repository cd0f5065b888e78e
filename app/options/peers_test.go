package options_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/options"
)

func TestPeersAreAURL(t *testing.T) {
	tls := []string{"--enable-tls", "-tls-cert=c", "-tls-key=k"}
	for _, test := range []struct {
		value string
		with  []string
		want  []string
	}{
		{"", nil, nil},
		{"routesrv-peers:9090", nil, []string{"http://routesrv-peers:9090"}},
		{"routesrv-peers:9090", tls, []string{"https://routesrv-peers:9090"}},
		{"http://routesrv-peers:9090/", tls, []string{"http://routesrv-peers:9090"}},
		{"https://routesrv-peers.routesrv.svc:9090", nil, []string{"https://routesrv-peers.routesrv.svc:9090"}},
		{"[fd00::1]:9090", nil, []string{"http://[fd00::1]:9090"}},
		{"a:1, https://relays:2,", nil, []string{"http://a:1", "https://relays:2"}},
	} {
		c, warnings := parse(t, options.Env{}, append(test.with, "--peers="+test.value)...)
		if !slices.Equal(c.Peers, test.want) || len(warnings) != 0 {
			t.Errorf("--peers=%s with %q: %q, warnings %q; want %q", test.value, test.with, c.Peers, warnings, test.want)
		}
	}
}

func TestPeersOfARelay(t *testing.T) {
	c, got := relay(t, "--upstream=http://a", "--peers=b:9090")
	if len(got) != 0 || !slices.Equal(c.Peers, []string{"http://b:9090"}) {
		t.Errorf("peers %q, warnings %q: a relay asks other relays for their clients", c.Peers, got)
	}
}

// TestCertificatesAreForPeersToo: the TLS flags of --upstream apply to peers, too.
func TestCertificatesAreForPeersToo(t *testing.T) {
	files := []string{"--upstream-tls=ca=a,cert=c,key=k"}
	if _, got := parse(t, options.Env{}, append(files, "--peers=b:9090")...); len(got) != 0 {
		t.Errorf("warnings %q", got)
	}
	_, got := parse(t, options.Env{}, "--upstream-tls=ca=a")
	if diff := cmp.Diff([]string{"--upstream-tls: has no effect without --upstream or --peers"}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
