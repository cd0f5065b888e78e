package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// drawnIn are the packages whose files ARCHITECTURE.md draws, in the order of the drawings.
var drawnIn = []string{"compile", "compile/rules"}

// TestCallsBetweenFilesPointDown: a function calls only functions in its own file, in files of its row, and in files of lower rows of the
// drawing.
func TestCallsBetweenFilesPointDown(t *testing.T) {
	drawings := drawnRows(t)
	for i, dir := range drawnIn {
		calls := callsBetweenFiles(t, dir)
		for _, wrong := range upward(drawings[i], calls) {
			t.Errorf("%s: %s", dir, wrong)
		}
		slices.Reverse(drawings[i])
		if len(upward(drawings[i], calls)) == 0 {
			t.Errorf("%s: no call points up in a drawing that is upside down", dir)
		}
	}
}

// listedIn are the packages whose comments list their files, by the file with the comment.
var listedIn = map[string]string{"app/cli": "cli.go", "dataplane": "dataplane.go", "publish": "publish.go"}

// TestCallsPointDownTheListOfFiles: calls point down the list of files in the comment of a package, or stay in a row.
func TestCallsPointDownTheListOfFiles(t *testing.T) {
	for dir, name := range listedIn {
		file, err := parser.ParseFile(token.NewFileSet(), "../../"+dir+"/"+name, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]string
		for line := range strings.Lines(file.Doc.Text()) {
			if listed, ok := strings.CutPrefix(line, "\t"); ok {
				rows = append(rows, regexp.MustCompile(`[a-z_]+\.go\b`).FindAllString(listed, -1))
			}
		}
		if len(rows) < 5 {
			t.Fatalf("%s: rows %v, want a list of files", dir, rows)
		}
		for _, wrong := range upward(rows, callsBetweenFiles(t, dir)) {
			t.Errorf("%s: %s", dir, wrong)
		}
	}
}

// maxPath is how many functions the path of an object may have in ARCHITECTURE.md.
const maxPath = 60

// TestPathOfAnObject: each function on the path exists, and an earlier one uses it, unless it is the first of the path or an entry
// of the standard library.
func TestPathOfAnObject(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "By name, from the bytes")
	_, block, _ = strings.Cut(block, "```\n")
	block, _, _ = strings.Cut(block, "```")
	used := map[string]bool{"attempt": true, "Handler": true}
	bodies := make(map[string]map[string][]*ast.BlockStmt)
	n := 0
	for line := range strings.Lines(block) {
		fields := strings.Fields(line)
		dir := fields[0]
		if bodies[dir] == nil {
			bodies[dir] = functionsOf(t, dir)
		}
		for _, name := range fields[1:] {
			if n++; bodies[dir][name] == nil {
				t.Errorf("%s has no function %s", dir, name)
			}
			if !used[name] {
				t.Errorf("no earlier function uses %s of %s", name, dir)
			}
			for _, body := range bodies[dir][name] {
				ast.Inspect(body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						used[id.Name] = true
					}
					return true
				})
			}
		}
	}
	if n == 0 || n > maxPath {
		t.Errorf("%d functions, must be 1 to %d", n, maxPath)
	}
}

// functionsOf returns the bodies of the functions and methods of a package by name.
func functionsOf(t *testing.T, dir string) map[string][]*ast.BlockStmt {
	t.Helper()
	names, _ := filepath.Glob("../../" + dir + "/*.go")
	bodies := make(map[string][]*ast.BlockStmt)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				bodies[f.Name.Name] = append(bodies[f.Name.Name], f.Body)
			}
		}
	}
	return bodies
}

// upward returns the calls that point up between rows of files, and the files that are in no row.
func upward(rows [][]string, calls map[string]map[string]string) (wrong []string) {
	row := func(file string) int {
		return slices.IndexFunc(rows, func(patterns []string) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, file); return ok })
		})
	}
	for file, called := range calls {
		if row(file) < 0 {
			wrong = append(wrong, file+" is not drawn")
		}
		for other, name := range called {
			if row(other) < row(file) {
				wrong = append(wrong, fmt.Sprintf("%s calls %s, which is in %s, a higher row", file, name, other))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// drawnRows returns the rows of the drawings in the section of ARCHITECTURE.md about the files of compile: the patterns of files in each.
func drawnRows(t *testing.T) (drawings [][][]string) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The files of compile\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for i, block := range strings.Split(section, "```") {
		if i%2 == 0 {
			continue
		}
		var rows [][]string
		for line := range strings.Lines(block) {
			if files := regexp.MustCompile(`[a-z_*]+\.go\b`).FindAllString(line, -1); len(files) > 0 {
				rows = append(rows, files)
			}
		}
		drawings = append(drawings, rows)
	}
	if len(drawings) != len(drawnIn) {
		t.Fatalf("%d drawings, want one for each of %v", len(drawings), drawnIn)
	}
	return drawings
}

// callsBetweenFiles returns for each file of a package the other files whose functions or methods it uses, with the name of one.
func callsBetweenFiles(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	names, _ := filepath.Glob("../../" + dir + "/*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	cfg := types.Config{Importer: importer.ForCompiler(fset, "gc", exported(t, dir))}
	pkg, err := cfg.Check(module+dir, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	fileOf := func(p token.Pos) string { return filepath.Base(fset.Position(p).Filename) }
	calls := make(map[string]map[string]string)
	for _, f := range files {
		calls[fileOf(f.Pos())] = make(map[string]string)
	}
	for ident, used := range info.Uses {
		f, ok := used.(*types.Func)
		if !ok || f.Pkg() != pkg || fileOf(f.Origin().Pos()) == fileOf(ident.Pos()) {
			continue
		}
		calls[fileOf(ident.Pos())][fileOf(f.Origin().Pos())] = f.Name()
	}
	return calls
}

// exported opens what the compiler exports of the packages that a package imports.
func exported(t *testing.T, dir string) func(string) (io.ReadCloser, error) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+dir)
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string)
	for line := range bytes.Lines(out) {
		name, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		exports[name] = file
	}
	return func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) }
}
