package catalogue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

func TestFiltersThatNoProxySurvives(t *testing.T) {
	for _, c := range []struct {
		filters  string
		survives bool
	}{
		{``, true},
		{`status(200)`, true},

		{`admissionControl("a", "active", "1s", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "1ms", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "", 5, 10, 0.95, 0.9, 0.5)`, true}, // no duration: a proxy drops the route
		{`admissionControl("a", "active", "1", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "x", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", " 0s", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", "9999999h0s0", 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active", 1, 5, 10, 0.95, 0.9, 0.5)`, true},
		{`admissionControl("a", "active")`, true},
		{`AdmissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5)`, true}, // no filter has this name
		{`f("admissionControl", "active", "0s")`, true},
		{`admissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "inactive", "0", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "logInactive", "-0", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "+0", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "-1s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "-1h2m3s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "0h0m0.000s", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "0.1ns", 5, 10, 0.95, 0.9, 0.5)`, false}, // below the smallest duration
		{`admissionControl("a", "active", "0.0001us", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "1ns", 5, 10, 0.95, 0.9, 0.5)`, false}, // a busy core
		{`admissionControl("a", "active", ".5us", 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", /0s/, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", 0, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", -5, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", 0.5, 5, 10, 0.95, 0.9, 0.5)`, false},
		{`admissionControl("a", "active", "0s")`, false},
		{`status(200) -> admissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5) -> status(300)`, false},
		{`admissionControl("a", "active", "1s", 5) -> admissionControl("a", "active", "0s", 5)`, false},

		{`basicAuth()`, true},
		{`basicAuth(1)`, true},
		{`basicAuth("")`, true}, // a proxy refuses it
		{`basicAuth("/dev/null")`, true},
		{`basicAuth("/etc/skipper/htpasswd", "realm")`, true},
		{`basicAuth("device/zero")`, true},
		{`basicAuth("/var/run/htpasswd")`, true},
		{`basicAuth("/dev/zero")`, false},
		{`basicAuth("/dev/stdin", "realm")`, false},
		{`basicAuth("//dev//urandom")`, false},
		{`basicAuth("/etc/../dev/zero")`, false},
		{`basicAuth("dev/zero")`, false},
		{`basicAuth("../../dev/fd/0")`, false},
		{`basicAuth("/proc/self/fd/0")`, false},
		{`basicAuth("/proc/kmsg")`, false},
		{`basicAuth("/sys/kernel/tracing/trace_pipe")`, false},
		{`basicAuth("/")`, false},
		{`basicAuth(".")`, false},
		{`basicAuth("/etc")`, false},
		{`basicAuth("/etc/skipper/")`, false},
		{`basicAuth("/etc/skipper/..")`, false},
		{`status(200) -> basicAuth("/dev/full")`, false},

		{`compress()`, true},
		{`compress(0)`, true},
		{`compress(-0.5)`, true}, // a proxy cuts the fraction off
		{`compress(11, "image/tiff")`, true},
		{`compress("-1")`, true}, // a MIME type
		{`compress("...", -1)`, true},
		{`compress(-1)`, false},
		{`compress(-2)`, false},
		{`compress(-1, "text/html")`, false},
		{`status(200) -> compress(-1.5)`, false},

		{`ratelimit(0, "1s")`, true},
		{`ratelimit(20, "0s")`, true},
		{`ratelimit(10000000, "1m")`, true},
		{`ratelimit("10000000000", "1s")`, true}, // no number: a proxy drops the route
		{`ratelimit(10000000000, "1s")`, false},
		{`ratelimit(10000001, "1s", 503)`, false},
		{`ratelimit(-1, "1s")`, false},

		{`clientRatelimit(1000000, "1h", "Authorization")`, true},
		{`clientRatelimit(10, "1ms")`, true},
		{`clientRatelimit(10, 60)`, true}, // seconds
		{`clientRatelimit(10, "soon")`, true},
		{`clientRatelimit(10)`, true},
		{`clientRatelimit(1000000000000, "1s")`, false},
		{`clientRatelimit(1000001, "1s")`, false},
		{`clientRatelimit(-1, "1s")`, false},
		{`clientRatelimit(1, "0s")`, false},
		{`clientRatelimit(1, "-1s")`, false},
		{`clientRatelimit(1, "1us")`, false},
		{`clientRatelimit(1, 0)`, false},
		{`clientRatelimit(1, 0.9)`, false},
		{`clientRatelimit(1, "300000h")`, false}, // ten times as long is no duration
		{`clientRatelimit(1, 10000000000)`, false},
		{`localRatelimit(1000000000000, "1s")`, false},
		{`localRatelimit(1, "0s")`, false},

		{`clusterRatelimit("g", 100, "1m")`, true},
		{`clusterRatelimit("g", 10000000000, "1s")`, false},
		{`backendRatelimit("g", 100, "1s", 429)`, true},
		{`backendRatelimit("g", -1, "1s")`, false},
		{`clusterClientRatelimit("g", 100, "1m", "X-Id")`, true},
		{`clusterClientRatelimit("g", 1000000000, "1m")`, false},
		{`clusterClientRatelimit("g", 1, "0s")`, false},
		{`clusterLeakyBucketRatelimit("g", 1000000000, "1s", 1, 1)`, true}, // numbers only, no buffer

		{`chunks(1024, "120ms")`, true},
		{`chunks(1000000000000, "1s")`, false},
		{`backendChunks(1000000000000000, "1s")`, false},

		{`teeLoopback("a")`, true},
		{`teeLoopback("a") -> teeLoopback("b") -> status(200) -> teeLoopback("c")`, true},
		{`teeLoopback("a") -> teeLoopback("b") -> teeLoopback("c") -> teeLoopback("d")`, false},
		{strings.TrimPrefix(strings.Repeat(` -> teeLoopback("a")`, 10), " -> "), false},
	} {
		filters := eskip.MustParseFilters(c.filters)
		err := catalogue.Survives(filters)
		if (err == nil) != c.survives {
			t.Errorf("%s: got %v, want it to survive: %t", c.filters, err, c.survives)
		}
		if err != nil && !strings.Contains(err.Error(), filters[len(filters)-1].Name+"(") && !strings.Contains(err.Error(), "admissionControl(") {
			t.Errorf("%v does not name the filter", err)
		}
		// A route of a table gets the same verdict.
		r := &eskip.Route{Id: "r", Filters: filters, BackendType: eskip.ShuntBackend, Shunt: true}
		if _, killers := catalogue.WithoutKillers(nil, tableOf(t, "r: "+r.String()+";")); (len(killers) == 0) != c.survives {
			t.Errorf("%s: as part of a table it is judged in another way: %v", c.filters, killers)
		}
	}
}

func TestEveryDangerIsAFilterOfTheCatalogue(t *testing.T) {
	known := catalogue.New(catalogue.Options{})
	for _, d := range catalogue.Dangers() {
		for _, name := range d.Filters {
			if reason, err := known.Filters([]*eskip.Filter{{Name: name}}); reason == catalogue.UnknownFilter {
				t.Error(err)
			}
		}
		if d.Rule == "" {
			t.Errorf("%v has no rule", d.Filters)
		}
	}
}

func TestArgumentsThatProgramsMake(t *testing.T) {
	for _, c := range []struct {
		arg      any
		survives bool
	}{{0, false}, {-1, false}, {1, true}, {time.Duration(0), false}, {time.Second, true}, {nil, true}, {true, true}} {
		err := catalogue.Survives([]*eskip.Filter{{Name: "admissionControl", Args: []any{"a", "active", c.arg}}})
		if (err == nil) != c.survives {
			t.Errorf("%v (%T): got %v, want it to survive: %t", c.arg, c.arg, err, c.survives)
		}
	}
	for _, level := range []any{-1, -1.0} {
		if catalogue.Survives([]*eskip.Filter{{Name: "compress", Args: []any{level}}}) == nil {
			t.Errorf("compress(%v) of type %T passes", level, level)
		}
	}
}

// TestWhoAuthenticates: each of the prefixes is that of a filter, and others are left out.
func TestWhoAuthenticates(t *testing.T) {
	for name, want := range map[string]bool{
		"basicAuth": true, "grantClaimsQuery": true, "jwtValidationKeys": true, "mtlsAuthn": true, "oauthTokeninfoAnyScope": true, "oauthGrant": true,
		"oidcClaimsQuery": true, "opaAuthorizeRequestWithBody": true, "secureOauthTokenintrospectionAllKV": true, "webhook": true,
		"forwardToken": false, "jwtMetrics": false, "grantLogout": false, "setPath": false, "": false,
	} {
		if got := catalogue.Authenticates(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
