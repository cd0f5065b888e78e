// Package arch checks the dependencies of the architecture: which package may import which.
package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/routesrv/routesrv/"

// allowed lists, for each package of this repository, the packages of the repository that it imports outside of its tests. A
// package that is missing here fails the test: its place in the architecture is a decision.
var allowed = map[string][]string{
	// language
	"eskip": {},

	// data
	"kube":             {},
	"table":            {"eskip"},
	"internal/routeid": {},
	"guard":            {"internal/routeid", "table"},
	"internal/durable": {},
	"internal/series":  {},
	"api":              {"guard", "kube", "table"},
	"catalogue":        {"eskip", "table"},

	// pure: no I/O, no clock, no log
	"compile/rules": {"eskip", "catalogue", "kube", "internal/routeid", "table"},
	"compile":       {"compile/rules", "internal/routeid", "kube", "table"},
	"shadowdiff":    {"internal/series", "eskip", "internal/routeid", "table"},
	"rollout":       {"table"},
	"match":         {"eskip", "catalogue", "table"},

	// answers: pure, too
	"explain": {"compile", "compile/rules", "eskip", "catalogue", "internal/routeid", "kube", "match", "shadowdiff", "table"},

	// serving
	"etagcache": {"internal/series", "table", "api"},

	// publish: the only place that decides which table is served
	"publish": {"internal/series", "api", "compile", "eskip", "guard", "catalogue", "internal/durable", "kube", "table"},

	// fleet: which client holds which table
	"fleet": {"internal/series", "etagcache", "table"},

	"publish/history": {"api", "kube", "publish"},
	// producers hand tables to publish; they do not know each other
	"source/cluster":                 {"internal/series", "internal/durable", "kube", "source/cluster/internal/decode"},
	"source/cluster/internal/decode": {"kube"},
	"source/manifests":               {"internal/durable", "kube"},
	"source/tables":                  {"eskip", "table", "api"},
	"poller":                         {"internal/series", "compile", "compile/rules", "publish", "api", "kube", "table"},
	"dataplane":                      {"internal/series", "etagcache", "fleet", "publish", "guard", "catalogue", "internal/durable", "table", "api"},

	// parts and assembly: join producers into the programs
	"match/report":     {"eskip", "match", "shadowdiff"},
	"explain/takeover": {"compile", "eskip", "internal/routeid", "kube", "match", "shadowdiff", "table"},
	"app/httpserve":    {"internal/series", "api", "publish", "kube", "internal/durable", "shadowdiff", "table"},

	"app/console": {
		"api", "compile/rules", "fleet", "app/httpserve", "kube", "poller", "shadowdiff",
	},

	"app/server": {
		"internal/series", "compile", "compile/rules", "dataplane", "eskip", "etagcache", "explain", "explain/takeover", "fleet", "publish", "publish/history", "catalogue", "internal/durable", "app/trial", "guard", "app/console", "app/httpserve", "api", "kube", "match", "match/report", "poller",
		"source/manifests", "rollout", "shadowdiff", "table",
	},
	"app/events": {"internal/series", "compile/rules", "kube", "poller"},
	"app/webhook": {
		"internal/series", "compile", "compile/rules", "explain", "explain/takeover", "app/httpserve", "guard", "kube", "match", "poller", "publish", "shadowdiff", "table",
	},
	"app/sidecar": {
		"internal/series", "api", "compile/rules", "dataplane", "etagcache", "explain", "fleet", "publish", "guard", "app/httpserve", "internal/durable", "kube", "poller", "rollout",
		"shadowdiff", "table",
	},
	"app/options": {
		"app/httpserve", "app/server", "app/sidecar", "app/trial", "catalogue", "compile/rules", "dataplane", "eskip", "explain/takeover", "guard", "kube", "match", "poller",
		"rollout", "source/cluster",
	},
	"app/program": {"app/events", "app/httpserve", "app/options", "dataplane", "internal/durable", "poller", "shadowdiff", "source/cluster", "source/manifests"},

	// the commands that query running route servers, and the clusters in which the kubectl plugin finds them
	"app/query":   {"api", "app/options"},
	"app/cli":     {"compile", "compile/rules", "explain", "explain/takeover", "fleet", "app/options", "app/program", "app/query", "source/manifests", "source/tables", "api", "kube", "match", "match/report", "shadowdiff", "table"},
	"app/trial":   {"eskip", "api", "publish", "table"},
	"app/forward": {"app/options", "app/query"},

	// binaries
	"cmd/dataplane-client": {"app/cli", "app/httpserve", "app/options", "app/program", "app/query", "app/sidecar"},
	"cmd/kubectl-routesrv": {"app/cli", "app/forward", "app/program"},
	"cmd/routesrv":         {"compile/rules", "app/webhook", "app/cli", "app/options", "app/program", "app/query", "dataplane", "fleet", "app/httpserve", "app/server", "shadowdiff", "table"},
}

// rows are the rows of the picture in ARCHITECTURE.md, from the bottom up. A package imports only packages of lower rows.
var rows = []struct {
	name     string
	packages []string
}{
	{"language", []string{"eskip"}},
	{"data", []string{"kube", "table", "internal/routeid", "internal/durable", "internal/series"}},
	{"words", []string{"guard", "catalogue"}},
	{"documents", []string{"api"}},
	{"rules", []string{"compile/rules"}},
	{"pure", []string{"compile", "match", "rollout", "shadowdiff"}},
	{"answers", []string{"explain", "explain/takeover"}},
	{"serving", []string{"etagcache"}},
	{"seam", []string{"publish", "fleet"}},
	{"producers", []string{
		"source/cluster", "source/manifests", "source/tables", "poller", "dataplane",
	}},
	{"parts", []string{"app/httpserve", "app/events", "app/trial", "match/report", "publish/history"}},
	{"pages", []string{"app/console"}},
	{"assembly", []string{"app/webhook", "app/server", "app/sidecar"}},
	{"flags", []string{"app/options"}},
	{"programs", []string{"app/program", "app/query"}},
	{"clusters", []string{"app/forward"}},
	{"commands", []string{"app/cli"}},
	{"binaries", []string{"cmd/routesrv", "cmd/dataplane-client", "cmd/kubectl-routesrv"}},
}

// cluster is a group of packages that may import each other as allowed says. The picture shows the group.
const cluster = "source/cluster"

// rowOf returns the number of the row of a package, -1 for none.
func rowOf(name string) int {
	if inCluster(name) {
		name = cluster
	}
	for i, r := range rows {
		if slices.Contains(r.packages, name) {
			return i
		}
	}
	return -1
}

func inCluster(name string) bool {
	return name == cluster || strings.HasPrefix(name, cluster+"/")
}

func TestARowImportsLowerRowsOnly(t *testing.T) {
	for name, imports := range allowed {
		row := rowOf(name)
		if row < 0 {
			t.Errorf("%s: give it one row in this test and in the picture of ARCHITECTURE.md", name)
			continue
		}
		for _, i := range imports {
			switch lower := rowOf(i); {
			case inCluster(name) && inCluster(i):
			case lower >= row:
				t.Errorf("%s imports %s, which is not in a lower row", name, i)
			case lower < 0:
				t.Errorf("%s imports %s, which has no row", name, i)
			}
		}
	}
	for _, r := range rows {
		for _, name := range r.packages {
			if _, known := allowed[name]; !known {
				t.Errorf("row %s has %s, which does not exist", r.name, name)
			}
		}
	}
}

// TestPictureIsTrue: the picture in ARCHITECTURE.md has the rows of this test, from the top down, with exactly their packages.
func TestPictureIsTrue(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(text), "```\n")
	picture, _, _ = strings.Cut(picture, "```")
	drawn, row := map[string]string{}, ""
	var order []string
	for line := range strings.Lines(picture) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \n|", r) })
		if len(words) > 0 && line[0] != ' ' {
			row = words[0]
			order = append(order, row)
		}
		if row == "aside" {
			break
		}
		for _, word := range words {
			if _, known := allowed[word]; known {
				if before := drawn[word]; before != "" {
					t.Errorf("%s is drawn in %s and %s", word, before, row)
				}
				drawn[word] = row
			}
		}
	}
	var want []string
	for _, r := range slices.Backward(rows) {
		want = append(want, r.name)
		for _, name := range r.packages {
			if drawn[name] != r.name {
				t.Errorf("%s is drawn in the row %q, want %q", name, drawn[name], r.name)
			}
			delete(drawn, name)
		}
	}
	if want = append(want, "aside"); !slices.Equal(order, want) {
		t.Errorf("rows %q, want %q", order, want)
	}
	for name, row := range drawn {
		t.Errorf("%s is drawn in the row %s, where it is not", name, row)
	}
}

// outside lists packages of others that only the given packages may import. Where two prefixes match, the longer one counts.
var outside = map[string][]string{
	"k8s.io/client-go/":             {"source/cluster", "app/events", "app/query", "app/forward"},
	"k8s.io/apimachinery/pkg/watch": {}, // events are those of source/cluster/internal/decode
	"k8s.io/": {
		"app/webhook", "app/cli", "app/program", "app/query", "app/options", "app/events", "app/forward", "source/cluster",
		"source/cluster/internal/decode",
	},
	"sigs.k8s.io/":                {"source/manifests"},
	"google.golang.org/protobuf/": {"source/cluster/internal/decode"},
	"go.yaml.in/":                 {"app/options"},
	"github.com/klauspost/":       {"dataplane", "etagcache", "source/cluster", "publish/history", "table"},
}

// pure packages do no I/O, use no clock and log nothing.
var pure = []string{
	"eskip", "kube", "table", "guard", "internal/routeid", "api", "catalogue", "compile/rules", "compile", "rollout", "shadowdiff", "match", "explain", "explain/takeover", "source/cluster/internal/decode",
}

// impure are imports that a pure package must not have. net/http is for the template context of eskip only; no pure package may
// use log/slog and os.
var impure = []string{"os", "log", "log/slog", "net/http"}

type listed struct {
	ImportPath string
	GoFiles    []string
	Imports    []string

	TestImports, XTestImports []string
}

// packages lists the packages of the main module. The modules in test and tools may import what they want.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	var list []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			list = append(list, p)
		}
	}
}

// wrong returns why a package must not have an import, or "" if it may.
func wrong(name, imported string) string {
	if own, ok := strings.CutPrefix(imported, module); ok {
		if !slices.Contains(allowed[name], own) {
			return "it is not below it"
		}
		return ""
	}
	if slices.Contains(pure, name) && slices.Contains(impure, imported) && !(name == "eskip" && imported == "net/http") {
		return name + " is pure"
	}
	var rule string
	for prefix := range outside {
		if strings.HasPrefix(imported, prefix) && len(prefix) > len(rule) {
			rule = prefix
		}
	}
	if rule != "" && !slices.Contains(outside[rule], name) {
		return fmt.Sprintf("only %v may", outside[rule])
	}
	return ""
}

func TestArrowsOnlyPointDown(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if _, known := allowed[name]; !known {
			t.Errorf("%s has no place in the architecture: give it one in this test and in ARCHITECTURE.md", name)
			continue
		}
		for _, i := range p.Imports {
			if why := wrong(name, i); why != "" {
				t.Errorf("%s imports %s: %s", name, i, why)
			}
			for prefix := range outside {
				if strings.HasPrefix(i, prefix) {
					used[prefix+" "+name] = true
				}
			}
		}
		for _, own := range allowed[name] {
			if !slices.Contains(p.Imports, module+own) {
				t.Errorf("%s does not import %s: take the right away", name, own)
			}
		}
	}
	for prefix, who := range outside {
		for _, name := range who {
			if !used[prefix+" "+name] {
				t.Errorf("%s does not import %s: take the right away", name, prefix)
			}
		}
	}
}

// TestPackagesSayWhatTheyPromise: each package says whether other modules may import it. Those of app/ assemble programs; that is enough.
func TestPackagesSayWhatTheyPromise(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.Contains("/"+name, "/internal/") || strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "app/") {
			continue
		}
		want := "Other modules should not import it: it may change with every release.\npackage "
		if slices.Contains([]string{"eskip", "table", "dataplane"}, name) {
			want = "Other modules may import it: the exported API is stable within a major version.\npackage "
		}
		if !slices.ContainsFunc(p.GoFiles, func(file string) bool {
			text, err := os.ReadFile(filepath.Join("..", "..", name, file))
			return err == nil && strings.Contains(strings.ReplaceAll(string(text), "\n// ", " "), want) // it may be wrapped
		}) {
			t.Errorf("%s: the comment of the package does not end with %q", name, strings.TrimSuffix(want, "\npackage "))
		}
	}
}

// TestMainModuleNeedsNoFakes: whoever has only the main module can build and run its tests.
func TestMainModuleNeedsNoFakes(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if strings.HasPrefix(i, module+"test/") {
				t.Errorf("a test of %s imports %s: move it to the module test, or bring the few lines that it needs", p.ImportPath, i)
			}
		}
	}
}

func TestPlantedImportsAreFound(t *testing.T) {
	for _, planted := range []struct {
		name, imported string
		found          bool
	}{
		{"app/console", "k8s.io/client-go/rest", true},
		{"app/events", "k8s.io/client-go/rest", false},
		{"app/events", "k8s.io/apimachinery/pkg/watch", true},
		{"publish", "k8s.io/api/core/v1", true},
		{"cmd/routesrv", "github.com/klauspost/compress/zstd", true},
		{"compile", "log/slog", true},
		{"eskip", "net/http", false},
		{"eskip", module + "table", true},
		{"table", module + "eskip", false},
		{"guard", module + "test/kubelet", true},
	} {
		if why := wrong(planted.name, planted.imported); (why != "") != planted.found {
			t.Errorf("%s imports %s: %q", planted.name, planted.imported, why)
		}
	}
}

// TestListenersAreMadeOfEndpoints: whatever a listener answers is in the list from which docs/reference/endpoints.md is generated. A
// separate mux would answer paths that are not documented.
func TestListenersAreMadeOfEndpoints(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name != "app/server" && name != "app/sidecar" && !strings.HasPrefix(name, "cmd/") {
			continue
		}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join("../..", name, file))
			if err != nil {
				t.Fatal(err)
			}
			seen++
			for _, forbidden := range []string{"http.NewServeMux", "http.ServeMux", "http.Handle(", "http.HandleFunc("} {
				if strings.Contains(string(text), forbidden) {
					t.Errorf("%s/%s has %s: list an httpserve.Endpoint instead", name, file, forbidden)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d files were looked at", seen)
	}
}

// maxPackages is how many packages the main module may have: a newcomer should see the whole.
const maxPackages = 45

func TestTheHouseHasFewRooms(t *testing.T) {
	if n := len(allowed); n > maxPackages {
		t.Errorf("%d packages, want at most %d: merge before you add", n, maxPackages)
	}
}

// TestDirectRequirementsAreOneBlock: the first block of each go.mod has what the module itself uses, and the second one the rest.
func TestDirectRequirementsAreOneBlock(t *testing.T) {
	for _, name := range []string{"go.mod", "test/go.mod", "tools/go.mod"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "\nrequire ")[1:]
		if len(blocks) > 2 {
			t.Errorf("%s has %d blocks of requirements", name, len(blocks))
		}
		for i, block := range blocks {
			block, _, _ = strings.Cut(block, "\n)")
			lines := strings.Count(block, "\n")
			if indirect := strings.Count(block, "// indirect"); i == 0 && indirect > 0 || i == 1 && indirect != lines {
				t.Errorf("%s: block %d has %d indirect ones of %d requirements", name, i+1, indirect, lines)
			}
		}
	}
}
