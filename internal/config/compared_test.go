package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/internal/config"
)

// ofTheReference are the flags of the reference, including those that the reference accepts and ignores, if they have an effect
// here.
const ofTheReference = `
	address support-listener wait-for-healthcheck-interval enable-profile block-profile-rate mutex-profile-fraction
	memory-profile-rate source-poll-timeout config-file
	kubernetes kubernetes-in-cluster kubernetes-url kubernetes-token-file kubernetes-namespace
	enable-kubernetes-endpointslices kubernetes-topology-zone
	kubernetes-ingress-class kubernetes-routegroup-class
	kubernetes-healthcheck whitelisted-healthcheck-cidr reverse-source-predicate kubernetes-https-redirect
	kubernetes-https-redirect-code kubernetes-disable-catchall-routes
	kubernetes-path-mode kubernetes-backend-traffic-algorithm kubernetes-default-lb-algorithm kubernetes-force-service
	enable-kubernetes-external-names kubernetes-external-name-preserve-host kubernetes-only-allowed-external-names
	kubernetes-allowed-external-name forward-backend-url
	kubernetes-annotation-predicates kubernetes-annotation-filters-append kubernetes-east-west-range-annotation-predicates
	kubernetes-east-west-range-annotation-filters-append kubernetes-application-annotation-label
	kubernetes-east-west-range-domains kubernetes-east-west-range-predicates enable-kubernetes-east-west
	kubernetes-east-west-domain
	default-filters-dir default-filters-prepend default-filters-append edit-route clone-route enable-oauth2-grant-flow
	oauth2-callback-path
	kubernetes-redis-service-namespace kubernetes-redis-service-name kubernetes-redis-service-port
	kubernetes-valkey-service-namespace kubernetes-valkey-service-name kubernetes-valkey-service-port
	kubernetes-status-from-service
	route-server-filters enable-mtls tls-cert tls-key tls-min-version mtls-authn-ca mtls-authn-append-ca
	oauth2-tokeninfo-url oauth2-tokeninfo-timeout oauth2-tokeninfo-cache-size oauth2-tokeninfo-cache-ttl
	application-log-level application-log-json-enabled opentracing open-telemetry`

func TestEveryFlagOfTheReferenceIsCompared(t *testing.T) {
	want := strings.Fields(ofTheReference)
	var got []string
	for _, f := range config.ComparedFlags() {
		got = append(got, f.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-of the reference +compared):\n%s", diff)
	}
}

func TestComparedFlagsSayWhatDiffers(t *testing.T) {
	unsupported := make(map[string]config.UnsupportedDoc)
	for _, f := range config.UnsupportedFlags() {
		unsupported[f.Name] = f
	}
	for _, f := range config.ComparedFlags() {
		if (f.Likeness == config.Same) != (f.Note == "") {
			t.Errorf("-%s is %s: note %q", f.Name, f.Likeness, f.Note)
		}
		doc, isUnsupported := unsupported[f.Name]
		if has := f.Likeness == config.Missing || f.Likeness == config.Refused; has != isUnsupported {
			t.Errorf("-%s is %s, and it has an effect here: %v", f.Name, f.Likeness, !isUnsupported)
		}
		if doc.Refused != (f.Likeness == config.Refused) {
			t.Errorf("-%s is %s, and refused: %v", f.Name, f.Likeness, doc.Refused)
		}
	}
}

// TestFlagsThatAreCalledDifferentBehaveSo checks what the notes say, as far as that is possible without a server.
func TestFlagsThatAreCalledDifferentBehaveSo(t *testing.T) {
	for _, tt := range []struct {
		args    []string
		warning string // a part of it; empty: none
		err     string
	}{
		{[]string{"-kubernetes-status-from-service=ns/name"}, "", "only reads"},
		{[]string{"-oauth2-tokeninfo-url=https://tokens.example.org"}, "ask a token service", ""},
		{[]string{"-opentracing=lightstep"}, "--otlp-endpoint", ""},
		{[]string{"-opentracing=noop"}, "", ""},
		{[]string{"-memory-profile-rate=1024"}, "", ""},
		{[]string{"-support-listener="}, "is empty", ""},
		{[]string{`-default-filters-append=admissionControl("a", "active", "-1s", 5, 10, 0.95, 0.9, 0.5)`}, "", "no proxy would survive it"},
	} {
		_, warnings, err := config.ParseRouteServer(append([]string{"-kubernetes"}, tt.args...), config.Env{})
		text := strings.Join(texts(warnings), "; ")
		if !strings.Contains(text, tt.warning) || (tt.warning == "") != (text == "") {
			t.Errorf("%q: warnings %q, want %q", tt.args, text, tt.warning)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: error %v, want %q", tt.args, err, tt.err)
		}
	}
}
