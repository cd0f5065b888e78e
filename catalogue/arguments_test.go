package catalogue_test

import (
	"strings"
	"testing"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
)

// TestArguments: what the constructors of a proxy accept at the limits of each kind, and what they refuse. The texts are parts of
// routes: filters start with a small letter, predicates with a capital one.
func TestArguments(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	good := []string{
		`accessLogDisabled("true")`, `backendBandwidth(0.1)`, `backendChunks(1, 0)`, `backendChunks(1, "0s")`, `backendTimeout("-1s")`,
		`backendRatelimit("g", 1, 2)`, `backendRatelimit("g", 1, "2s", 429)`, `blockContentHex("", "00ff")`, `cache()`, `cache("1s", "0s", "2s")`,
		`clusterLeakyBucketRatelimit("a", 1, "1s", 1, 1)`, `compress()`, `compress(-1)`, `compress(11, "text/html")`, `compress("text/html")`,
		`endpointCreated("http://a", 1)`, `endpointCreated("http://a", "2026-01-01T00:00:00Z")`, `fifo(1, 0, "0s")`, `forwardToken("X-A", "b")`,
		`histogramRequestLatency("1s", 0, "2s")`, `histogramRequestLatency("1s", 0, "2s", 3, "4s")`, `inlineContentIfStatus(100, "x")`,
		`inlineContentIfStatus(599, "x", "y")`, `logBody("response", -1)`, `mtlsSanCIDR("10.0.0.0/8")`, `mtlsSanDNS("*.Example_Z.org")`, `mtlsSanIP("::1")`,
		`mtlsSanURI("spiffe://a")`, `oauthOidcAllClaims("https://a/b", "s", "s", "a", "b", "c")`, `oidcClaimsQuery("/:q")`, `repeatContentHex("ff", 0)`,
		`webhook("relative", "X-A,X-B")`, `webhook("http://a")`, `jwtValidation("https://a")`, `absorb(1, "x", 3)`, `dropRequestHeaderRegexp("a", "b+")`,
		`After(1)`, `After("2021-02-18T00:00:00Z")`, `Before("2021-02-18T00:00:00", "UTC")`, `Between(1, 2)`, `ContentLengthBetween(0, 1)`,
		`Cookie("a", "b")`, `Cron("0,59 0-23 1-31 12 6")`, `ForwardedHost("a")`, `ForwardedProtocol("https")`, `HeaderSHA256("a", "` + hash + `")`,
		`HostAny("a")`, `JWTPayloadAnyKV("a", "b", "c", "(")`, `JWTPayloadAllKVRegexp("a", "b")`, `Methods("get", "TRACE")`, `OTelBaggage("a")`,
		`QueryParam("a")`, `QueryParam("a", "b")`, `Source("10.0.0.0/8", "::1")`, `Tee("a")`, `Traffic(0)`, `Traffic(1, "a", "b")`,
		`TrafficSegment(0, 0)`, `TrafficSegment(0.5, 1)`, `Weight(-3)`, `Shutdown()`, `True("x")`,
	}
	bad := map[string]string{ // with a part of the reason
		`accessLogDisabled("yes")`: `"yes"`, `accessLogDisabled(1)`: "must be a string", `backendBandwidth(0)`: "must be a number above 0", `backendBandwidth("1")`: `"1": must be a number`,
		`backendChunks(1, -1)`: "must be a number from 0", `backendChunks(1, "-1s")`: "must be a duration", `backendChunks(1, "x")`: "must be a duration", `backendTimeout("1")`: "must be a duration",
		`backendRatelimit("g", 1)`: "must be 3 or 4, got 2", `blockContentHex("f")`: "argument 1", `cache("1s")`: "must be 0 or 3 or 4 or 5, got 1",
		`clusterLeakyBucketRatelimit("a", 0, "1s", 1, 1)`: "must be a number from 1", `compress(12)`: "must be a whole number from -1 to 11", `compress(1.5)`: "whole number",
		`endpointCreated("a", 1)`: "must be a URL", `endpointCreated("http:", 1)`: "must be a URL", `endpointCreated("http://a", "noon")`: "argument 2", `fifo(0, 0, "0s")`: "must be a number from 1",
		`forwardToken("X A")`: "must be a header name", `forwardToken("")`: "must be a header name", `forwardToken()`: "must be at least 1",
		`histogramRequestLatency("1s", 0)`: "must be at least 3", `histogramRequestLatency("1s", 0, "2s", 3)`: "must be at least 3", `inlineContentIfStatus(99, "x")`: "must be a whole number from 100 to 599",
		`inlineContentIfStatus(600, "x")`: "100 to 599", `logBody("both", -1)`: "must be one of request, response", `logBody("request", -2)`: "must be a whole number from -1", `mtlsSanCIDR("10.0.0.1")`: "argument 1",
		`mtlsSanDNS("a b")`: "must be a host name", `mtlsSanIP("10.0.0.0/8")`: "argument 1", `mtlsSanURI("a")`: "must be a URL", `oidcClaimsQuery("q")`: "separated by a colon",
		`repeatContentHex("", 0)`: "hexadecimal", `webhook("http://a", "X A")`: "must be a header name", `webhook("%zz")`: "must be a URL", `dropRequestHeaderRegexp("a", "(")`: "argument 2",
		`After("noon")`: "RFC 3339", `After(1, "UTC")`: "time without a zone", `Before("2021-02-18T00:00:00Z", "UTC")`: "time without a zone", `Between(2, 2)`: "not after the beginning", `After()`: "1 or 2",
		`ContentLengthBetween(-1, 1)`: "must be two numbers from 0", `ContentLengthBetween(1, 1)`: "above the first", `Cookie("a", "(")`: "argument 2", `Cron("60 * * * *")`: "from 0 to 59",
		`Cron("* * 0 * *")`: "from 1 to 31", `Cron("* * 32 * *")`: "from 1 to 31", `Cron("* * * 13 *")`: "from 1 to 12", `Cron("* * * * 7")`: "from 0 to 6", `Cron("3-1 * * * *")`: "from 0 to 59",
		`Cron("*/5 * * * *")`: "must be *, numbers and ranges", `ForwardedHost("")`: "empty", `ForwardedProtocol("ftp")`: "must be one of http, https", `HeaderSHA256("a", "abcd")`: "64 hexadecimal",
		`HeaderSHA256("a", "` + strings.Repeat("x", 64) + `")`: "64 hexadecimal", `HostAny()`: "at least 1", `HostAny(1)`: "must be a string", `JWTPayloadAnyKV("a", "b", "c")`: "at least 2",
		`JWTPayloadAllKVRegexp("a", "(")`: "argument 2", `Methods("PURGE")`: "standard method", `Source("0.0.0.0")`: "IP address", `Source("x")`: "IP address", `Tee("")`: "must not be empty", `Traffic(-0.1)`: "from 0 to 1",
		`Traffic(1, "a")`: "1 or 3", `TrafficSegment(0.5, 0.4)`: "below the beginning", `Weight("1")`: "must be a number", `Shutdown(1)`: "must be 0", `Nothing()`: "not found", `nothing()`: "not found",
	}
	known := catalogue.New(catalogue.Options{})
	check := func(part string) error {
		text := "* -> " + part + " -> <shunt>"
		if part[0] >= 'A' && part[0] <= 'Z' {
			text = part + " -> <shunt>"
		}
		routes, err := eskip.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		_, err = known.Check(routes[0])
		return err
	}
	for _, part := range good {
		if err := check(part); err != nil {
			t.Errorf("%s is refused: %v", part, err)
		}
	}
	for part, want := range bad {
		if err := check(part); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", part, err, want)
		}
	}
}

// TestBackends: addresses that programs may build, and that the parser would reject.
func TestBackends(t *testing.T) {
	known := catalogue.New(catalogue.Options{ForwardBackendURL: "nonsense"})
	lb := func(addresses ...string) *eskip.Route {
		return &eskip.Route{BackendType: eskip.LBBackend, LBEndpoints: eskip.NewLBEndpoints(addresses)}
	}
	for _, c := range []struct {
		route *eskip.Route
		want  catalogue.Reason
	}{
		{&eskip.Route{BackendType: eskip.NetworkBackend, Backend: "http://10.2.0.1:8080"}, ""},
		{&eskip.Route{BackendType: eskip.NetworkBackend}, ""}, // a proxy answers with 500
		{&eskip.Route{BackendType: eskip.NetworkBackend, Backend: "/path"}, catalogue.FailedBackendSplit},
		{&eskip.Route{BackendType: eskip.NetworkBackend, Backend: "http:///path"}, catalogue.FailedBackendSplit},
		{&eskip.Route{BackendType: eskip.NetworkBackend, Backend: "http://[::1"}, catalogue.FailedBackendSplit},
		{&eskip.Route{BackendType: eskip.ForwardBackend}, catalogue.FailedBackendSplit},
		{&eskip.Route{BackendType: eskip.NetworkBackend, Backend: "nonsense", Shunt: true}, ""},
		{lb("http://10.2.0.1:80", "https://a"), ""},
		{lb(), catalogue.Dropped},
		{lb("http://10.2.0.1:80", "http:///x"), catalogue.Dropped},
		{lb("http://10.2.0.1:80:90"), catalogue.Dropped},
		{&eskip.Route{BackendType: eskip.ShuntBackend, Path: "/a", Predicates: []*eskip.Predicate{{Name: "Path", Args: []any{"/b"}}}}, catalogue.Other},
		{&eskip.Route{BackendType: eskip.ShuntBackend, Predicates: []*eskip.Predicate{{Name: "Path", Args: []any{1.0}}}}, catalogue.Other},
		{&eskip.Route{BackendType: eskip.ShuntBackend, Predicates: []*eskip.Predicate{{Name: "Host", Args: []any{"("}}}}, catalogue.InvalidMatcher},
		{&eskip.Route{BackendType: eskip.ShuntBackend, HeaderRegexps: map[string][]string{"A": {"ok", "("}}}, catalogue.InvalidMatcher},
		{&eskip.Route{BackendType: eskip.ShuntBackend, Path: "/*a/.."}, ""},
		{&eskip.Route{BackendType: eskip.ShuntBackend, Path: "/*a/"}, catalogue.InvalidMatcher},
	} {
		if reason, err := known.Check(c.route); reason != c.want || (err != nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v, want %q", c.route, reason, err, c.want)
		}
	}
}
