package options_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/poller"
)

// TestErrors checks each line of the error, for arguments after -kubernetes.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-kubernetes-path-mode=x"}, "-kubernetes-path-mode: invalid path mode string: x"},
		{[]string{"-kubernetes-backend-traffic-algorithm=x"}, "-kubernetes-backend-traffic-algorithm: invalid backend traffic algorithm: x"},
		{[]string{"-kuberentes-path-mode=x"}, "unknown flag -kuberentes-path-mode: did you mean -kubernetes-path-mode?"},
		{[]string{"--manifest=x"}, "unknown flag -manifest: did you mean --manifests?"},
		{[]string{"--enable_profile"}, "unknown flag -enable_profile: did you mean -enable-profile?"},
		{[]string{"--nothing-like-it", "value"}, "unknown flag -nothing-like-it"},
		{[]string{"--no\x1b[31m=secret"}, `unknown flag -"no\x1b[31m"`},
		{[]string{"-enable-profile", "x"}, `unknown command "x" for "routesrv"`},
		{[]string{"x"}, `unknown command "x" for "routesrv"`},
		{[]string{"-kubernetes", "false"}, `unknown command "false" for "routesrv"`},
		{[]string{"-address"}, "flag needs an argument: --address"},
		{[]string{"--", "-address=:1"}, `unknown command "-address=:1" for "routesrv"`},
		{[]string{"-kubernetes=maybe"}, `-kubernetes: "maybe": must be true or false`},
		{[]string{"-enable-ratelimits=maybe"}, `-enable-ratelimits: "maybe": must be true or false`},
		{[]string{"-kubernetes=false"}, "-kubernetes flag required: set -kubernetes to read the objects from an API, or " +
			"--manifests PATH to read them from files, or --upstream URL to serve the table of another route server"},
		{[]string{"--upstream=http://a"}, "--upstream: cannot be combined with -kubernetes and --manifests: the table is compiled here or comes from another route server"},
		{[]string{"-kubernetes=false", "--upstream=http://a", "--manifests=x"}, "--upstream: cannot be combined with -kubernetes and --manifests: the table is compiled here or comes from another route server"},
		{[]string{"--kubeconfig=f", "-kubernetes-in-cluster"}, "--kubeconfig: cannot be combined with -kubernetes-in-cluster, -kubernetes-url and -kubernetes-token-file: it has all of them"},
		{[]string{"--kubeconfig=f", "-kubernetes-url=http://h"}, "--kubeconfig: cannot be combined with -kubernetes-in-cluster, -kubernetes-url and -kubernetes-token-file: it has all of them"},
		{[]string{"--kubeconfig=f", "-kubernetes-token-file=f"}, "--kubeconfig: cannot be combined with -kubernetes-in-cluster, -kubernetes-url and -kubernetes-token-file: it has all of them"},
		{[]string{"--upstream= , "}, "--upstream: must be the URL of a route server"},
		{[]string{"--update-mode=push"}, `--update-mode: "push": must be one of auto, stream, poll`},
		{[]string{"--upstream-tls=cert=c"}, "--upstream-tls: client certificate: set both cert and key, or neither"},
		{[]string{"--manifests=x"}, "--manifests: cannot be combined with -kubernetes: read the objects from files or from an API, not from both"},
		{[]string{"--manifests="}, "--manifests: must be the path of a file or folder"},
		{[]string{"-kubernetes-url=https://user:secret@"}, "-kubernetes-url: must be a URL such as https://host:port"},
		{[]string{"-source-poll-timeout=08"}, `-source-poll-timeout: "08": must be a whole number of milliseconds, from 1 to 86400000`},
		{[]string{"--kubernetes-label-selector=services:a in (b)"}, `--kubernetes-label-selector: "a in (b)": must be labels as name=value, or name alone for any value, separated by commas`},
		{[]string{"--kubernetes-label-selector=services:a="}, `--kubernetes-label-selector: "a=": must be labels as name=value, or name alone for any value, separated by commas`},
		{[]string{"--kubernetes-label-selector=services:a=b,a"}, `--kubernetes-label-selector: label "a" given twice`},
		{[]string{"--timing=request-timeout=7"}, `--timing: request-timeout: "7": must be a time with its unit, such as 45s, from 1ms to 1h`},
		{[]string{"--kubernetes-read=stream"}, `--kubernetes-read: "stream": must be one of poll, watch`},
		{[]string{"-source-poll-timeout=3s"}, `-source-poll-timeout: "3s": must be a whole number of milliseconds; for 3s write 3000`},
		{[]string{"-source-poll-timeout=0"}, `-source-poll-timeout: "0": must be a whole number of milliseconds, from 1 to 86400000`},
		{[]string{"-source-poll-timeout=x"}, `-source-poll-timeout: "x": must be a whole number of milliseconds, from 1 to 86400000`},
		{[]string{"-kubernetes-ingress-class=("}, "-kubernetes-ingress-class: error parsing regexp: missing closing ): `(`"},
		{[]string{"-kubernetes-allowed-external-name=["}, "-kubernetes-allowed-external-name: error parsing regexp: missing closing ]: `[`"},
		{[]string{"-whitelisted-healthcheck-cidr=10.0.0.0/8,x"}, `-whitelisted-healthcheck-cidr: "x": must be networks such as 10.2.0.0/16, separated by commas`},
		{[]string{"-kubernetes-annotation-predicates=k=v"}, `-kubernetes-annotation-predicates: "k=v": must be KEY=VALUE=TEXT with the key and the value of an annotation`},
		{[]string{"-kubernetes-annotation-predicates=k=v=A()", "-kubernetes-annotation-predicates=k=v=B()"}, `-kubernetes-annotation-predicates: annotation "k=v" given twice`},
		{[]string{"-kubernetes-annotation-filters-append=k=v=a()", "-kubernetes-annotation-filters-append=k=v=b()"}, `-kubernetes-annotation-filters-append: annotation "k=v" given twice`},
		{[]string{`-default-filters-prepend=admissionControl("a", "active", "0s")`}, `-default-filters-prepend: no proxy would survive it: filter admissionControl("a", "active", "0s"): the interval "0s" is not above zero; argument 3 (interval) must be at least 1ms`},
		{[]string{`-default-filters-append=admissionControl("a", "active", "0s")`}, `-default-filters-append: no proxy would survive it: filter admissionControl("a", "active", "0s"): the interval "0s" is not above zero; argument 3 (interval) must be at least 1ms`},
		{[]string{`-kubernetes-annotation-filters-append=k=v=admissionControl("a", "active", "0s")`}, `-kubernetes-annotation-filters-append: no proxy would survive it: filter admissionControl("a", "active", "0s"): the interval "0s" is not above zero; argument 3 (interval) must be at least 1ms`},
		{[]string{`-kubernetes-east-west-range-annotation-filters-append=k=v=admissionControl("a", "active", "0s")`}, `-kubernetes-east-west-range-annotation-filters-append: no proxy would survive it: filter admissionControl("a", "active", "0s"): the interval "0s" is not above zero; argument 3 (interval) must be at least 1ms`},
		{[]string{"-edit-route="}, "-edit-route: must be /expression/replacement/, not an empty text"},
		{[]string{"-edit-route=/a/b"}, `-edit-route: "/a/b": must be /expression/replacement/; the first character is the separator and must not occur elsewhere`},
		{[]string{"-clone-route=/(/b/"}, "-clone-route: \"/(/b/\": error parsing regexp: missing closing ): `(`"},
		{[]string{"--guard=max-loss=0"}, `--guard: max-loss: "0": must be in (0, 1], e.g. 0.5 or 50%; 1 disables the rule`},
		{[]string{"--guard=max-loss=NaN"}, `--guard: max-loss: "NaN": must be in (0, 1], e.g. 0.5 or 50%; 1 disables the rule`},
		{[]string{"--guard=max-loss=101%"}, `--guard: max-loss: "101%": must be in (0, 1], e.g. 0.5 or 50%; 1 disables the rule`},
		{[]string{"--guard=max-backend-loss=0"}, `--guard: max-backend-loss: "0": must be in (0, 1], e.g. 0.5 or 50%; 1 disables the rule`},
		{[]string{"--guard=window=0"}, `--guard: window: "0": must be a time with its unit, such as 45s, from 1ms to 24h`},
		{[]string{"--guard=hold=0"}, `--guard: hold: "0": must be a time with its unit, such as 45s, from 1ms to 24h`},
		{[]string{"--guard=release=never"}, `--guard: release: "never": must be one of auto, manual`},
		{[]string{"--peers=routesrv-peers"}, `--peers: "http://routesrv-peers": must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on`},
		{[]string{"--peers=http://routesrv-peers/"}, `--peers: "http://routesrv-peers/": must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on`},
		{[]string{"--peers=ftp://a:1"}, `--peers: "ftp://a:1": must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on`},
		{[]string{"--peers=a:1/routes"}, `--peers: "http://a:1/routes": must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on`},
		{[]string{"--peers=http://u:secret@a:1"}, `--peers: "http://u:xxxxx@a:1": must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on`},
		{[]string{"--peers=a:70000"}, `--peers: "http://a:70000": must be HOST:PORT or http(s)://HOST:PORT, with the port that the replicas listen on`},
		{[]string{"--peers=a:b"}, `--peers: must be HOST:PORT or http(s)://HOST:PORT`},
		{[]string{"--guard=hld=1h"}, `--guard: "hld=1h": must be settings with commas between them, NAME=VALUE: max-loss, max-backend-loss, window, hold, release, max-routes, max-bytes`},
		{[]string{"--guard=max-loss=0.4,hold"}, `--guard: "hold": must be hold=DURATION`},
		{[]string{"--guard=max-routes=-1"}, `--guard: max-routes: "-1": must be a whole number from 0 to 2147483647`},
		{[]string{"--guard=max-bytes=2TiB"}, `--guard: max-bytes: "2TiB": must be a number of bytes, plain or as 512MiB, up to 1024GiB`},
		{[]string{"--guard=max-bytes=2048GiB"}, `--guard: max-bytes: "2048GiB": must be a number of bytes, plain or as 512MiB, up to 1024GiB`},
		{[]string{"-address="}, `-address: "": must be HOST:PORT or :PORT`},
		{[]string{"-address=9090"}, `-address: "9090": must be HOST:PORT or :PORT`},
		{[]string{"-support-listener=:99999"}, `-support-listener: ":99999": the port must be from 0 to 65535`},
		{[]string{"-wait-for-healthcheck-interval=45"}, `-wait-for-healthcheck-interval: "45": must be a time with its unit, such as 45s, from 0s to 24h`},
		{[]string{"--enable-tls"}, "--enable-tls: needs -tls-cert and -tls-key"},
		{[]string{"-enable-mtls", "-mtls-authn-ca=a"}, "-enable-mtls: needs -tls-cert and -tls-key"},
		{[]string{"-enable-mtls", "-tls-cert=a", "-tls-key=b"}, "-enable-mtls: needs the authorities for client certificates: -mtls-authn-ca or -mtls-authn-append-ca"},
		{[]string{"-tls-cert=a,b", "-tls-key=c"}, "-tls-key: 1 keys for 2 certificates of -tls-cert: must be one for each"},
		{[]string{"-tls-min-version=2"}, `-tls-min-version: "2": must be 1.0, 1.1, 1.2 or 1.3`},
		{[]string{"-application-log-level=LOUD"}, `-application-log-level: "LOUD": must be TRACE, DEBUG, INFO, WARN, ERROR, FATAL or PANIC`},
		{[]string{"-kubernetes-redis-service-port=0"}, `-kubernetes-redis-service-port: "0": must be a whole number from 1 to 65535`},
		{[]string{"-config-file=gone"}, "-config-file: open gone: no such file"},
		{[]string{"-kubernets", "-address=x", "--no-such", "-tls-min-version", "9"}, "unknown flag -kubernets: did you mean -kubernetes?\nunknown flag -no-such"},
		{[]string{"-address=x", "-tls-min-version", "9"}, `-address: "x": must be HOST:PORT or :PORT` + "\n" + `-tls-min-version: "9": must be 1.0, 1.1, 1.2 or 1.3`},
	} {
		got, _, err := parseArgs(append([]string{"-kubernetes"}, c.args...), options.Env{ReadFile: files(nil)})
		if err == nil || got != nil {
			t.Errorf("%q: got a configuration, want the error %s", c.args, c.want)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.args, err, c.want)
		}
		var e *options.Error
		if !errors.As(err, &e) && !strings.HasPrefix(c.want, "unknown command") && !strings.HasPrefix(c.want, "flag needs") {
			t.Errorf("%q: %T is no *options.Error", c.args, err)
		}
	}
}

// TestErrorsNameFlagAndText covers texts of the route language, whose error texts come from package eskip.
func TestErrorsNameFlagAndText(t *testing.T) {
	for _, name := range []string{
		"kubernetes-east-west-range-predicates", "default-filters-prepend", "default-filters-append", "route-server-filters",
	} {
		_, _, err := parseArgs([]string{"-kubernetes", "-" + name, "a(\"b"}, options.Env{})
		if err == nil || !strings.HasPrefix(err.Error(), "-"+name+": ") || !strings.Contains(err.Error(), `"a(\"b"`) {
			t.Errorf("-%s: %v does not name the flag and the text", name, err)
		}
	}
	for name, text := range map[string]string{
		"kubernetes-annotation-predicates":                     `k=v=A(`,
		"kubernetes-annotation-filters-append":                 `k=v=a(`,
		"kubernetes-east-west-range-annotation-predicates":     `k=v=A(`,
		"kubernetes-east-west-range-annotation-filters-append": `k=v=a(`,
	} {
		_, _, err := parseArgs([]string{"-kubernetes", "-" + name, text}, options.Env{})
		if err == nil || !strings.HasPrefix(err.Error(), "-"+name+": ") || !strings.Contains(err.Error(), text[4:]) {
			t.Errorf("-%s: %v does not name the flag and the text", name, err)
		}
	}
}

// TestRefusedFlagsSayWhatToDoInstead: flags that cannot be ignored, because that would mean another cluster or less protection.
func TestRefusedFlagsSayWhatToDoInstead(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"-kubernetes-status-from-service=ns/svc", "let another controller"},
		{`-route-server-filters=oauthTokeninfoAllScope("uid")`, "NetworkPolicy"},
		{`-route-server-filters=status(200) -> oauthTokenintrospectionAnyClaims("u", "c")`, "-enable-mtls"},
		{`-route-server-filters=secureOauthTokenintrospectionAnyClaims("u", "c")`, "-enable-mtls"},
	} {
		_, _, err := parseArgs([]string{"-kubernetes", c.arg}, options.Env{})
		if err == nil || !strings.Contains(err.Error(), "not supported") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that contains %q", c.arg, err, c.want)
		}
	}
	if _, warnings := parse(t, options.Env{}, "-kubernetes-status-from-service="); len(warnings) != 0 {
		t.Errorf("warnings %q for the default of a refused flag, want none", warnings)
	}
}

// TestWarnings checks the exact text of each, for arguments after -kubernetes.
func TestWarnings(t *testing.T) {
	const noTraces = " has no effect on a route server: it creates no traces; logs and metrics tell how long reads take"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-enable-ratelimits"}, []string{"-enable-ratelimits: has no effect on a route server: set it on the proxies"}},
		{[]string{"-swarm-redis-password", "hunter2", "-enable-swarm=false"}, []string{
			"-swarm-redis-password: has no effect on a route server: a route server is no member of the swarm; it only lists the addresses of services (-kubernetes-redis-service-name, -kubernetes-valkey-service-name)",
			"-enable-swarm: has no effect on a route server: a route server is no member of the swarm; it only lists the addresses of services (-kubernetes-redis-service-name, -kubernetes-valkey-service-name)",
		}},
		{[]string{"-ratelimits=a", "-ratelimits=b"}, []string{"-ratelimits: has no effect on a route server: set it on the proxies"}},
		{[]string{"-opentracing=noop"}, nil},
		{[]string{"-opentracing=lightstep token=secret"}, []string{"-opentracing:" + noTraces}},
		{[]string{"-oauth2-tokeninfo-url=https://t"}, []string{"-oauth2-tokeninfo-url: has no effect on a route server: it would only serve filters that ask a token service, and -route-server-filters refuses those"}},
		{[]string{"-address=:1", "-address=:1"}, nil},
		{[]string{"-address=:1", "-address=:2"}, []string{"-address: given more than once: the last value counts"}},
		{[]string{"-kubernetes-topology-zone=z"}, []string{`-kubernetes-topology-zone: every proxy gets the endpoints of zone "z", wherever it runs: remove the flag and let the proxies of a zone fetch /routes/ZONE`}},
		{[]string{"-kubernetes-in-cluster", "-kubernetes-url=http://h", "-kubernetes-token-file="}, []string{"-kubernetes-url: has no effect with -kubernetes-in-cluster"}},
		{[]string{"--manifests=d", "-kubernetes=false", "-kubernetes-in-cluster"}, []string{
			"-kubernetes: given more than once: the last value counts", "-kubernetes-in-cluster: has no effect with --manifests",
		}},
		{[]string{"--manifests=d", "-kubernetes=false", "--kubernetes-read=watch"}, []string{
			"-kubernetes: given more than once: the last value counts", "--kubernetes-read: has no effect with --manifests",
		}},
		{[]string{"-source-poll-timeout=60000"}, nil},
		{[]string{"-forward-backend-url=fastcgi://10.0.0.1:9000"}, nil},
		{[]string{"-kubernetes-allowed-external-name=x"}, []string{"-kubernetes-allowed-external-name: has no effect without -kubernetes-only-allowed-external-names: every name is allowed"}},
		{[]string{"-tls-cert=c", "-tls-key=k"}, []string{"-tls-cert: the main listener is plain HTTP all the same, as in Skipper's route server: for TLS set --enable-tls, or -enable-mtls to require client certificates, too"}},
		{[]string{"-mtls-authn-ca=a"}, []string{"-mtls-authn-ca: has no effect without -enable-mtls: no client certificate is requested"}},
		{[]string{"-mtls-authn-append-ca"}, []string{"-mtls-authn-append-ca: has no effect without -enable-mtls: no client certificate is requested"}},
		{[]string{"--kubernetes-label-selector=endpointslices:a"}, []string{"--kubernetes-label-selector: of endpointslices has no effect without -enable-kubernetes-endpointslices"}},
		{[]string{"--kubernetes-label-selector=endpoints:a", "-enable-kubernetes-endpointslices"}, []string{"--kubernetes-label-selector: of endpoints has no effect with -enable-kubernetes-endpointslices: use endpointslices"}},
	} {
		_, got := parse(t, options.Env{}, c.args...)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: warnings (-want +got):\n%s", c.args, diff)
		}
	}
}

// TestForeignFlagsNeverRepeatTheirValue: some values are passwords.
func TestForeignFlagsNeverRepeatTheirValue(t *testing.T) {
	const secret = "hunter2"
	for _, f := range ignoredFlags() {
		args := []string{"-" + f.Name, secret}
		if f.Type() == "bool" {
			args = []string{"-" + f.Name}
		}
		_, warnings, err := parseArgs(append(args, "-kubernetes"), options.Env{})
		if f.Refused != (err != nil) || f.Refused == (len(warnings) == 1) {
			t.Errorf("-%s: warnings %q, error %v", f.Name, texts(warnings), err)
		}
		if msg := strings.Join(texts(warnings), "") + errorText(err); strings.Contains(msg, secret) {
			t.Errorf("-%s: %q repeats the value", f.Name, msg)
		}
		if f.Ignored == "" {
			t.Errorf("-%s: no reason", f.Name)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAddressesAreLocalWithManifests: unless they are explicit.
func TestAddressesAreLocalWithManifests(t *testing.T) {
	c, _, err := parseArgs([]string{"--manifests", "a", "--manifests", "b"}, options.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.Address != options.LoopbackAddress || c.Server.SupportAddress != options.LoopbackSupportAddress {
		t.Errorf("listens on %s and %s, want the loopback interface", c.Server.Address, c.Server.SupportAddress)
	}
	if wait := c.Server.WaitForHealthcheckInterval; wait != 0 {
		t.Errorf("it serves for %v after Ctrl-C", wait)
	}
	if diff := cmp.Diff([]string{"a", "b"}, c.Source.Manifests); diff != "" {
		t.Error(diff)
	}
	c, _, err = parseArgs([]string{"--manifests=a", "-address=:9090", "-wait-for-healthcheck-interval=9s"}, options.Env{
		Environ: []string{"ROUTESRV_FLAG_SUPPORT_LISTENER=:9911"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Server.Address != ":9090" || c.Server.SupportAddress != ":9911" {
		t.Errorf("listens on %s and %s, want the explicit addresses", c.Server.Address, c.Server.SupportAddress)
	}
	if wait := c.Server.WaitForHealthcheckInterval; wait != 9*time.Second {
		t.Errorf("it serves for %v after a signal, want what is set", wait)
	}
}

// TestHealthcheckAccessLogFollowsTheLevel: as in the reference.
func TestHealthcheckAccessLogFollowsTheLevel(t *testing.T) {
	for level, want := range map[string]bool{"info": false, "debug": true, "trace": true, "error": false} {
		if c, _ := parse(t, options.Env{}, "-application-log-level="+level); c.Server.Compile.HealthcheckAccessLog != want {
			t.Errorf("%s: %v, want %v", level, c.Server.Compile.HealthcheckAccessLog, want)
		}
	}
}

// TestHelpWins: over all errors.
func TestHelpWins(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"-help"}, {"--help"}, {"-no-such-flag", "-address=9", "-h"}} {
		var out bytes.Buffer
		cmd := &cobra.Command{Use: "routesrv", Long: "Serves."}
		cmd.SetOut(&out)
		if _, _, err := parseWith(cmd, options.RouteServerFlags, args, options.Env{}); err != nil || !strings.HasPrefix(out.String(), "Serves.\n\nUsage:\n  routesrv [flags]\n") {
			t.Errorf("%q: error %v, output %.40q", args, err, out.String())
		}
	}
}

// TestNamesOfLevelsAndVersions: the names of Skipper, in any case and with or without a dot.
func TestNamesOfLevelsAndVersions(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"TRACE": poller.LevelTrace, "debug": slog.LevelDebug, "Info": slog.LevelInfo, "WARN": slog.LevelWarn,
		"WARNING": slog.LevelWarn, "error": slog.LevelError, "FATAL": options.LevelFatal, "PANIC": options.LevelPanic,
	} {
		if c, _ := parse(t, options.Env{}, "-application-log-level", name); c.Log.Level != want {
			t.Errorf("level %s: %v, want %v", name, c.Log.Level, want)
		}
	}
	for name, want := range map[string]uint16{
		"1.0": tls.VersionTLS10, "11": tls.VersionTLS11, "12": tls.VersionTLS12, "1.3": tls.VersionTLS13,
	} {
		if c, _ := parse(t, options.Env{}, "-tls-min-version", name); c.Server.TLS.MinVersion != want {
			t.Errorf("version %s: %x, want %x", name, c.Server.TLS.MinVersion, want)
		}
	}
}
