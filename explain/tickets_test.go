package explain_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/source/manifests"
)

var update = flag.Bool("update", false, "rewrite what is wanted of the tickets, but for the causes")

func file(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// compiled compiles the cluster of a ticket. The options are fields of rules.Options.
func compiled(t testing.TB, a *txtar.Archive) (*compile.Compiler, *kube.Snapshot) {
	t.Helper()
	var options rules.Options
	if err := yaml.UnmarshalStrict([]byte(file(a, "options.yaml")), &options); err != nil {
		t.Fatal(err)
	}
	source, err := manifests.New(manifests.Config{Paths: []string{"-"}, Stdin: strings.NewReader(file(a, "cluster.yaml"))})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := source.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if edit := file(a, "clone-route"); edit != "" { // an expression and its replacement, which options.yaml cannot express
		from, to, _ := strings.Cut(strings.TrimSpace(edit), "\n")
		options.CloneRoutes = []*eskip.Clone{eskip.NewClone(regexp.MustCompile(from), to)}
	}
	c, err := compile.New(options)
	if err != nil {
		t.Fatal(err)
	}
	c.Compile(snapshot)
	return c, snapshot
}

// TestTickets: each ticket has the text of a user who needs help, a cluster, and a question. The first line of the answer is the
// cause, which is kept in a separate file so that nobody updates it without thinking.
func TestTickets(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d tickets: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			q, err := explain.ParseQuery(strings.Fields(file(a, "query"))...)
			if err != nil {
				t.Fatal(err)
			}
			c, _ := compiled(t, a)
			e := explain.Explain(explain.Input{Result: c.Latest(), Proxy: match.Options{ValidateQuery: true}}, q)
			var text bytes.Buffer
			if err := e.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			first, rest, _ := strings.Cut(text.String(), "\n")
			if cause := strings.TrimSpace(file(a, "cause")); cause != first {
				t.Errorf("the cause is\n%s\nand the first line says\n%s", cause, first)
			}
			if *update {
				a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want.text" })
				a.Files = append(a.Files, txtar.File{Name: "want.text", Data: []byte(rest)})
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(file(a, "want.text"), rest); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if n := strings.Count(text.String(), "\n"); n > 40 {
				t.Errorf("%d lines: more than a screen", n)
			}
			checkJSON(t, e)
		})
	}
}

// checkJSON checks that the JSON is enough to print the text, as routesrv explain does with the answer of a server.
func checkJSON(t *testing.T, e *explain.Explanation) {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), ":null") {
		t.Errorf("a null in %s", data)
	}
	var back explain.Explanation
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	if err := e.WriteText(&want); err != nil {
		t.Fatal(err)
	}
	if err := back.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("the text of what was read back (-want +got):\n%s", diff)
	}
}
