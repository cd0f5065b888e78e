package eskip_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
)

func TestDefaultFiltersSurroundTheFiltersOfAllRoutes(t *testing.T) {
	routes := eskip.MustParse("a: * -> f() -> <shunt>; b: * -> <forward>")
	before := eskip.String(routes...)
	df := &eskip.DefaultFilters{Prepend: eskip.MustParseFilters("p() -> q()"), Append: eskip.MustParseFilters("z()")}
	got := df.Do(routes)
	want := "a: * -> p() -> q() -> f() -> z() -> <shunt>;\nb: * -> p() -> q() -> z() -> <forward>;"
	if s := eskip.String(got...); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	_ = append(got[0].Filters[:3], eskip.MustParseFilters("y()")...)
	if s := eskip.String(routes...); s != before {
		t.Errorf("the originals changed to %s", s)
	}
	if s := eskip.String(got[1]); s != "b: * -> p() -> q() -> z() -> <forward>;" {
		t.Errorf("routes share a filter slice: %s", s)
	}
}

func TestNoDefaultFiltersChangeNothing(t *testing.T) {
	routes := eskip.MustParse("a: * -> f() -> <shunt>")
	if got := new(eskip.DefaultFilters).Do(routes); &got[0] != &routes[0] {
		t.Error("the result is not the list itself")
	}
}

func TestEditorReplacesWhatMatches(t *testing.T) {
	for _, c := range []struct{ reg, repl, text, want string }{
		{`Host[(](.*)[)]`, `HostAny($1)`, `z: Z() && Host(/^(a[.]b\/x)$/) && Path("/p") -> f() -> <shunt>`,
			`z: HostAny("^(a[.]b/x)$") && Path("/p") && Z() -> f() -> <shunt>;`},
		{`^f[(](.*)[)]$`, `g($1, "x")`, `z: B() && A() -> f(1) -> h() -> f(2) -> <shunt>`,
			`z: A() && B() -> g(1, "x") -> h() -> g(2, "x") -> <shunt>;`},
		// only the first of several counts, and nothing removes the item
		{`^A[(][)]$`, `X() && Y()`, `z: A() && B() -> <shunt>`, `z: X() && B() -> <shunt>;`},
		{`^f[(][)]$`, `x() -> y()`, `z: * -> f() -> <shunt>`, `z: * -> x() -> <shunt>;`},
		{`^A[(][)]$`, ``, `z: A() && B() -> <shunt>`, `z: B() -> <shunt>;`},
		{`^A[(][)]$`, `*`, `z: A() -> <shunt>`, `z: * -> <shunt>;`},
		{`^A[(][)]$`, `// gone`, `z: A() -> <shunt>`, `z: * -> <shunt>;`},
		{`^f[(][)]$`, ``, `z: * -> f() -> <shunt>`, `z: * -> <shunt>;`},
		// no match
		{`Nothing`, `X()`, `z: B() && Path("/") -> <shunt>`, `z: Path("/") && B() -> <shunt>;`},
		// the id is not edited
		{`z`, `y`, `z: * -> <shunt>`, `z: * -> <shunt>;`},
	} {
		routes := eskip.MustParse(c.text)
		original := routes[0]
		before := original.String()
		got := eskip.NewEditor(regexp.MustCompile(c.reg), c.repl).Do(routes)
		if s := eskip.String(got...); s != c.want {
			t.Errorf("%s to %s: got %s, want %s", c.reg, c.repl, s, c.want)
		}
		if &got[0] != &routes[0] {
			t.Errorf("%s to %s: the result is not the list itself", c.reg, c.repl)
		}
		if s := original.String(); s != before {
			t.Errorf("%s to %s: the original changed from %s to %s", c.reg, c.repl, before, s)
		}
	}
}

func TestEditorKeepsTheFormOfRoutesWithoutMatch(t *testing.T) {
	routes := eskip.MustParse(`a: Path("/a") -> <shunt>; b: Host(/b/) -> <shunt>`)
	a := routes[0]
	got := eskip.NewEditor(regexp.MustCompile(`Host[(](.*)[)]`), `HostAny($1)`).Do(routes)
	if got[0] != a || got[0].Path != "/a" {
		t.Errorf("the route without match was replaced by %+v", got[0])
	}
	if want := (&eskip.Route{
		Id: "b", BackendType: eskip.ShuntBackend, Predicates: []*eskip.Predicate{{Name: "HostAny", Args: []interface{}{"b"}}},
	}); !reflect.DeepEqual(got[1], want) {
		t.Errorf("got %+v, want the canonical %+v", got[1], want)
	}
}

func TestEditorKeepsItemsThatDoNotParse(t *testing.T) {
	routes := eskip.MustParse("a: A() && B() -> f() -> g() -> <shunt>")
	got, errs := eskip.NewEditor(regexp.MustCompile(`^[Af][(][)]$`), `broken(`).DoWithErrors(routes)
	if s, want := eskip.String(got...), "a: A() && B() -> f() -> g() -> <shunt>;"; s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	want := []string{
		`parse predicate: parse failed after token (, position 7: syntax error, after A() of route "a" was edited`,
		`parse filter: parse failed after token (, position 7: syntax error, after f() of route "a" was edited`,
	}
	if len(errs) != len(want) || errs[0].Error() != want[0] || errs[1].Error() != want[1] {
		t.Errorf("got errors %q, want %q", errs, want)
	}
}

// An item that does not parse stays even if another item of the route is edited.
func TestEditorKeepsItemsThatDoNotParseBesideOthers(t *testing.T) {
	routes := eskip.MustParse(`a: P("x(") && P("Q()") -> p("g()") -> p("y(") -> <shunt>`)
	got, errs := eskip.NewEditor(regexp.MustCompile(`^[Pp][(]"(.*)"[)]$`), `$1`).DoWithErrors(routes)
	if s, want := eskip.String(got...), `a: P("x(") && Q() -> g() -> p("y(") -> <shunt>;`; s != want || len(errs) != 2 {
		t.Errorf("got %s and %d errors, want %s and 2", s, len(errs), want)
	}
}

func TestWithoutRegexpNothingIsEditedOrCloned(t *testing.T) {
	routes := eskip.MustParse("a: A() -> <shunt>")
	if got := eskip.NewEditor(nil, "x").Do(routes); &got[0] != &routes[0] || got[0].Predicates[0].Name != "A" {
		t.Errorf("edited: %s", got)
	}
	if got := eskip.NewClone(nil, "x").Do(routes); &got[0] != &routes[0] || len(got) != 1 {
		t.Errorf("cloned: %s", got)
	}
}

func TestCloneAddsEditedRoutes(t *testing.T) {
	routes := eskip.MustParse(`a: Path("/a") -> <shunt>; b: Host(/b/) -> f() -> <random, "http://2", "http://1">`)
	before := eskip.String(routes...)
	got := eskip.NewClone(regexp.MustCompile(`Host[(](.*)[)]`), `HostAny($1)`).Do(routes)
	want := before + "\n" + `clone_b: HostAny("b") -> f() -> <random, "http://1", "http://2">;`
	if s := eskip.String(got...); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got[0] != routes[0] || got[1] != routes[1] || eskip.String(routes...) != before {
		t.Error("the originals are not the same")
	}
	got[2].Filters[0] = nil
	if routes[1].Filters[0] == nil {
		t.Error("the clone shares its filter slice with the original")
	}
}

func TestCloneReportsItemsThatDoNotParse(t *testing.T) {
	routes := eskip.MustParse("a: A() -> <shunt>")
	got, errs := eskip.NewClone(regexp.MustCompile(`A`), `-`).DoWithErrors(routes)
	if len(got) != 1 || len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), `parse predicate: parse failed`) {
		t.Errorf("got %s and errors %q", got, errs)
	}
}

func TestForwardPreProcessorGivesForwardRoutesAnAddress(t *testing.T) {
	routes := eskip.MustParse(`a: Path("/a") -> f() -> <forward>; b: * -> f() -> <shunt>`)
	got := eskip.ForwardPreProcessor("http://x").Do(routes)
	if want := "a: Path(\"/a\") -> \"http://x\";\nb: * -> f() -> <shunt>;"; eskip.String(got...) != want {
		t.Errorf("got %s, want %s", eskip.String(got...), want)
	}
	if got[0] != routes[0] {
		t.Error("the route is not changed in place")
	}
}

// All pre-processors can be used through one interface.
var (
	_ preProcessor = (*eskip.DefaultFilters)(nil)
	_ preProcessor = (*eskip.Editor)(nil)
	_ preProcessor = (*eskip.Clone)(nil)
	_ preProcessor = eskip.ForwardPreProcessor("")
)

type preProcessor interface {
	Do([]*eskip.Route) []*eskip.Route
}
