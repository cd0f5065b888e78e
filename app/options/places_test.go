package options_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
)

// TestPrecedence: command line, environment, file, default.
func TestPrecedence(t *testing.T) {
	env := options.Env{
		Environ: []string{
			"ROUTESRV_FLAG_TIMING=shutdown=2s", "ROUTESRV_FLAG_WAIT_FOR_HEALTHCHECK_INTERVAL=2s",
			"ROUTESRV_FLAG_DEFAULT_FILTERS_APPEND=env1()\nenv2()\n", "PATH=/bin",
		},
		ReadFile: files(map[string]string{"f.yaml": `
timing: shutdown=1s
wait-for-healthcheck-interval: 1s
default-filters-append: [file()]
default-filters-prepend: [file1(), file2() -> file3()]
`}),
	}
	c, warnings := parse(t, env, "-config-file", "f.yaml", "-wait-for-healthcheck-interval=3s")
	for _, v := range []struct{ got, want time.Duration }{
		{c.Server.WaitForHealthcheckInterval, 3 * time.Second},
		{c.Server.ShutdownTimeout, 2 * time.Second},
		{c.Server.Interval, 3 * time.Second},
	} {
		if v.got != v.want {
			t.Errorf("got %v, want %v", v.got, v.want)
		}
	}
	var names []string
	for _, f := range append(c.Server.Compile.DefaultFilters.Prepend, c.Server.Compile.DefaultFilters.Append...) {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "file1 file2 file3 file env1 env2" {
		t.Errorf("default filters %q: lists of several places add up", got)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %q, want none", warnings)
	}
}

// TestListsOfSeveralPlacesAddUp: what a flag that may be repeated says in the file stays in force beside the command line, in the order of the reference.
func TestListsOfSeveralPlacesAddUp(t *testing.T) {
	const content = `
kubernetes-annotation-predicates: ['example.org/zone=internal=ClientIP("10.0.0.0/8")']
kubernetes-annotation-filters-append: ['a=file=f()']
kubernetes-east-west-range-annotation-predicates: ['a=file=P()']
kubernetes-east-west-range-annotation-filters-append: ['a=file=f()']
default-filters-prepend: ['f1()', 'f2()']
default-filters-append: f()
edit-route: ['/b/c/']
clone-route: ['/b/c/']
kubernetes-allowed-external-name: {names: ['^file$']}
kubernetes-only-allowed-external-names: true
guard: max-loss=0.25,hold=3h
kubernetes-label-selector: ["ingresses:team=a"]
`
	c, warnings := parse(t, options.Env{
		ReadFile: files(map[string]string{"f": content}), Environ: []string{"ROUTESRV_FLAG_DEFAULT_FILTERS_PREPEND=e()"},
	}, "-config-file=f", "-kubernetes-annotation-predicates=example.org/team=x=Weight(5)", "-kubernetes-annotation-filters-append=a=args=g()",
		"-kubernetes-east-west-range-annotation-predicates=a=args=Q()", "-kubernetes-east-west-range-annotation-filters-append=a=args=g()",
		"-default-filters-prepend=a1()", "-default-filters-append=g()", "-edit-route=/a/b/", "-clone-route=/a/b/",
		"-kubernetes-allowed-external-name=^args$", "--guard=hold=2h", "--kubernetes-label-selector=services:team=b")
	o := c.Server.Compile
	var got []string
	for _, list := range [][]rules.AnnotationPredicates{o.AnnotationPredicates, o.EastWestRangeAnnotationPredicates} {
		for _, a := range list {
			got = append(got, a.Key+"="+a.Value+"="+eskip.String(&eskip.Route{Predicates: a.Predicates, BackendType: eskip.ShuntBackend}))
		}
	}
	for _, list := range [][]rules.AnnotationFilters{o.AnnotationFiltersAppend, o.EastWestRangeAnnotationFilters} {
		for _, a := range list {
			got = append(got, a.Key+"="+a.Value+"="+a.Filters[0].String())
		}
	}
	for _, f := range slices.Concat(o.DefaultFilters.Prepend, o.DefaultFilters.Append) {
		got = append(got, f.String())
	}
	for _, rx := range o.AllowedExternalNames {
		got = append(got, rx.String())
	}
	want := []string{
		`example.org/zone=internal=ClientIP("10.0.0.0/8") -> <shunt>`, "example.org/team=x=Weight(5) -> <shunt>", "a=file=P() -> <shunt>", "a=args=Q() -> <shunt>",
		"a=file=f()", "a=args=g()", "a=file=f()", "a=args=g()", "f1()", "f2()", "e()", "a1()", "f()", "g()", "^args$", "^file$", "^args$",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	edited := []*eskip.Route{{Id: "r", Filters: []*eskip.Filter{{Name: "a"}}, BackendType: eskip.ShuntBackend}}
	for _, e := range o.EditRoutes {
		edited = e.Do(edited)
	}
	if f := edited[0].Filters[0].Name; f != "c" || len(o.EditRoutes) != 3 || len(o.CloneRoutes) != 3 {
		t.Errorf("%d edit rules make %s of a filter, %d clone rules", len(o.EditRoutes), f, len(o.CloneRoutes))
	}
	if c.Server.Guard.MaxLoss != 0.25 || c.Server.Guard.Hold != 2*time.Hour {
		t.Errorf("the guard has %+v", c.Server.Guard)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %q", warnings)
	}
	// The reference counts them twice here, and refuses annotations.
	c, _ = parse(t, options.Env{ReadFile: files(map[string]string{"f": "kubernetes-https-redirect: false"})}, "-config-file=f",
		`-default-filters-append=setResponseHeader("A", "b")`, "-kubernetes-annotation-predicates=a=b=Weight(5)", "-edit-route=/a/b/")
	if len(c.Server.Compile.DefaultFilters.Append) != 1 || len(c.Server.Compile.AnnotationPredicates) != 1 || len(c.Server.Compile.EditRoutes) != 1 {
		t.Errorf("flags of the command line count %+v", c.Server.Compile)
	}
	if _, _, err := parseArgs([]string{"-kubernetes", "-config-file=f", "-kubernetes-annotation-predicates=a=b=Weight(5)"},
		options.Env{ReadFile: files(map[string]string{"f": "kubernetes-annotation-predicates: ['a=b=Weight(6)']"})}); err == nil {
		t.Error("one annotation in both places is accepted")
	}
}

// TestFile covers the forms of a file: values that are not texts, and what is accepted with a warning.
func TestFile(t *testing.T) {
	const content = `
# a comment
kubernetes-in-cluster: yes
kubernetes-healthcheck: off
tls-min-version: 1.3
address: :8080
kubernetes-namespace: &ns "team"
kubernetes-redis-service-namespace: *ns
kubernetes-redis-service-name: redis
kubernetes-east-west-range-domains: [a, b]
guard: max-loss=0.25
edit-route:
- /a/b/
- "#c#d#"
forward-backend-url:
swarm-redis-password: hunter2
open-telemetry: {tracesExporter: otlp}
enable-ratelimits: true
`
	env := options.Env{ReadFile: files(map[string]string{"f.yaml": content})}
	c, warnings := parse(t, env, "-config-file=f.yaml")
	if !c.Source.InCluster || c.Server.Compile.Healthcheck || c.Server.TLS.MinVersion != 0x0304 || c.Server.Address != ":8080" ||
		c.Source.Namespace != "team" || c.Server.Redis.Namespace != "team" || len(c.Server.Compile.EastWestRangeDomains) != 2 ||
		c.Server.Guard.MaxLoss != 0.25 || len(c.Server.Compile.EditRoutes) != 2 {
		t.Errorf("got %+v", c)
	}
	want := []string{
		"f.yaml:15: -forward-backend-url: has no value: the key is ignored",
		"f.yaml:16: -swarm-redis-password: has no effect on a route server: a route server is no member of the swarm; it only lists the addresses of services (-kubernetes-redis-service-name, -kubernetes-valkey-service-name)",
		"f.yaml:17: -open-telemetry: has no effect on a route server: it creates no traces; logs and metrics tell how long reads take",
		"f.yaml:18: -enable-ratelimits: has no effect on a route server: set it on the proxies",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// TestAllowedExternalNamesAsMapping: the form that the reference reads.
func TestAllowedExternalNamesAsMapping(t *testing.T) {
	for _, content := range []string{
		"kubernetes-allowed-external-name: [^a$, ^b$]",
		"kubernetes-allowed-external-name: {x: [^a$], y: [^b$]}",
		"kubernetes-allowed-external-names: [^a$, ^b$]",
		"kubernetes-allowed-external-names: {x: [^a$], y: [^b$]}",
		"kubernetes-allowed-external-name:\n- ^a$\n- ^b$\n",
	} {
		env := options.Env{ReadFile: files(map[string]string{"f": content})}
		c, _ := parse(t, env, "-config-file=f")
		if n := c.Server.Compile.AllowedExternalNames; len(n) != 2 || n[0].String() != "^a$" || n[1].String() != "^b$" {
			t.Errorf("%s: got %v", content, n)
		}
	}
}

// TestFileErrors: the errors name file, line and key.
func TestFileErrors(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"address: :1\nadress: :2\n", "f.yaml:2: unknown key adress: did you mean address?"},
		{"-address: :1\n", "f.yaml:1: unknown key -address: did you mean address?"},
		{"zzzzzzzzzz: hunter2\n", "f.yaml:1: unknown key zzzzzzzzzz"},
		{"address: :1\n\naddress: :1\n", `f.yaml: line 3: mapping key "address" already defined at line 1`},
		{"config-file: x\n", "f.yaml:1: key config-file: is for the command line only"},
		{"help: true\n", "f.yaml:1: key help: is for the command line only"},
		{"[1]: 2\n", "f.yaml: line 1: cannot unmarshal !!seq into string"},
		{"- address\n", "f.yaml: line 1: cannot unmarshal !!"},
		{"text", "f.yaml: line 1: cannot unmarshal !!"},
		{"address: :1\n---\naddress: :2\n", "f.yaml: a second document: must be one"},
		{"\naddress: [a]\n", "f.yaml:2: -address: must be one value (HOST:PORT), not a list or a mapping"},
		{"\nedit-route: {a: b}\n", "f.yaml:2: -edit-route: line 2: cannot unmarshal !!map into []string"},
		{"\nedit-route:\n- /a/b/\n- [x]\n", "f.yaml:3: -edit-route: line 4: cannot unmarshal !!seq into string"},
		{"\ntls-cert: ['a,b']\n", `f.yaml:2: -tls-cert: "a,b": an element of a list cannot have a comma`},
		{"kubernetes-allowed-external-name: {a: b}\n", "f.yaml:1: -kubernetes-allowed-external-name: line 1: cannot unmarshal !!str"},
		{"kubernetes-status-from-service: [a]\n", "f.yaml:1: -kubernetes-status-from-service: not supported"},
		{"\n\nkubernetes-path-mode: x\n", "f.yaml:3: -kubernetes-path-mode: invalid path mode string: x"},
		{"wait-for-healthcheck-interval: 45\n", `f.yaml:1: -wait-for-healthcheck-interval: "45": must be a time with its unit`},
		{"enable-profile: 'yes'\n", `f.yaml:1: -enable-profile: "yes": must be true or false`},
		{"address: :1\n  x: [\n", "f.yaml: yaml: line 2: "},
		{"address: *gone\n", "f.yaml: yaml: unknown anchor 'gone' referenced"},
	} {
		env := options.Env{ReadFile: files(map[string]string{"f.yaml": c.content})}
		_, _, err := parseArgs([]string{"-kubernetes", "-config-file=f.yaml"}, env)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.60q:\n got %v\nwant %s", c.content, err, c.want)
		}
	}
	if _, warnings := parse(t, options.Env{ReadFile: files(map[string]string{"f": "# none\n"})}, "-config-file=f"); len(warnings) != 0 {
		t.Errorf("empty file: warnings %q", warnings)
	}
}

// TestEnvironment: unknown names are errors, except those that Kubernetes sets for services.
func TestEnvironment(t *testing.T) {
	_, warnings := parse(t, options.Env{Environ: []string{
		"ROUTESRV_SERVICE_HOST=10.0.0.1", "ROUTESRV_PORT=tcp://10.0.0.1:80", "ROUTESRV_ADDRESS=x",
		"ROUTESRV_FLAG_SERVICE_HOST=10.0.0.1", "ROUTESRV_FLAG_SERVICE_PORT_HTTP=80", "ROUTESRV_FLAG_PORT=tcp://10.0.0.1:80",
		"ROUTESRV_FLAG_A_PORT_80_TCP_ADDR=10.0.0.1", "ROUTESRV_FLAG_ENABLE_RATELIMITS=true", "KUBECONFIG=/home/x",
	}})
	want := []string{
		"ROUTESRV_FLAG_ENABLE_RATELIMITS: -enable-ratelimits: has no effect on a route server: set it on the proxies",
		"KUBECONFIG is set but not read: the API is expected at http://localhost:8001; for a kubeconfig use --kubeconfig",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	for variable, want := range map[string]string{
		"ROUTESRV_FLAG_ADRESS=secret":        "ROUTESRV_FLAG_ADRESS: unknown flag -adress: did you mean -address?",
		"ROUTESRV_FLAG_HELP=true":            "ROUTESRV_FLAG_HELP: unknown flag -help",
		"ROUTESRV_FLAG_ADDRESS=x":            `ROUTESRV_FLAG_ADDRESS: -address: "x": must be HOST:PORT or :PORT`,
		"ROUTESRV_FLAG_ENABLE_PROFILE=":      `ROUTESRV_FLAG_ENABLE_PROFILE: -enable-profile: "": must be true or false`,
		"ROUTESRV_FLAG_CONFIG_FILE=gone.yml": "ROUTESRV_FLAG_CONFIG_FILE: -config-file: open gone.yml: no such file",
	} {
		_, _, err := parseArgs([]string{"-kubernetes"}, options.Env{Environ: []string{variable}, ReadFile: files(nil)})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", variable, err, want)
		}
	}
}

// TestQueriesIgnoreSettingsOfThePod: they run beside programs whose settings are in the environment of the pod.
func TestQueriesIgnoreSettingsOfThePod(t *testing.T) {
	pod := options.Env{Environ: []string{
		"ROUTESRV_FLAG_NODE_NAME=n", "ROUTESRV_FLAG_UPSTREAM=http://a", "ROUTESRV_SERVICE_HOST=10.0.0.1", "ROUTESRV_PORT=tcp://10.0.0.1:80", "ROUTESRV_NAMESPACE=shop",
	}}
	declare := func(cmd *cobra.Command, c *[2]string) *options.Flags {
		f := options.New(cmd)
		f.CommandGroup("Flags")
		f.Add("--port", options.Text("PORT", &c[0], "1"), "Port.")
		f.Add("-n,--namespace", options.Text("NAME", &c[1], ""), "Namespace.")
		return f
	}
	c, warnings, err := parseWith(&cobra.Command{Use: "get"}, declare, nil, pod)
	if err != nil || len(warnings) > 0 || *c != [2]string{"1", "shop"} {
		t.Errorf("%v, warnings %v, error %v", c, warnings, err)
	}
	if c, _, err = parseWith(&cobra.Command{Use: "get"}, declare, []string{"-ncart"}, pod); err != nil || c[1] != "cart" {
		t.Errorf("%v, %v", c, err)
	}
}

func parseCompile(args []string, env options.Env) (*options.RouteServer, []*options.Error, error) {
	return parseWith(&cobra.Command{Use: "compile", Args: cobra.ArbitraryArgs}, options.CompileFlags, args, env)
}

// TestCompileTakesPaths: paths in place of a cluster, otherwise the flags of the server.
func TestCompileTakesPaths(t *testing.T) {
	c, warnings, err := parseCompile([]string{"a", "-kubernetes", "-kubernetes-path-mode=path-prefix", "--", "-b"}, options.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "-b"}, c.Source.Manifests); diff != "" || c.Source.Kubernetes {
		t.Errorf("source %+v, want the manifests a and -b only", c.Source)
	}
	if got := texts(warnings); len(got) != 1 || got[0] != "-kubernetes: has no effect: the manifests are read" {
		t.Errorf("warnings %q", got)
	}
	if c, _, err := parseCompile([]string{"-kubernetes"}, options.Env{}); err != nil || !c.Source.Kubernetes {
		t.Errorf("from a cluster: %v", err)
	}
	_, _, err = parseCompile(nil, options.Env{})
	if want := "-kubernetes flag required: set -kubernetes to read the objects from an API, or name files or folders to " +
		"read them from files"; err == nil || err.Error() != want {
		t.Errorf("without a source: %v, want %s", err, want)
	}
}
