package bench

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/kubetest"
	"github.com/routesrv/routesrv/test/scale"
)

// proportional are the functions that look at each object, or each object of one kind, for a change. They only compare or copy
// pointers.
var proportional = map[string]string{
	"kube/difference.go unshared":      "finds what two snapshots do not share",
	"source/cluster/lister.go collect": "copies the pointers of a kind that has changed",
}

// TestChangeVisitsNoMoreInALargerCluster: no statement runs for each object when one of them changes. A binary that counts how often
// each statement runs sees changes in two clusters, one with ten times the objects of the other.
func TestChangeVisitsNoMoreInALargerCluster(t *testing.T) {
	binary := buildCounting(t)
	small, large := visitsOf(t, binary, 0.02), visitsOf(t, binary, 0.2)
	functions := make(map[string]float64)
	for statement, n := range large {
		// The blocks of routes, which a change unpacks, may be longer in one of the clusters.
		if n > 3*small[statement]+500 {
			name := functionAt(t, statement)
			functions[name] = max(functions[name], n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if proportional[name] == "" {
			t.Errorf("%s: a statement runs %.0f times for a change: it must not depend on the number of objects", name, functions[name])
		}
	}
	for name := range proportional {
		if functions[name] == 0 {
			t.Errorf("%s no longer depends on the number of objects: remove it from the list", name)
		}
	}
}

// buildCounting builds a binary that writes how often each statement has run to the folder GOCOVERDIR when it ends.
func buildCounting(t *testing.T) string {
	binary := filepath.Join(t.TempDir(), "routesrv")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/routesrv/routesrv/...", "-o", binary, "../../cmd/routesrv")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

// visitsOf returns how often each statement runs for a change of one Ingress.
func visitsOf(t *testing.T, binary string, factor float64) map[string]float64 {
	const before, changes = 3, 10
	start, all := statements(t, binary, factor, before), statements(t, binary, factor, before+changes)
	for statement := range all {
		all[statement] = (all[statement] - start[statement]) / changes
	}
	return all
}

// statements returns how often each statement runs in a process that sees some changes.
func statements(t *testing.T, binary string, factor float64, changes int) map[string]float64 {
	folder := t.TempDir()
	t.Setenv("GOCOVERDIR", folder)
	api := scale.New(factor).Handler()
	p := startWith(t, binary, "-kubernetes", "-kubernetes-url="+kubetest.Serve(t, api), "--kubernetes-read=watch",
		"-enable-kubernetes-endpointslices", "-kubernetes-https-redirect", "--keep-takeovers=namespace", "--state-dir="+t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	stream := newStreamers(t, ctx, "http://"+p.main+"/routes/watch", p.etag(), 1)
	for n := range changes {
		api.Mutate(n)
		heard(stream)
		time.Sleep(50 * time.Millisecond) // what follows the table: takeovers, history
	}
	cancel()
	stream.done.Wait()
	p.stop()
	profile := filepath.Join(folder, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+folder, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		var statement string
		var size, count float64
		if n, _ := fmt.Sscan(line, &statement, &size, &count); n == 3 {
			counts[statement] = count
		}
	}
	if len(counts) == 0 {
		t.Fatal("nothing was counted")
	}
	return counts
}

// functionAt returns the file and the name of the function with a statement, which is named as in "module/package/file.go:12.3,14.4".
func functionAt(t *testing.T, statement string) string {
	file, place, _ := strings.Cut(strings.TrimPrefix(statement, "github.com/routesrv/routesrv/"), ":")
	line := 0
	if _, err := fmt.Sscanf(place, "%d.", &line); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join("../..", file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && files.Position(f.Pos()).Line <= line && line <= files.Position(f.End()).Line {
			return file + " " + f.Name.Name
		}
	}
	return statement
}
