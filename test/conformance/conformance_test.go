// Package conformance runs the conformance cases of the Kubernetes data client through the real reading code, against an
// API server in the process.
//
// A case consists of all files of one folder with the same base name: objects, options, API behaviour, default filters, and the
// expected routes, log and error. ROUTESRV_CONFORMANCE_DIR and ROUTESRV_DIFFERENTIAL_DIR name folders of cases, which are
// searched for folders at any depth. Those of testdata/differential* are part of the checkout and always run. The cases of
// matching_test.go are of another kind: tables with requests, from ROUTESRV_MATCHING_DIR or else testdata/matching.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/cluster"
	"github.com/routesrv/routesrv/source/manifests"
	"github.com/routesrv/routesrv/test/kubetest"
)

// deviations are the deliberate improvements that contradict a case, with the reason. For such a case, check replaces the case's
// own expectations. The list must contain nothing else.
var deviations = []struct {
	reason  string
	applies func(kubetest.API) bool
	check   func(*testing.T, error)
}{
	{
		reason:  "complete or nothing: the reference publishes a table without any RouteGroup when discovery fails",
		applies: func(api kubetest.API) bool { return slices.Contains(api.FailOn, kubetest.Discovery) },
		check: func(t *testing.T, err error) {
			var readErr *kube.ReadError
			if !errors.As(err, &readErr) {
				t.Errorf("load: %v, want the error of the discovery request", err)
			}
		},
	},
}

// saner are the cases in which the table is deliberately another one: what replaces a text of the expected table, and why.
// docs/reference/differences.md has a line for each.
var saner = []struct{ cases, reference, ours, reason string }{{
	cases: "east-west-default", reference: `default[.]r[.]1[.]skipper`, ours: `default[.]r-1[.]skipper`,
	reason: "the reference sends requests for the last of several default backends with one id to the first",
}}

// Two options of cases are those of flags that have no effect on a route server. The other expectations of their cases count: the
// option kubernetes-enable-tls changes only the log, and backendNameTracingTag adds one filter to routes of RouteGroups.
var aboutCertificates = regexp.MustCompile(`(?m)^.*(?:tls hosts|TLS certificate|[Ff]ind secret|certificate (?:to|in) registry).*$`)

func isBackendNameTag(f *eskip.Filter) bool {
	return f.Name == "tracingTag" && len(f.Args) == 2 && f.Args[0] == "skipper.backend_name"
}

// The default locations of the cases: beside the checkout.
const (
	conformanceDir  = "../../../shared/conformance/kubernetes"
	differentialDir = "../../../shared/conformance/differential" // and those whose name continues with a number
)

func TestConformance(t *testing.T) {
	dir := cmp.Or(os.Getenv("ROUTESRV_CONFORMANCE_DIR"), conformanceDir)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no conformance cases: %v; set ROUTESRV_CONFORMANCE_DIR", err)
		}
		t.Skipf("no conformance cases: %v; set ROUTESRV_CONFORMANCE_DIR", err)
	}
	runFolder(t, dir)
}

// TestDifferential compiles random clusters that the reference has compiled, too: table and log must equal the reference's.
func TestDifferential(t *testing.T) {
	var archives []string
	for _, folder := range []string{"differential", "differential3", "differential4"} {
		some, err := filepath.Glob("testdata/" + folder + "/*.txtar")
		if err != nil || len(some) == 0 {
			t.Fatalf("no archives of cases in %s: %v", folder, err)
		}
		archives = append(archives, some...)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := txtar.Write(archive, dir); err != nil {
				t.Fatal(err)
			}
			runFolder(t, dir)
		})
	}
}

// TestDifferentialFolder runs more cases of that kind, if there are more than in the checkout.
func TestDifferentialFolder(t *testing.T) {
	given := os.Getenv("ROUTESRV_DIFFERENTIAL_DIR")
	dirs, err := filepath.Glob(cmp.Or(given, differentialDir) + "*")
	if err != nil || len(dirs) == 0 {
		if given != "" {
			t.Fatalf("no cases in ROUTESRV_DIFFERENTIAL_DIR: %s, %v", given, err)
		}
		t.Skip("no cases but those of the checkout, which TestDifferential runs; set ROUTESRV_DIFFERENTIAL_DIR")
	}
	for _, dir := range dirs {
		runFolder(t, dir)
	}
}

func runFolder(t *testing.T, dir string) {
	t.Helper()
	cases := findCases(t, dir)
	if len(cases) == 0 {
		t.Fatalf("%s holds no cases", dir)
	}
	withTLS, withTag := 0, 0
	for _, c := range cases {
		o, err := parseOptions(read(t, c.kube))
		if err != nil {
			t.Fatal(err)
		}
		if o.TLS {
			withTLS++
		}
		if o.BackendNameTracingTag {
			withTag++
		}
		t.Run(c.name, c.run)
	}
	t.Logf("%d cases of %s; not compared: log lines about certificates of %d with kubernetes-enable-tls, the filter of %d with backendNameTracingTag",
		len(cases), dir, withTLS, withTag)
}

// testCase is the set of files with one base name. The path of a missing file is empty.
type testCase struct {
	name                                          string
	yaml, eskip, kube, api, errs, log, filtersDir string
}

// maxDepth ends the search in circular links.
const maxDepth = 16

// findCases searches the folder at any depth. It follows links, because cases share files with them. It does not search folders
// of default filters, which are part of a case.
func findCases(t *testing.T, root string) []*testCase {
	t.Helper()
	byName := map[string]*testCase{}
	var search func(rel string, depth int)
	search = func(rel string, depth int) {
		entries, err := os.ReadDir(filepath.Join(root, rel))
		if err != nil || depth > maxDepth {
			t.Fatalf("search for cases in %q, depth %d: %v", rel, depth, err)
		}
		for _, e := range entries {
			name := filepath.Join(rel, e.Name())
			path, ext := filepath.Join(root, name), filepath.Ext(name)
			info, err := os.Stat(path)
			switch {
			case err != nil:
				t.Fatal(err)
			case info.IsDir() && ext != ".default-filters":
				search(name, depth+1)
			case ext != "":
				addFile(byName, filepath.ToSlash(strings.TrimSuffix(name, ext)), ext, path)
			}
		}
	}
	search(".", 0)
	return slices.SortedFunc(maps.Values(byName), func(a, b *testCase) int { return strings.Compare(a.name, b.name) })
}

// addFile adds a file to the case with its base name. A file with an unknown ending also creates a case.
func addFile(byName map[string]*testCase, name, ext, path string) {
	c := byName[name]
	if c == nil {
		c = &testCase{name: name}
		byName[name] = c
	}
	if field := c.field(ext); field != nil {
		*field = path
	}
}

func (c *testCase) field(ext string) *string {
	switch ext {
	case ".yaml":
		return &c.yaml
	case ".eskip":
		return &c.eskip
	case ".kube":
		return &c.kube
	case ".api":
		return &c.api
	case ".error":
		return &c.errs
	case ".log":
		return &c.log
	case ".default-filters":
		return &c.filtersDir
	}
	return nil
}

func (c *testCase) run(t *testing.T) {
	api, err := kubetest.ParseAPIFile(read(t, c.api))
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseOptions(read(t, c.kube))
	if err != nil {
		t.Fatal(err)
	}
	routes, log, err := c.load(t, api, o)
	for _, d := range deviations {
		if d.applies(api) {
			t.Logf("deliberate deviation: %s", d.reason)
			d.check(t, err)
			return
		}
	}
	if err != nil && c.api == "" {
		t.Fatalf("load: %v", err)
	}
	if c.eskip != "" {
		c.compareRoutes(t, routes, o)
	}
	switch {
	case c.errs != "":
		text := ""
		if err != nil {
			text = err.Error()
		}
		matchLines(t, "error", c.errs, string(read(t, c.errs)), text)
	case err != nil:
		t.Errorf("load: %v", err)
	}
	if c.log != "" {
		want := string(read(t, c.log))
		if o.TLS {
			want = aboutCertificates.ReplaceAllString(want, "")
		}
		matchLines(t, "log", c.log, want, log)
	}
}

// load reads the case through source/cluster and compiles it. The routes come from the printed table.
func (c *testCase) load(t *testing.T, api kubetest.API, o caseOptions) ([]*eskip.Route, string, error) {
	t.Helper()
	server, err := kubetest.New(read(t, c.yaml), api)
	if err != nil {
		t.Fatal(err)
	}
	options, err := o.compile()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := compile.New(options)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	snapshot, err := c.read(t, o, server.Start(t), &log)
	if err != nil {
		return nil, log.String(), fmt.Errorf("failed to load cluster state: %w", err)
	}
	result := compiler.Compile(snapshot)
	var texts []string
	for r := range result.Routes.All() {
		texts = append(texts, r.Text)
	}
	routes, err := eskip.Parse(strings.Join(texts, "\n"))
	if err != nil {
		t.Fatalf("the table does not parse: %v", err)
	}
	return routes, log.String() + logText(result.Problems), nil
}

func (c *testCase) read(t *testing.T, o caseOptions, url string, log io.Writer) (*kube.Snapshot, error) {
	t.Helper()
	var filters func(*kube.Snapshot) *kube.Snapshot
	if c.filtersDir != "" {
		filters = manifests.NewFilterFolder(c.filtersDir, nil).Add
	}
	source, err := cluster.New(cluster.Config{
		URL:            url,
		Filters:        filters,
		Logger:         slog.New(slog.NewTextHandler(log, nil)),
		EndpointSlices: o.EndpointSlices,
		Selection: kube.Selection{Selectors: map[kube.Kind]map[string]string{
			kube.KindIngress:   o.IngressSelector,
			kube.KindService:   o.ServiceSelector,
			kube.KindEndpoints: o.EndpointsSelector,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return source.Read(context.Background(), kube.ReadOptions{})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compareRoutes compares by meaning, without zones of endpoints; order does not matter, repeated ids do.
func (c *testCase) compareRoutes(t *testing.T, got []*eskip.Route, o caseOptions) {
	t.Helper()
	text := string(read(t, c.eskip))
	for _, s := range saner {
		if strings.Contains(t.Name(), "/"+s.cases) && strings.Contains(text, s.reference) {
			t.Logf("deliberate difference: %s", s.reason)
			text = strings.ReplaceAll(text, s.reference, s.ours)
		}
	}
	want, err := eskip.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", c.eskip, err)
	}
	if o.BackendNameTracingTag {
		for _, r := range want {
			r.Filters = slices.DeleteFunc(r.Filters, isBackendNameTag)
		}
	}
	for _, r := range got {
		for i, e := range r.LBEndpoints {
			r.LBEndpoints[i] = &eskip.LBEndpoint{Address: e.Address}
		}
	}
	if !eskip.EqLists(want, got) {
		t.Errorf("routes differ\nwant:\n%s\ngot:\n%s", sortedText(want), sortedText(got))
	}
}

func sortedText(rs []*eskip.Route) string {
	rs = eskip.CanonicalList(rs)
	slices.SortStableFunc(rs, func(a, b *eskip.Route) int { return strings.Compare(a.Id, b.Id) })
	return eskip.String(rs...)
}

// matchLines requires every wanted line of the file, as a regular expression, to match some line of the text.
func matchLines(t *testing.T, what, path, want, text string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for expr := range strings.SplitSeq(want, "\n") {
		rx, err := regexp.Compile(expr)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !slices.ContainsFunc(lines, rx.MatchString) {
			t.Errorf("no line of the %s matches %q:\n%s", what, expr, text)
		}
	}
}

// logText formats problems like the text log of the reference, at level info and above.
func logText(problems []rules.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "time=%q level=%s msg=%s", "2026-01-01T00:00:00Z", p.Severity, quote(p.Message))
		if p.Cause != "" {
			fmt.Fprintf(&b, " error=%s", quote(p.Cause))
		}
		if !p.Plain {
			fmt.Fprintf(&b, " kind=%s name=%s ns=%s", quote(string(p.Owner.Kind)), quote(p.Owner.Name), quote(p.Owner.Namespace))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var bare = regexp.MustCompile(`^[A-Za-z0-9._/@^+-]*$`)

func quote(s string) string {
	if bare.MatchString(s) {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// TestFailingListIsAnError shows that the harness can fail: it also checks that reads are complete or fail.
func TestFailingListIsAnError(t *testing.T) {
	server, err := kubetest.New(nil, kubetest.API{FailOn: []string{"/api/v1/services"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&testCase{}).read(t, caseOptions{}, server.Start(t), io.Discard)
	var readErr *kube.ReadError
	if !errors.As(err, &readErr) || !strings.Contains(readErr.Resource, "services") {
		t.Fatalf("got %v, want a *kube.ReadError that names services", err)
	}
}
