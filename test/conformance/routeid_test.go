package conformance

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/compile"
	"github.com/routesrv/routesrv/internal/routeid"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/test/kubetest"
)

// TestIDsTellWhoOwnsTheRoute checks package routeid against the compiler: for each case of the checkout, every object is compiled
// alone, which shows the owner of each id, and every id of the whole table must be parsed to that owner.
func TestIDsTellWhoOwnsTheRoute(t *testing.T) {
	var seen ownerCounts
	differential, err := filepath.Glob("testdata/differential/*.txtar")
	if err != nil || len(differential) == 0 {
		t.Fatalf("no archives of cases: %v", err)
	}
	for _, path := range differential {
		dir := t.TempDir()
		if err := txtar.Write(readArchive(t, path), dir); err != nil {
			t.Fatal(err)
		}
		for _, c := range findCases(t, dir) {
			compiler, o := newCompiler(t, read(t, c.kube))
			server := newServer(t, read(t, c.yaml))
			snapshot, err := c.read(t, o, server.Start(t), io.Discard)
			if err != nil {
				t.Fatalf("%s %s: %v", path, c.name, err)
			}
			seen.check(t, filepath.Base(path)+" "+c.name, compiler, snapshot)
		}
	}
	golden, err := filepath.Glob("../../compile/testdata/*.txtar")
	if err != nil || len(golden) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	for _, path := range golden {
		files := map[string][]byte{}
		for _, f := range readArchive(t, path).Files {
			files[f.Name] = f.Data
		}
		compiler, _ := newCompiler(t, files["options.yaml"])
		snapshot, err := newServer(t, files["cluster.yaml"]).Read(t.Context(), kube.ReadOptions{})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		seen.check(t, filepath.Base(path), compiler, snapshot)
	}
	t.Logf("%+v", seen)
	if seen.Objects < 1000 || seen.Customs < 10 || seen.Shared < 100 || seen.Generated < 10 || seen.Ambiguous > seen.Objects/5 {
		t.Errorf("the cases show too little: %+v", seen)
	}
}

func readArchive(t *testing.T, path string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func newCompiler(t *testing.T, options []byte) (*compile.Compiler, caseOptions) {
	t.Helper()
	o, err := parseOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	co, err := o.compile()
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := compile.New(co)
	if err != nil {
		t.Fatal(err)
	}
	return compiler, o
}

func newServer(t *testing.T, objects []byte) *kubetest.Server {
	t.Helper()
	server, err := kubetest.New(objects, kubetest.API{})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// ownerCounts says how many ids of each kind were checked.
type ownerCounts struct {
	Objects   int // of one object, whose namespace and name are in the id
	Customs   int // of a custom route of an Ingress, whose name continues with the route's
	Shared    int // catch-alls, east-west companions and clones
	Generated int // of no object
	Ambiguous int // names with "__", or "_" at an end, in the id, or ids that several objects claim
}

// idOwner is an object as it appears in ids.
type idOwner struct {
	kind            routeid.Kind
	namespace, name string
}

func (n *ownerCounts) check(t *testing.T, name string, compiler *compile.Compiler, s *kube.Snapshot) {
	t.Helper()
	alone := func(ings []*kube.Ingress, groups []*kube.RouteGroup) []string {
		one := *s
		one.Ingresses, one.RouteGroups = ings, groups
		return idsOf(compiler.Compile(&one))
	}
	owners := map[string][]idOwner{}
	for _, i := range s.Ingresses {
		for _, id := range alone([]*kube.Ingress{i}, nil) {
			owners[id] = append(owners[id], idOwner{routeid.KindIngress, i.Namespace, i.Name})
		}
	}
	for _, g := range s.RouteGroups {
		for _, id := range alone(nil, []*kube.RouteGroup{g}) {
			owners[id] = append(owners[id], idOwner{routeid.KindRouteGroup, g.Namespace, g.Name})
		}
	}
	nobodys := alone(nil, nil)
	for _, id := range idsOf(compiler.Compile(s)) {
		got := routeid.OwnerOf(id)
		if of := slices.Contains(nobodys, id); of != routeid.Generated(id) {
			t.Errorf("%s: Generated(%q) = %t, want %t", name, id, !of, of)
		} else if of {
			n.Generated++
			if got.Kind != routeid.KindGenerated {
				t.Errorf("%s: OwnerOf(%q) = %+v, want a generated route", name, id, got)
			}
			continue
		}
		if sharedID.MatchString(id) {
			n.Shared++
			if got != (routeid.Owner{Kind: routeid.KindGenerated}) {
				t.Errorf("%s: OwnerOf(%q) = %+v, want a generated route", name, id, got)
			}
			continue
		}
		who := owners[id]
		if len(who) == 0 {
			t.Errorf("%s: no object alone gives the route %q", name, id)
			continue
		}
		if len(who) > 1 || who[0].ambiguous() {
			n.Ambiguous++
			continue
		}
		want := routeid.Owner{Kind: who[0].kind, Namespace: symbol(who[0].namespace), Name: symbol(who[0].name)}
		if want.Kind == routeid.KindIngress && got.Name != want.Name && strings.HasPrefix(got.Name, want.Name+"_") && customEnd.MatchString(got.Name) {
			n.Customs++
			want.Name = got.Name
		} else {
			n.Objects++
		}
		if got != want {
			t.Errorf("%s: OwnerOf(%q) = %+v, want %+v", name, id, got, want)
		}
	}
}

// sharedID matches catch-alls of a host, deprecated east-west companions and clones.
var sharedID = regexp.MustCompile(`^(clone_|kubeew_|kube___catchall__|kube_rg__(internal_)?__.*__catchall__0_0$)`)

// customEnd matches the index at the end of a custom route's name.
var customEnd = regexp.MustCompile(`_\d+$`)

func (o idOwner) ambiguous() bool {
	for _, s := range []string{symbol(o.namespace), symbol(o.name)} {
		if strings.Contains(s, "__") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || s == "" {
			return true
		}
	}
	return strings.HasPrefix(o.namespace, "internal-")
}

// symbol returns a name as it appears in ids.
func symbol(s string) string { return notSymbol.ReplaceAllString(s, "_") }

var notSymbol = regexp.MustCompile(`[^0-9A-Za-z_]`)

func idsOf(r *compile.Result) []string {
	var ids []string
	for route := range r.Routes.All() {
		ids = append(ids, route.ID)
	}
	return ids
}
