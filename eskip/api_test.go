package eskip_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

// The API is that of github.com/zalando/skipper/eskip: these assignments compile only as long as each identifier has the
// type that programs written for that package expect.
var (
	_ func(string) (eskip.BackendType, error)                     = eskip.BackendTypeFromString
	_ func(*eskip.Route) *eskip.Route                             = eskip.Canonical
	_ func([]*eskip.Route) []*eskip.Route                         = eskip.CanonicalList
	_ func(*eskip.Route) *eskip.Route                             = eskip.Copy
	_ func(*eskip.Filter) *eskip.Filter                           = eskip.CopyFilter
	_ func([]*eskip.Filter) []*eskip.Filter                       = eskip.CopyFilters
	_ func(*eskip.Predicate) *eskip.Predicate                     = eskip.CopyPredicate
	_ func([]*eskip.Predicate) []*eskip.Predicate                 = eskip.CopyPredicates
	_ func([]*eskip.Route) []*eskip.Route                         = eskip.CopyRoutes
	_ func(...*eskip.Route) bool                                  = eskip.Eq
	_ func(...[]*eskip.Route) bool                                = eskip.EqLists
	_ func(io.Writer, eskip.PrettyPrintInfo, ...*eskip.Route)     = eskip.Fprint
	_ func(string) string                                         = eskip.GenerateIfNeeded
	_ func([]*eskip.LBEndpoint) []string                          = eskip.LBEndpointString
	_ func(string) []*eskip.Route                                 = eskip.MustParse
	_ func(string) []*eskip.Filter                                = eskip.MustParseFilters
	_ func(string) []*eskip.Predicate                             = eskip.MustParsePredicates
	_ func(*regexp.Regexp, string) *eskip.Clone                   = eskip.NewClone
	_ func(*regexp.Regexp, string) *eskip.Editor                  = eskip.NewEditor
	_ func([]string) []*eskip.LBEndpoint                          = eskip.NewLBEndpoints
	_ func(string) *eskip.Template                                = eskip.NewTemplate
	_ func(string) ([]*eskip.Route, error)                        = eskip.Parse
	_ func(string) ([]*eskip.Filter, error)                       = eskip.ParseFilters
	_ func(string) ([]*eskip.Predicate, error)                    = eskip.ParsePredicates
	_ func(eskip.PrettyPrintInfo, ...*eskip.Route) string         = eskip.Print
	_ func(...*eskip.Route) string                                = eskip.String
	_ func([]*eskip.Route) []*eskip.Route                         = eskip.ForwardPreProcessor("").Do
	_ func(eskip.BackendType) string                              = eskip.BackendType.String
	_ func(*eskip.Clone, []*eskip.Route) []*eskip.Route           = (*eskip.Clone).Do
	_ func(*eskip.DefaultFilters, []*eskip.Route) []*eskip.Route  = (*eskip.DefaultFilters).Do
	_ func(*eskip.Editor, []*eskip.Route) []*eskip.Route          = (*eskip.Editor).Do
	_ func(*eskip.Filter) *eskip.Filter                           = (*eskip.Filter).Copy
	_ func(*eskip.Predicate) *eskip.Predicate                     = (*eskip.Predicate).Copy
	_ func(*eskip.Route) *eskip.Route                             = (*eskip.Route).Copy
	_ func(eskip.LBEndpoint) string                               = eskip.LBEndpoint.StringWithZone
	_ func(*eskip.Route, eskip.PrettyPrintInfo) string            = (*eskip.Route).Print
	_ func(*eskip.Template, eskip.TemplateGetter) string          = (*eskip.Template).Apply
	_ func(*eskip.Template, eskip.TemplateContext) (string, bool) = (*eskip.Template).ApplyContext
	_ eskip.RoutePredicate                                        = func(*eskip.Route) bool { return true }
	_ eskip.TemplateGetter                                        = func(string) string { return "" }
	_ fmt.Stringer                                                = (*eskip.Filter)(nil)
	_ fmt.Stringer                                                = (*eskip.Predicate)(nil)
	_ fmt.Stringer                                                = (*eskip.Route)(nil)
	_ fmt.Stringer                                                = eskip.LBEndpoint{}
	_ json.Marshaler                                              = (*eskip.Filter)(nil)
	_ json.Marshaler                                              = (*eskip.Predicate)(nil)
	_ json.Marshaler                                              = (*eskip.Route)(nil)
	_ json.Unmarshaler                                            = (*eskip.Route)(nil)

	_ = interface {
		PathParam(string) string
		Request() *http.Request
		Response() *http.Response
	}(eskip.TemplateContext(nil))

	// Unkeyed, so that the order of the fields is asserted, too.
	_ = eskip.Filter{"", []interface{}{}}
	_ = eskip.Predicate{"", []interface{}{}}
	_ = eskip.LBEndpoint{"", ""}
	_ = eskip.PrettyPrintInfo{true, ""}
	_ = eskip.DefaultFilters{[]*eskip.Filter{}, []*eskip.Filter{}}
	_ = eskip.RouteInfo{eskip.Route{}, error(nil)}
	_ = eskip.Route{
		"", "", []string{}, []string{}, "", map[string]string{}, map[string][]string{}, []*eskip.Predicate{}, []*eskip.Filter{}, false,
		eskip.BackendType(0), "", "", []*eskip.LBEndpoint{}, "", "",
	}

	// Untyped constants: they fit any integer.
	_ int8              = eskip.NetworkBackend + eskip.ShuntBackend + eskip.LoopBackend
	_ eskip.BackendType = eskip.DynamicBackend + eskip.LBBackend + eskip.ForwardBackend
)

func TestFieldNamesAndTags(t *testing.T) {
	for _, c := range []struct {
		v    interface{}
		want string
	}{
		{eskip.Filter{}, `Name json:"name" Args json:"args"`},
		{eskip.Predicate{}, `Name json:"name" Args json:"args"`},
		{eskip.LBEndpoint{}, `Address Zone`},
		{eskip.PrettyPrintInfo{}, `Pretty IndentStr`},
		{eskip.DefaultFilters{}, `Prepend Append`},
		{eskip.RouteInfo{}, `Route ParseError`},
		{eskip.Route{}, `Id Path HostRegexps PathRegexps Method Headers HeaderRegexps Predicates Filters Shunt BackendType Backend` +
			` LBAlgorithm LBEndpoints Name Namespace`},
		{eskip.Clone{}, `reg repl`},
		{eskip.Editor{}, `reg repl`},
	} {
		var got []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(c.v)) {
			if len(f.Index) == 1 {
				got = append(got, strings.TrimSpace(f.Name+" "+string(f.Tag)))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%T has the fields %s, want %s", c.v, s, c.want)
		}
	}
}

// exported lists every exported identifier; additions to the API of the reference are at the end.
var exported = []string{
	"BackendType", "BackendType.String", "BackendTypeFromString", "Canonical", "CanonicalList", "Clone", "Clone.Do", "Copy", "CopyFilter",
	"CopyFilters", "CopyPredicate", "CopyPredicates", "CopyRoutes", "DefaultFilters", "DefaultFilters.Do", "DynamicBackend", "Editor",
	"Editor.Do", "Eq", "EqLists", "Filter", "Filter.Copy", "Filter.MarshalJSON", "Filter.String", "ForwardBackend", "ForwardPreProcessor",
	"Fprint", "GenerateIfNeeded", "LBBackend", "LBEndpoint", "LBEndpoint.String", "LBEndpoint.StringWithZone", "LBEndpointString",
	"LoopBackend", "MustParse", "MustParseFilters", "MustParsePredicates", "NetworkBackend", "NewClone", "NewEditor", "NewLBEndpoints",
	"NewTemplate", "Parse", "ParseFilters", "ParsePredicates", "Predicate", "Predicate.Copy", "Predicate.MarshalJSON", "Predicate.String",
	"PrettyPrintInfo", "Print", "Route", "Route.Copy", "Route.MarshalJSON", "Route.Print", "Route.String", "Route.UnmarshalJSON",
	"RouteInfo", "RoutePredicate", "ShuntBackend", "String", "Template", "Template.Apply", "Template.ApplyContext", "TemplateContext",
	"TemplateGetter", "fwdBackend.Do",

	"AppendExpr", "AppendRoute", "Clone.DoWithErrors", "Editor.DoWithErrors", "Equivalent", "Reader", "Reader.Parse", "ValidID",
}

func TestNothingElseIsExportedAndAllOfItIsDocumented(t *testing.T) {
	var got []string
	for _, file := range sources(t) {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					got = append(got, receiver(d)+d.Name.Name)
					checkDoc(t, d.Name.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							got = append(got, s.Name.Name)
							checkDoc(t, s.Name.Name, d.Doc)
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							if n.IsExported() {
								got = append(got, n.Name)
								if s.Comment == nil {
									t.Errorf("%s has no comment", n.Name)
								}
							}
						}
					}
				}
			}
		}
	}
	want := slices.Sorted(slices.Values(exported))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("exported are\n%q, want\n%q", got, want)
	}
}

// sources returns the files of the package without tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// receiver returns the type of the receiver and a dot, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	x := d.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if id, ok := x.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "" // a generic type, of which none is exported
}

func checkDoc(t *testing.T, name string, doc *ast.CommentGroup) {
	t.Helper()
	if doc == nil || !strings.HasPrefix(doc.Text(), name+" ") {
		t.Errorf("%s has no documentation that starts with its name", name)
	}
}

func TestTheStandardLibraryIsAllThatIsImported(t *testing.T) {
	for _, file := range sources(t) {
		for _, i := range file.Imports {
			if path, _, _ := strings.Cut(i.Path.Value, "/"); strings.Contains(path, ".") {
				t.Errorf("%s is imported", i.Path.Value)
			}
		}
	}
}

func TestBackendTypesHaveNames(t *testing.T) {
	for i, want := range []string{"network", "shunt", "loopback", "dynamic", "lb", "forward"} {
		if got := eskip.BackendType(i).String(); got != want {
			t.Errorf("%d is called %s, want %s", i, got, want)
		}
		if got, err := eskip.BackendTypeFromString(want); err != nil || got != eskip.BackendType(i) {
			t.Errorf("%s is %d, error %v, want %d", want, got, err, i)
		}
	}
	if got, err := eskip.BackendTypeFromString(""); err != nil || got != eskip.NetworkBackend {
		t.Errorf("the empty name is %v, error %v, want network", got, err)
	}
	for _, unknown := range []eskip.BackendType{-1, 6, 100} {
		if got := unknown.String(); got != "unknown" {
			t.Errorf("%d is called %s, want unknown", unknown, got)
		}
	}
	got, err := eskip.BackendTypeFromString("Shunt")
	if got != -1 || err == nil || err.Error() != "unsupported backend type: Shunt" {
		t.Errorf("Shunt is %d, error %v", got, err)
	}
}

func TestGenerateIfNeededGeneratesOnlyIfNeeded(t *testing.T) {
	if got := eskip.GenerateIfNeeded("x-y"); got != "x-y" {
		t.Errorf("got %s, want the id", got)
	}
	form, seen := regexp.MustCompile(`^route[0-9a-zA-Z]{16}$`), map[string]bool{}
	for range 100 {
		id := eskip.GenerateIfNeeded("")
		if !form.MatchString(id) || seen[id] || !eskip.ValidID(id) {
			t.Errorf("got %s, want route and 16 characters that are new each time", id)
		}
		seen[id] = true
	}
}
