package compile_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

var update = flag.Bool("update", false, "rewrite the golden cases")

// goldenCase is one file of testdata: a comment that explains the case, options, objects, and the expected results.
type goldenCase struct {
	path     string
	archive  *txtar.Archive
	options  rules.Options
	snapshot *kube.Snapshot
}

func goldenCases(t testing.TB) []goldenCase {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	cases := make([]goldenCase, len(paths))
	for i, path := range paths {
		cases[i] = readGoldenCase(t, path)
	}
	return cases
}

func readGoldenCase(t testing.TB, path string) goldenCase {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := goldenCase{path: path, archive: archive}
	if c.options, err = parseOptions(c.file("options.yaml")); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if c.snapshot, err = parseCluster(c.file("cluster.yaml")); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	c.snapshot.DefaultFilters = c.defaultFilters()
	return c
}

func (c *goldenCase) file(name string) []byte {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

func (c *goldenCase) set(name, data string) {
	for i, f := range c.archive.Files {
		if f.Name == name {
			c.archive.Files[i].Data = []byte(data)
			return
		}
	}
	c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

// defaultFilters returns the files filters/SERVICE.NAMESPACE of the case.
func (c *goldenCase) defaultFilters() *kube.DefaultFilters {
	var d *kube.DefaultFilters
	for _, f := range c.archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "filters/"); ok {
			service, namespace, _ := strings.Cut(name, ".")
			if d == nil {
				d = &kube.DefaultFilters{Texts: map[kube.ServiceKey]string{}}
			}
			d.Texts[kube.ServiceKey{Namespace: namespace, Name: service}] = string(f.Data)
		}
	}
	return d
}

func routesText(r *compile.Result) string {
	var b strings.Builder
	for route := range r.Routes.All() {
		b.WriteString(route.Text + "\n")
	}
	return b.String()
}

func problemsText(r *compile.Result) string {
	var b strings.Builder
	for _, p := range r.Problems {
		b.WriteString(strings.ReplaceAll(p.String(), "\n", "\n\t") + "\n")
	}
	return b.String()
}

func mustCompiler(t testing.TB, o rules.Options) *compile.Compiler {
	t.Helper()
	c, err := compile.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGoldenCases(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(strings.TrimSuffix(filepath.Base(c.path), ".txtar"), func(t *testing.T) {
			result := mustCompiler(t, c.options).Compile(c.snapshot)
			routes, problems := routesText(result), problemsText(result)
			if *update {
				c.set("want.eskip", routes)
				c.set("want.problems", problems)
				if err := os.WriteFile(c.path, txtar.Format(c.archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(c.file("want.eskip")), routes); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(string(c.file("want.problems")), problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if _, err := eskip.Parse(routes); err != nil {
				t.Errorf("the table does not parse: %v", err)
			}
			if again := mustCompiler(t, c.options).Compile(c.snapshot); routesText(again) != routes {
				t.Error("a second compilation gives other bytes")
			}
		})
	}
}

// TestGoldenCasesHaveAReason: every case has a comment that explains it.
func TestGoldenCasesHaveAReason(t *testing.T) {
	for _, c := range goldenCases(t) {
		if len(bytes.TrimSpace(c.archive.Comment)) == 0 {
			t.Errorf("%s: no comment", c.path)
		}
	}
}

// Options that would break every proxy are rejected at once, so the table that is already published stays.
func TestOptionsThatNoProxySurvivesAreRefused(t *testing.T) {
	bad := eskip.MustParseFilters(`admissionControl("a", "active", "0s", 5, 10, 0.95, 0.9, 0.5)`)
	for option, o := range map[string]rules.Options{
		"default filters to prepend":     {DefaultFilters: &eskip.DefaultFilters{Prepend: bad}},
		"default filters to append":      {DefaultFilters: &eskip.DefaultFilters{Append: bad}},
		"filters for the annotation k=v": {AnnotationFiltersAppend: []rules.AnnotationFilters{{Key: "k", Value: "v", Filters: bad}}},
		"filters for the annotation x=y": {EastWestRangeAnnotationFilters: []rules.AnnotationFilters{{Key: "x", Value: "y", Filters: bad}}},
	} {
		if _, err := compile.New(o); err == nil || !strings.Contains(err.Error(), option+": no proxy would survive it: ") {
			t.Errorf("%s: got %v", option, err)
		}
	}
}

// A name that stands for no mode is rejected at once, and not only when the first object needs the mode.
func TestOptionsWithoutANameAreRefused(t *testing.T) {
	for _, o := range []rules.Options{{PathMode: "path"}, {TrafficAlgorithm: "traffic"}} {
		if _, err := compile.New(o); err == nil {
			t.Errorf("%q and %q are accepted", o.PathMode, o.TrafficAlgorithm)
		}
	}
	for _, mode := range []rules.PathMode{rules.PathModeKubernetesIngress, rules.PathModePathRegexp, rules.PathModePathPrefix} {
		if back, err := rules.ParsePathMode(string(mode)); err != nil || back != mode {
			t.Errorf("path mode %q is read as %q, error %v", mode, back, err)
		}
	}
	for _, a := range []rules.TrafficAlgorithm{rules.TrafficPredicate, rules.TrafficSegmentPredicate} {
		if back, err := rules.ParseTrafficAlgorithm(string(a)); err != nil || back != a {
			t.Errorf("traffic algorithm %q is read as %q, error %v", a, back, err)
		}
	}
}

// TestGoldenTablesAreReadAsTheyAre: a data plane keeps the bytes of every table here, and derives the same hosts and zones.
func TestGoldenTablesAreReadAsTheyAre(t *testing.T) {
	for _, c := range goldenCases(t) {
		checkTable(t, mustCompiler(t, c.options).Compile(c.snapshot))
	}
}
