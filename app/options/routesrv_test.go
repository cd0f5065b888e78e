package options_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/server"
	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/guard"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
)

// files is a ReadFile for files by name.
func files(content map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if c, ok := content[name]; ok {
			return []byte(c), nil
		}
		return nil, errors.New("open " + name + ": no such file")
	}
}

// parse parses with -kubernetes and expects no error.
func parse(t *testing.T, env options.Env, args ...string) (*options.RouteServer, []string) {
	t.Helper()
	c, warnings, err := parseArgs(append([]string{"-kubernetes"}, args...), env)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return c, texts(warnings)
}

func texts(warnings []*options.Error) []string {
	var s []string
	for _, w := range warnings {
		s = append(s, w.Error())
	}
	return s
}

var compare = cmp.Options{
	cmp.Transformer("regexp", func(r *regexp.Regexp) string {
		if r == nil {
			return ""
		}
		return r.String()
	}),
	cmp.AllowUnexported(eskip.Editor{}, eskip.Clone{}),
}

// TestDefaults compares the defaults with those of the reference, and those of our own flags with docs/reference/flags.md.
func TestDefaults(t *testing.T) {
	got, warnings := parse(t, options.Env{})
	want := &options.RouteServer{
		Source: options.Source{Kubernetes: true, Config: cluster.Config{Timeout: 30 * time.Second}},
		Server: server.Config{
			Compile: rules.Options{
				Healthcheck: true, HTTPSRedirect: true, HTTPSRedirectCode: 308, DefaultLBAlgorithm: "roundRobin",
			},
			Interval: 3 * time.Second, MaxBackoff: 15 * time.Second,
			Guard:   guard.Config{MaxLoss: 0.1, MaxBackendLoss: 0.5, Window: 10 * time.Minute, Hold: time.Hour},
			Address: ":9090", SupportAddress: ":9911",
			WaitForHealthcheckInterval: 45 * time.Second, ShutdownTimeout: 30 * time.Second, MaxConnections: 20000, MaxStreams: 10000,
			TLS:      httpserve.TLSConfig{MinVersion: tls.VersionTLS12},
			Redis:    server.Shard{Port: 6379},
			Valkey:   server.Shard{Port: 6379},
			Upstream: dataplane.Config{UpdateMode: dataplane.Auto, Timeout: 10 * time.Second},
		},
		Log: options.Log{Level: slog.LevelInfo},
	}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %q, want none", warnings)
	}
	if _, err := compile.New(got.Server.Compile); err != nil {
		t.Errorf("the compiler refuses the defaults: %v", err)
	}
	if _, err := guard.New(got.Server.Guard); err != nil {
		t.Errorf("the guard refuses the defaults: %v", err)
	}
}

// TestDocumentedDefaults: the help shows the defaults of Skipper's documentation.
func TestDocumentedDefaults(t *testing.T) {
	want := map[string]string{
		"address": ":9090", "support-listener": ":9911", "wait-for-healthcheck-interval": "45s", "source-poll-timeout": "3000",
		"kubernetes-healthcheck": "true", "kubernetes-https-redirect": "true", "kubernetes-https-redirect-code": "308",
		"kubernetes-path-mode": "kubernetes-ingress", "kubernetes-backend-traffic-algorithm": "traffic-predicate",
		"kubernetes-default-lb-algorithm": "roundRobin", "kubernetes-redis-service-port": "6379",
		"kubernetes-valkey-service-port": "6379", "tls-min-version": "1.2", "application-log-level": "INFO",
		"block-profile-rate": "0", "mutex-profile-fraction": "0", "memory-profile-rate": "0",
		"kubernetes-read": "poll", "max-streams": "10000", "max-connections": "20000", "max-object-bytes": "8MiB",

		"update-mode": "auto", "keep-takeovers": "none", "canary": "0s",
	}
	got := make(map[string]string)
	for _, f := range allFlags() {
		if f.Default() != "" && f.Default() != "false" {
			got[f.Name] = f.Default()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documented defaults (-want +got):\n%s", diff)
	}
}

// TestArgumentsOfADeploymentWorkAsTheyAre uses the published arguments of Skipper's route server.
func TestArgumentsOfADeploymentWorkAsTheyAre(t *testing.T) {
	args := []string{
		"-application-log-level=INFO", "-kubernetes", "-kubernetes-in-cluster", "-kubernetes-namespace=", "-address=:9090",
		"-support-listener=:9911", "-source-poll-timeout=3000", "-kubernetes-healthcheck=true",
		"-kubernetes-https-redirect=true", "-kubernetes-allowed-external-name=^example[.]org$",
		"-kubernetes-allowed-external-name=^example[.]com$",
		"-kubernetes-only-allowed-external-names=true", "-kubernetes-east-west-range-domains=ingress.cluster.local",
		`-kubernetes-east-west-range-predicates=ClientIP("10.2.0.0/15")`, "-enable-kubernetes-east-west",
		"-kubernetes-path-mode=path-prefix", "-kubernetes-backend-traffic-algorithm=traffic-segment-predicate",
		"-default-filters-dir=/etc/config/default-filters",
		`-default-filters-prepend=enableAccessLog(4,5) -> lifo(2000,20000,"3s")`, "-default-filters-append=a()",
		"-default-filters-prepend=b()", "-enable-oauth2-grant-flow", "-oauth2-callback-path=/.well-known/oauth2-callback",
		"-edit-route=/Source[(](.*)[)]/ClientIP($1)/", "-clone-route=#x#y#", "-wait-for-healthcheck-interval=65s",
		"-kubernetes-redis-service-namespace=kube-system", "-kubernetes-redis-service-name=redis", "-opentracing=noop",
		`-kubernetes-annotation-predicates=to/key=v=Header("A", "b=c")`, "-kubernetes-annotation-filters-append=",
	}
	got, warnings, err := parseArgs(args, options.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %q, want none", texts(warnings))
	}
	want := rules.Options{
		PathMode: rules.PathModePathPrefix, TrafficAlgorithm: rules.TrafficSegmentPredicate, DefaultLBAlgorithm: "roundRobin",
		Healthcheck: true, HTTPSRedirect: true, HTTPSRedirectCode: 308, OnlyAllowedExternalNames: true,
		AllowedExternalNames: []*regexp.Regexp{
			regexp.MustCompile(`^example[.]org$`), regexp.MustCompile(`^example[.]com$`),
		},
		EastWest: true, EastWestRangeDomains: []string{"ingress.cluster.local"},
		EastWestRangePredicates: eskip.MustParsePredicates(`ClientIP("10.2.0.0/15")`),
		AnnotationPredicates: []rules.AnnotationPredicates{
			{Key: "to/key", Value: "v", Predicates: eskip.MustParsePredicates(`Header("A", "b=c")`)},
		},
		DefaultFilters: &eskip.DefaultFilters{
			Prepend: eskip.MustParseFilters(`enableAccessLog(4,5) -> lifo(2000,20000,"3s") -> b()`),
			Append:  eskip.MustParseFilters(`a()`),
		},
		OAuthGrantCallback: true, OAuthCallbackPath: "/.well-known/oauth2-callback",
		EditRoutes:  []*eskip.Editor{eskip.NewEditor(regexp.MustCompile("Source[(](.*)[)]"), "ClientIP($1)")},
		CloneRoutes: []*eskip.Clone{eskip.NewClone(regexp.MustCompile("x"), "y")},
	}
	if diff := cmp.Diff(want, got.Server.Compile, compare); diff != "" {
		t.Errorf("compile options (-want +got):\n%s", diff)
	}
	source := options.Source{
		Kubernetes: true, Config: cluster.Config{InCluster: true, Timeout: 30 * time.Second}, DefaultFiltersDir: "/etc/config/default-filters",
	}
	if diff := cmp.Diff(source, got.Source); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	if redis, valkey := got.Server.Redis, got.Server.Valkey; redis.Namespace == "" || redis.Name == "" || valkey.Namespace+valkey.Name != "" {
		t.Errorf("shards %+v, want those of redis only", got.Server)
	}
}

// sample is a value for a flag that is not its default, and the expected result.
type sample struct {
	value string
	with  []string // other arguments that it needs
	get   func(*options.RouteServer) any
	want  any
}

// samples has every flag except those of the group General.
func samples() map[string]sample {
	m := make(map[string]sample)
	for _, part := range []map[string]sample{sourceSamples(), compileSamples(), serveSamples()} {
		maps.Copy(m, part)
	}
	return m
}

func sourceSamples() map[string]sample {
	source := func(f func(options.Source) any) func(*options.RouteServer) any {
		return func(c *options.RouteServer) any { return f(c.Source) }
	}
	return map[string]sample{
		"kubernetes":                       {"true", nil, source(func(s options.Source) any { return s.Kubernetes }), true},
		"manifests":                        {"dir", []string{"-kubernetes=false"}, source(func(s options.Source) any { return s.Manifests }), []string{"dir"}},
		"kubernetes-in-cluster":            {"true", nil, source(func(s options.Source) any { return s.InCluster }), true},
		"kubernetes-url":                   {"https://h:1", nil, source(func(s options.Source) any { return s.URL }), "https://h:1"},
		"kubernetes-token-file":            {"f", nil, source(func(s options.Source) any { return s.TokenFile }), "f"},
		"kubeconfig":                       {"f", nil, source(func(s options.Source) any { return s.Kubeconfig }), "f"},
		"kubernetes-read":                  {"watch", nil, source(func(s options.Source) any { return s.Watch }), true},
		"enable-kubernetes-endpointslices": {"true", nil, func(c *options.RouteServer) any { return c.Source.EndpointSlices && c.Server.Compile.EndpointSlices }, true},
		"kubernetes-namespace":             {"ns", nil, source(func(s options.Source) any { return s.Namespace }), "ns"},
		"default-filters-dir":              {"d", nil, source(func(s options.Source) any { return s.DefaultFiltersDir }), "d"},

		"kubernetes-label-selector": {"services:app=web, tier", nil, source(func(s options.Source) any { return s.Selectors }),
			map[kube.Kind]map[string]string{kube.KindService: {"app": "web", "tier": ""}}},
		"source-poll-timeout": {"100", nil, func(c *options.RouteServer) any { return c.Server.Interval }, 100 * time.Millisecond},
		"timing": {"request-timeout=7s,max-backoff=1m,fetch-timeout=5s,shutdown=6s", nil, func(c *options.RouteServer) any {
			s := c.Source
			return []time.Duration{s.Timeout, c.Server.MaxBackoff, c.Server.Upstream.Timeout, c.Server.ShutdownTimeout}
		}, []time.Duration{7 * time.Second, time.Minute, 5 * time.Second, 6 * time.Second}},
	}
}

func compileSamples() map[string]sample {
	opt := func(value string, want any, f func(rules.Options) any) sample {
		return sample{value, nil, func(c *options.RouteServer) any { return f(c.Server.Compile) }, want}
	}
	ps, fs := eskip.MustParsePredicates(`Path("/a=b")`), eskip.MustParseFilters(`a("x=y") -> b()`)
	const keyed = `k=v=Path("/a=b")`
	const keyedFilters = `k=v=a("x=y") -> b()`
	predicates := []rules.AnnotationPredicates{{Key: "k", Value: "v", Predicates: ps}}
	filters := []rules.AnnotationFilters{{Key: "k", Value: "v", Filters: fs}}
	return map[string]sample{
		"kubernetes-ingress-class":               opt("^a$", "^a$", func(o rules.Options) any { return o.IngressClass }),
		"kubernetes-routegroup-class":            opt("^a$", "^a$", func(o rules.Options) any { return o.RouteGroupClass }),
		"kubernetes-healthcheck":                 opt("false", false, func(o rules.Options) any { return o.Healthcheck }),
		"whitelisted-healthcheck-cidr":           opt("10.0.0.0/8, ::1", []string{"10.0.0.0/8", "::1"}, func(o rules.Options) any { return o.HealthcheckCIDRs }),
		"reverse-source-predicate":               opt("true", true, func(o rules.Options) any { return o.ReverseSource }),
		"kubernetes-https-redirect":              opt("false", false, func(o rules.Options) any { return o.HTTPSRedirect }),
		"kubernetes-https-redirect-code":         opt("301", 301, func(o rules.Options) any { return o.HTTPSRedirectCode }),
		"kubernetes-disable-catchall-routes":     opt("true", true, func(o rules.Options) any { return o.DisableCatchAllRoutes }),
		"kubernetes-path-mode":                   opt("path-regexp", rules.PathModePathRegexp, func(o rules.Options) any { return o.PathMode }),
		"kubernetes-backend-traffic-algorithm":   opt("traffic-segment-predicate", rules.TrafficSegmentPredicate, func(o rules.Options) any { return o.TrafficAlgorithm }),
		"kubernetes-default-lb-algorithm":        opt("random", "random", func(o rules.Options) any { return o.DefaultLBAlgorithm }),
		"kubernetes-force-service":               opt("true", true, func(o rules.Options) any { return o.ForceService }),
		"forward-backend-url":                    opt("http://h", "http://h", func(o rules.Options) any { return o.ForwardBackendURL }),
		"kubernetes-topology-zone":               opt("z", "z", func(o rules.Options) any { return o.TopologyZone }),
		"enable-kubernetes-external-names":       opt("true", true, func(o rules.Options) any { return o.ExternalNames }),
		"kubernetes-external-name-preserve-host": opt("true", true, func(o rules.Options) any { return o.ExternalNamePreserveHost }),
		"kubernetes-only-allowed-external-names": opt("true", true, func(o rules.Options) any { return o.OnlyAllowedExternalNames }),
		"kubernetes-allowed-external-name":       opt("^a$", []*regexp.Regexp{regexp.MustCompile("^a$")}, func(o rules.Options) any { return o.AllowedExternalNames }),

		"kubernetes-annotation-predicates":                     opt(keyed, predicates, func(o rules.Options) any { return o.AnnotationPredicates }),
		"kubernetes-annotation-filters-append":                 opt(keyedFilters, filters, func(o rules.Options) any { return o.AnnotationFiltersAppend }),
		"kubernetes-east-west-range-annotation-predicates":     opt(keyed, predicates, func(o rules.Options) any { return o.EastWestRangeAnnotationPredicates }),
		"kubernetes-east-west-range-annotation-filters-append": opt(keyedFilters, filters, func(o rules.Options) any { return o.EastWestRangeAnnotationFilters }),
		"kubernetes-application-annotation-label":              opt("app", "app", func(o rules.Options) any { return o.ApplicationLabel }),

		"kubernetes-east-west-range-domains":    opt("a,b", []string{"a", "b"}, func(o rules.Options) any { return o.EastWestRangeDomains }),
		"kubernetes-east-west-range-predicates": opt(`Path("/a=b")`, ps, func(o rules.Options) any { return o.EastWestRangePredicates }),
		"enable-kubernetes-east-west":           opt("true", true, func(o rules.Options) any { return o.EastWest }),
		"kubernetes-east-west-domain":           opt("d", "d", func(o rules.Options) any { return o.EastWestDomain }),

		"filters":                  opt("a,b", []string{"a", "b"}, func(o rules.Options) any { return o.ExtraFilters }),
		"max-object-bytes":         opt("16MiB", 16<<20, func(o rules.Options) any { return o.MaxObjectBytes }),
		"refuse-filters":           opt("lua,jwtValidationKeys", []string{"lua", "jwtValidationKeys"}, func(o rules.Options) any { return o.RefuseFilters }),
		"predicates":               opt("A,B", []string{"A", "B"}, func(o rules.Options) any { return o.ExtraPredicates }),
		"default-filters-prepend":  opt(`a("x=y") -> b()`, &eskip.DefaultFilters{Prepend: fs}, func(o rules.Options) any { return o.DefaultFilters }),
		"default-filters-append":   opt(`a("x=y") -> b()`, &eskip.DefaultFilters{Append: fs}, func(o rules.Options) any { return o.DefaultFilters }),
		"enable-oauth2-grant-flow": opt("true", true, func(o rules.Options) any { return o.OAuthGrantCallback }),
		"oauth2-callback-path":     opt("/cb", "/cb", func(o rules.Options) any { return o.OAuthCallbackPath }),
		"edit-route":               opt("/a/b/", []*eskip.Editor{eskip.NewEditor(regexp.MustCompile("a"), "b")}, func(o rules.Options) any { return o.EditRoutes }),
		"clone-route":              opt("§a§§", []*eskip.Clone{eskip.NewClone(regexp.MustCompile("a"), "")}, func(o rules.Options) any { return o.CloneRoutes }),
	}
}

func serveSamples() map[string]sample {
	one := func(value string, want any, f func(*options.RouteServer) any, with ...string) sample {
		return sample{value, with, f, want}
	}
	return map[string]sample{
		"guard": one("max-loss=50%,max-backend-loss=0.75,window=3m,hold=2m,release=manual,max-routes=9,max-bytes=512MiB",
			guard.Config{MaxLoss: 0.5, MaxBackendLoss: 0.75, Window: 3 * time.Minute, Hold: 2 * time.Minute, Manual: true, MaxRoutes: 9, MaxBytes: 512 << 20},
			func(c *options.RouteServer) any { return c.Server.Guard }),
		"address":                       one("127.0.0.1:80", "127.0.0.1:80", func(c *options.RouteServer) any { return c.Server.Address }),
		"support-listener":              one("[::1]:80", "[::1]:80", func(c *options.RouteServer) any { return c.Server.SupportAddress }),
		"wait-for-healthcheck-interval": one("0", time.Duration(0), func(c *options.RouteServer) any { return c.Server.WaitForHealthcheckInterval }),
		"max-connections":               one("99", 99, func(c *options.RouteServer) any { return c.Server.MaxConnections }),
		"max-streams":                   one("7", 7, func(c *options.RouteServer) any { return c.Server.MaxStreams }),
		"enable-profile":                one("true", true, func(c *options.RouteServer) any { return c.Server.EnableProfile }),
		"block-profile-rate":            one("5", 5, func(c *options.RouteServer) any { return c.Profile.Block }),
		"mutex-profile-fraction":        one("5", 5, func(c *options.RouteServer) any { return c.Profile.Mutex }),
		"memory-profile-rate":           one("5", 5, func(c *options.RouteServer) any { return c.Profile.Memory }),

		"enable-tls":           one("true", true, func(c *options.RouteServer) any { return c.Server.TLS.Enable }, "-tls-cert=c", "-tls-key=k"),
		"enable-mtls":          one("true", true, func(c *options.RouteServer) any { return c.Server.TLS.Enable && c.Server.TLS.RequireClientCert }, "-tls-cert=c", "-tls-key=k", "-mtls-authn-ca=a"),
		"tls-cert":             one("a,b", []string{"a", "b"}, func(c *options.RouteServer) any { return c.Server.TLS.CertFiles }, "-tls-key=c,d"),
		"tls-key":              one("a,b", []string{"a", "b"}, func(c *options.RouteServer) any { return c.Server.TLS.KeyFiles }, "-tls-cert=c,d"),
		"tls-min-version":      one("1.3", uint16(tls.VersionTLS13), func(c *options.RouteServer) any { return c.Server.TLS.MinVersion }),
		"mtls-authn-ca":        one("a,b", []string{"a", "b"}, func(c *options.RouteServer) any { return c.Server.TLS.CAFiles }),
		"mtls-authn-append-ca": one("true", true, func(c *options.RouteServer) any { return c.Server.TLS.AppendSystemCAs }),
		"route-server-filters": one(`mtlsAuthn() -> mtlsCN("cn")`, eskip.MustParseFilters(`mtlsAuthn() -> mtlsCN("cn")`), func(c *options.RouteServer) any { return c.Server.RequestFilters }),

		"kubernetes-redis-service-namespace":  one("n", "n", func(c *options.RouteServer) any { return c.Server.Redis.Namespace }),
		"kubernetes-redis-service-name":       one("n", "n", func(c *options.RouteServer) any { return c.Server.Redis.Name }),
		"kubernetes-redis-service-port":       one("7", 7, func(c *options.RouteServer) any { return c.Server.Redis.Port }),
		"kubernetes-valkey-service-namespace": one("n", "n", func(c *options.RouteServer) any { return c.Server.Valkey.Namespace }),
		"kubernetes-valkey-service-name":      one("n", "n", func(c *options.RouteServer) any { return c.Server.Valkey.Name }),
		"kubernetes-valkey-service-port":      one("7", 7, func(c *options.RouteServer) any { return c.Server.Valkey.Port }),

		"application-log-level":        one("WARNING", slog.LevelWarn, func(c *options.RouteServer) any { return c.Log.Level }),
		"application-log-json-enabled": one("true", true, func(c *options.RouteServer) any { return c.Log.JSON }),
		"upstream": one("http://a, http://b", []string{"http://a", "http://b"},
			func(c *options.RouteServer) any { return c.Server.Upstream.URLs }, "-kubernetes=false"),
		"update-mode":  one("stream", dataplane.Stream, func(c *options.RouteServer) any { return c.Server.Upstream.UpdateMode }),
		"peers":        one("peers:9090", []string{"http://peers:9090"}, func(c *options.RouteServer) any { return c.Peers }),
		"upstream-tls": one("ca=a,cert=c,key=k", options.TLSFiles{CA: "a", Cert: "c", Key: "k"}, func(c *options.RouteServer) any { return c.UpstreamTLS }),

		"events": one("true", true, func(c *options.RouteServer) any { return c.Events }),

		"trial-proxy":    one("http://127.0.0.1:9922", "http://127.0.0.1:9921", func(c *options.RouteServer) any { return c.Server.Review.TrialTraffic.String() }),
		"keep-takeovers": one("namespace:3", takeover.Policy{Routes: 3}, func(c *options.RouteServer) any { return c.Server.Review.KeepTakeovers }),

		"canary": one("5m", 5*time.Minute, func(c *options.RouteServer) any { return c.Server.Canary.Soak }),
		"canary-query": one("up", "up", func(c *options.RouteServer) any { return c.Server.Canary.Query },
			"-canary=5m", "-prometheus=http://prometheus:9090"),
		"prometheus": one("http://prometheus:9090", "http://prometheus:9090", func(c *options.RouteServer) any { return c.Server.Canary.Prometheus.String() },
			"-canary=5m", "-canary-query=up"),

		"state-dir": one("d", "d", func(c *options.RouteServer) any { return c.Server.StateDir }),
	}
}

// TestEveryFlagInEveryForm sets each flag in every way in which it can be set.
func TestEveryFlagInEveryForm(t *testing.T) {
	all := samples()
	for _, f := range allFlags() {
		if f.Group() == "General" {
			continue
		}
		s, ok := all[f.Name]
		if !ok {
			t.Errorf("no sample for -%s", f.Name)
			continue
		}
		delete(all, f.Name)
		forms := map[string][]string{
			"-name=value":  {"-" + f.Name + "=" + s.value},
			"--name=value": {"--" + f.Name + "=" + s.value},
			"environment":  nil,
			"file":         {"-config-file=f"},
		}
		if f.Type() != "bool" {
			forms["-name value"] = []string{"-" + f.Name, s.value}
			forms["--name value"] = []string{"--" + f.Name, s.value}
		} else if s.value == "true" {
			forms["-name"] = []string{"-" + f.Name}
			forms["--name"] = []string{"--" + f.Name}
		}
		for _, form := range slices.Sorted(maps.Keys(forms)) {
			args := append([]string{"-kubernetes"}, s.with...)
			if f.Name == "kubernetes" {
				args = nil
			}
			env := options.Env{ReadFile: files(map[string]string{"f": f.Name + ": '" + s.value + "'\n"})}
			if f.Type() == "bool" || f.Type() == "int" {
				env.ReadFile = files(map[string]string{"f": f.Name + ": " + s.value + "\n"})
			}
			if form == "environment" {
				env.Environ = []string{options.EnvName(f.Name) + "=" + s.value}
			}
			c, _, err := parseArgs(append(args, forms[form]...), env)
			if err != nil {
				t.Errorf("%s as %s: %v", f.Name, form, err)
				continue
			}
			if diff := cmp.Diff(s.want, s.get(c), compare); diff != "" {
				t.Errorf("%s as %s (-want +got):\n%s", f.Name, form, diff)
			}
		}
	}
	for name := range all {
		t.Errorf("there is no flag -%s", name)
	}
}

// laterSwitches and laterValues are flags of the newest Skipper that its route server accepts, too.
const (
	laterSwitches = `backend-zone-metrics disable-metrics-compression enable-copy-stream-pool enable-h2c-server enable-lua
		enable-open-policy-agent-async-decision-logging enable-open-policy-agent-print-tracing enable-prometheus-native-histograms
		enable-proxy-protocol proxy-request-metrics proxy-response-metrics opentracing-client-trace-by-tag validation-webhook-enabled `
	laterValues = `client-tls-cert-refresh-interval prometheus-native-histogram-bucket-factor proxy-allow-cidrs proxy-deny-cidrs
		proxy-skip-cidrs request-size-buckets response-size-buckets max-content-length oauth2-tokeninfo-subject-key
		swarm-valkey-conn-timeout swarm-valkey-keepalive tls-key-log-file upgrade-dial-timeout validation-webhook-address
		validation-webhook-cert-file validation-webhook-key-file`
)

func TestLaterFlagsOfSkipperDoNotStopTheStart(t *testing.T) {
	var args []string
	for _, name := range strings.Fields(laterSwitches) {
		args = append(args, "-"+name)
	}
	for _, name := range strings.Fields(laterValues) {
		args = append(args, "-"+name, "1") // a separate argument
	}
	_, warnings := parse(t, options.Env{}, args...)
	if n := len(args) - len(strings.Fields(laterValues)); len(warnings) != n {
		t.Errorf("%d warnings for %d flags: %v", len(warnings), n, warnings)
	}
}

// TestIntegersHaveTheFormsOfSkipper: package flag reads them with a prefix, and with underscores.
func TestIntegersHaveTheFormsOfSkipper(t *testing.T) {
	for text, want := range map[string]int{"3000": 3000, "0xbb8": 3000, "0XBB8": 3000, "0o5670": 3000, "05670": 3000, "3_000": 3000, "0b11": 3, "+7": 7} {
		c, _ := parse(t, options.Env{}, "-source-poll-timeout="+text, "-mutex-profile-fraction", text)
		if got := c.Server.Interval; got != time.Duration(want)*time.Millisecond || c.Profile.Mutex != want {
			t.Errorf("%s: read as %s and %d, want %d", text, got, c.Profile.Mutex, want)
		}
	}
}

// TestFlagsOfTheReferenceAreAllThere: all flags of the reference exist, whether they are used or not.
func TestFlagsOfTheReferenceAreAllThere(t *testing.T) {
	const names = `address support-listener wait-for-healthcheck-interval enable-profile block-profile-rate
		mutex-profile-fraction memory-profile-rate source-poll-timeout kubernetes kubernetes-in-cluster kubernetes-url
		kubernetes-token-file kubernetes-namespace enable-kubernetes-endpointslices kubernetes-topology-zone
		kubernetes-ingress-class kubernetes-routegroup-class kubernetes-healthcheck whitelisted-healthcheck-cidr
		reverse-source-predicate kubernetes-https-redirect kubernetes-https-redirect-code
		kubernetes-disable-catchall-routes kubernetes-path-mode kubernetes-backend-traffic-algorithm
		kubernetes-default-lb-algorithm kubernetes-force-service enable-kubernetes-external-names
		kubernetes-external-name-preserve-host kubernetes-only-allowed-external-names kubernetes-allowed-external-name
		forward-backend-url kubernetes-annotation-predicates kubernetes-annotation-filters-append
		kubernetes-east-west-range-annotation-predicates kubernetes-east-west-range-annotation-filters-append
		kubernetes-application-annotation-label kubernetes-east-west-range-domains kubernetes-east-west-range-predicates
		enable-kubernetes-east-west kubernetes-east-west-domain default-filters-dir default-filters-prepend
		default-filters-append edit-route clone-route enable-oauth2-grant-flow oauth2-callback-path
		kubernetes-redis-service-namespace kubernetes-redis-service-name kubernetes-redis-service-port
		kubernetes-valkey-service-namespace kubernetes-valkey-service-name kubernetes-valkey-service-port
		route-server-filters enable-mtls tls-cert tls-key tls-min-version mtls-authn-ca mtls-authn-append-ca
		application-log-level application-log-json-enabled config-file`
	const unsupported = `kubernetes-status-from-service oauth2-tokeninfo-url oauth2-tokeninfo-timeout oauth2-tokeninfo-cache-size
		oauth2-tokeninfo-cache-ttl opentracing open-telemetry opentracing-backend-name-tag kubernetes-enable-tls ` + laterSwitches + laterValues
	var own, others []string
	for _, f := range allFlags() {
		own = append(own, f.Name)
		if want := slices.Contains(strings.Fields(names), f.Name); want == f.Own && f.Group() != "General" {
			t.Errorf("-%s: Own is %v", f.Name, f.Own)
		}
	}
	for _, f := range ignoredFlags() {
		others = append(others, f.Name)
		if slices.Contains(own, f.Name) {
			t.Errorf("-%s is used and listed as not used", f.Name)
		}
	}
	for _, name := range strings.Fields(names) {
		if !slices.Contains(own, name) {
			t.Errorf("-%s is not there", name)
		}
	}
	for _, name := range strings.Fields(unsupported) {
		if !slices.Contains(others, name) {
			t.Errorf("-%s is not listed as not used", name)
		}
	}
	if len(others) < 180 {
		t.Errorf("%d flags of Skipper are known that are not used here, want most of them", len(others))
	}
}
