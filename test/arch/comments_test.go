package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// qualified matches pkg.Name and pkg.Type.Member, and member matches Type.Member.
	qualified = regexp.MustCompile(`(?:^|[^\w./-])([a-z][a-z0-9]*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	member    = regexp.MustCompile(`(?:^|[^\w./-])([A-Z]\w*)\.([A-Z]\w*)\b`)
	// bracketed matches the doc link of an unexported member: [explainer.ask].
	bracketed = regexp.MustCompile(`\[([a-zA-Z]\w*)\.([a-zA-Z]\w*)\]`)
	// aPackage matches "package", the name after it and the word before it.
	aPackage = regexp.MustCompile(`(?:\b(\w+) )?\b[Pp]ackage ([a-z][a-z0-9]*(?:/[a-z0-9]+)*)\b`)
)

// articles come before the word "package" where a verb follows, and notPackages are other words that follow it.
var (
	articles    = strings.Fields("a an another any each every its no of one other s that the this whose")
	notPackages = strings.Fields("clause comment in manager may must of that with")
)

// TestCommentsNameWhatExists: packages, exported names and members of types in comments exist.
func TestCommentsNameWhatExists(t *testing.T) {
	known := knownPackages(t)
	err := filepath.WalkDir("../..", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := d.Name(); base == "testdata" || base == "artifacts" || strings.HasPrefix(base, ".") && base != ".." {
			return filepath.SkipDir
		}
		for _, wrong := range known.unknownIn(parsedDir(t, dir)) {
			t.Error(wrong)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnknownNamesInCommentsAreFound(t *testing.T) {
	known := knownPackages(t)
	for comment, want := range map[string]string{
		"See strings.Cut, strings.Builder and strings.Builder.Len.": "",
		"See strings.Cutt.":              "strings.Cutt",
		"See strings.Builder.Size.":      "strings.Builder.Size",
		"See nosuch.Thing.":              "nosuch.Thing",
		"It calls own.Thing.":            "", // a variable of the package
		"Local.Field is set, not zero.":  "",
		"Local.Fields is set, not zero.": "Local.Fields",
		"It calls [Local.run].":          "",
		"It calls [Local.ran].":          "Local.ran",
		"As in package strings.":         "",
		"As in package string.":          "package string",
		"The package is small.":          "",
	} {
		set := token.NewFileSet()
		src := "package a\n\nimport \"strings\"\n\n// " + comment + "\ntype Local struct { Field strings.Builder }\n\nfunc (own Local) run() {}\n"
		file, err := parser.ParseFile(set, "a.go", src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(known.unknownIn(set, map[string]*ast.File{"a.go": file}), " ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", comment, got, want)
		}
	}
}

// catalog finds packages by their names, and by the ends of their paths.
type catalog struct {
	dirs   map[string][]string
	parsed map[string]names
}

// names are the names that a package declares, and the members of its types, as Type.Member. A type with embedded fields has the member "*".
type names map[string]bool

// knownPackages returns all packages of the repository and those that they depend on.
func knownPackages(t *testing.T) *catalog {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-test", "-find=false", "-f", "{{.Name}} {{.ImportPath}} {{.Dir}}", "./...", "./test/...", "./tools/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	known := &catalog{dirs: map[string][]string{"main": nil}, parsed: map[string]names{}}
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 {
			continue // a test binary, or a package as it is for a test
		}
		for path := fields[1]; ; {
			if !slices.Contains(known.dirs[path], fields[2]) {
				known.dirs[path] = append(known.dirs[path], fields[2])
			}
			_, rest, ok := strings.Cut(path, "/")
			if !ok {
				break
			}
			path = rest
		}
		if !slices.Contains(known.dirs[fields[0]], fields[2]) {
			known.dirs[fields[0]] = append(known.dirs[fields[0]], fields[2])
		}
	}
	return known
}

// has reports whether some package of a name declares a text, which is Name or Type.Member.
func (p *catalog) has(pkg, name string) bool {
	return slices.ContainsFunc(p.dirs[pkg], func(dir string) bool {
		if p.parsed[dir] == nil {
			p.parsed[dir] = names{}
			set := token.NewFileSet()
			files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
			for _, file := range files {
				if f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution); err == nil {
					p.parsed[dir].declare(f)
				}
			}
		}
		return p.parsed[dir].has(name)
	})
}

func (n names) has(name string) bool {
	of, _, isMember := strings.Cut(name, ".")
	return n[name] || isMember && n[of+".*"]
}

// declare adds what a file declares.
func (n names) declare(f *ast.File) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				n[d.Name.Name] = true
				continue
			}
			n[typeName(d.Recv.List[0].Type)+"."+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						n[name.Name] = true
					}
				case *ast.TypeSpec:
					n[s.Name.Name] = true
					n.members(s.Name.Name, s.Type)
				}
			}
		}
	}
}

// members adds the members of a type. Those of a type from elsewhere are not known.
func (n names) members(of string, is ast.Expr) {
	var fields *ast.FieldList
	switch is := is.(type) {
	case *ast.StructType:
		fields = is.Fields
	case *ast.InterfaceType:
		fields = is.Methods
	default:
		n[of+".*"] = n[of+".*"] || typeName(is) == ""
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			n[of+"."+name.Name] = true
		}
		if len(f.Names) == 0 {
			n[of+".*"] = true
		}
	}
}

// typeName returns the name of a type of the same package, such as that of a receiver; "" for others.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// parsedDir parses the files of a folder.
func parsedDir(t *testing.T, dir string) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	set, files := token.NewFileSet(), map[string]*ast.File{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if files[path], err = parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	return set, files
}

// unknownIn returns the places of the files of one package whose comments name something that does not exist.
func (p *catalog) unknownIn(set *token.FileSet, files map[string]*ast.File) (wrong []string) {
	own, used := names{}, map[string]bool{}
	imported := map[string]bool{}
	for _, f := range files {
		own.declare(f)
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); i.Name != nil {
				p.dirs[i.Name.Name] = append(p.dirs[i.Name.Name], p.dirs[path]...)
				imported[i.Name.Name] = true
			} else {
				imported[filepath.Base(path)] = true
			}
		}
		for node := range ast.Preorder(f) {
			if ident, ok := node.(*ast.Ident); ok {
				used[ident.Name] = true
			}
		}
	}
	maps.DeleteFunc(used, func(name string, _ bool) bool { return imported[name] }) // the others are variables and the like
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for _, group := range files[path].Comments {
			for _, c := range group.List {
				for _, name := range p.unknown(c.Text, own, used) {
					wrong = append(wrong, set.Position(c.Pos()).String()+": the comment names "+name+", which does not exist")
				}
			}
		}
	}
	return wrong
}

// unknown returns the names in a comment of a package that neither it nor another package has.
func (p *catalog) unknown(comment string, own names, used map[string]bool) (wrong []string) {
	for _, m := range qualified.FindAllStringSubmatch(comment, -1) {
		name := strings.TrimSuffix(m[2]+"."+m[3], ".")
		if !used[m[1]] && (!p.has(m[1], m[2]) || m[3] != "" && !p.has(m[1], name)) {
			wrong = append(wrong, m[1]+"."+name)
		}
	}
	for _, expr := range []*regexp.Regexp{member, bracketed} {
		for _, m := range expr.FindAllStringSubmatch(comment, -1) {
			if own[m[1]] && !own.has(m[1]+"."+m[2]) && !p.has(m[1], m[2]) {
				wrong = append(wrong, m[1]+"."+m[2])
			}
		}
	}
	for _, m := range aPackage.FindAllStringSubmatch(comment, -1) {
		if p.dirs[m[2]] == nil && !slices.Contains(articles, strings.ToLower(m[1])) && !slices.Contains(notPackages, m[2]) {
			wrong = append(wrong, "package "+m[2])
		}
	}
	return wrong
}
