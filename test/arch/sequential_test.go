package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSequentialPackagesStartNoGoroutine: the Makefile tests them without the race detector.
func TestSequentialPackagesStartNoGoroutine(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, p := range makefileList(t, "SEQUENTIAL") {
		files, err := filepath.Glob(filepath.Join(root, p, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, error %v", p, len(files), err)
		}
		for _, file := range files {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for node := range ast.Preorder(f) {
				if starts(node) {
					t.Errorf("%s: a goroutine begins here: test the package with the race detector", fset.Position(node.Pos()))
				}
			}
		}
	}
}

// makefileList returns the packages of a list in the Makefile.
func makefileList(t *testing.T, name string) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(strings.ReplaceAll(string(makefile), "\\\n", ""), "\n"+name+" = ")
	list, _, _ = strings.Cut(list, "\n")
	packages := strings.Fields(list)
	if !ok || len(packages) < 5 {
		t.Fatalf("the Makefile lists %q", packages)
	}
	return packages
}

// TestRunnersRunPrograms: the Makefile tests them without the race detector, which watches the programs instead.
func TestRunnersRunPrograms(t *testing.T) {
	for _, p := range makefileList(t, "RUNNERS") {
		files, err := filepath.Glob(filepath.Join("..", "..", p, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		runs := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runs = runs || strings.Contains(string(text), "programs.Build(") || strings.Contains(string(text), "programs.Main(") ||
				strings.Contains(string(text), `exec.Command("go", "build"`)
		}
		if !runs {
			t.Errorf("%s runs no program: test the package with the race detector", p)
		}
	}
}

// TestPlantedTestExists: tools/test.sh runs it by its name, and would run nothing if it had another one.
func TestPlantedTestExists(t *testing.T) {
	text, err := os.ReadFile("../robustness/planted_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nfunc TestPlanted(t *testing.T)") {
		t.Error("test/robustness has no test TestPlanted, which tools/test.sh runs")
	}
}

// starts reports whether a node starts goroutines: a go statement, or a call of a method that does.
func starts(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.GoStmt:
		return true
	case *ast.SelectorExpr:
		switch n.Sel.Name {
		case "Go", "Parallel", "RunParallel":
			return true
		}
	}
	return false
}

func TestGoroutinesAreFound(t *testing.T) {
	for text, want := range map[string]bool{"go f()": true, "wg.Go(f)": true, "t.Parallel()": true, "b.RunParallel(f)": true, "f(); g.Run()": false} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a; func h() { "+text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for node := range ast.Preorder(f) {
			found = found || starts(node)
		}
		if found != want {
			t.Errorf("%s: %v", text, found)
		}
	}
}
