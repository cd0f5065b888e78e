package manifests_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/source/manifests"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder writes the files (name, content, name, content ...) into a new folder.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newSource(t *testing.T, cfg manifests.Config) *manifests.Source {
	t.Helper()
	s, err := manifests.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t *testing.T, s *manifests.Source) *kube.Snapshot {
	t.Helper()
	snap, err := s.Read(t.Context(), kube.ReadOptions{})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return snap
}

// readError reads, which has to fail, and returns the error without the folder.
func readError(t *testing.T, s *manifests.Source, dir string) string {
	t.Helper()
	snap, err := s.Read(t.Context(), kube.ReadOptions{})
	if _, ok := errors.AsType[*kube.ReadError](err); !ok || snap != nil {
		t.Fatalf("read gives %v, %v, want a *kube.ReadError", snap, err)
	}
	return strings.ReplaceAll(err.Error(), dir, "DIR")
}

// names are the objects of the snapshot, and for the bad ones why they are.
func names(s *kube.Snapshot, dir string) []string {
	var out []string
	for _, o := range s.Ingresses {
		out = append(out, o.Ref().String())
	}
	for _, o := range s.RouteGroups {
		out = append(out, o.Ref().String())
	}
	for _, o := range s.Services {
		out = append(out, o.Ref().String())
	}
	for _, o := range s.Endpoints {
		out = append(out, o.Ref().String())
	}
	for _, o := range s.EndpointSlices {
		out = append(out, o.Ref().String())
	}
	for _, b := range s.Bad {
		out = append(out, fmt.Sprintf("bad %v: %s", b.Ref, strings.ReplaceAll(b.Err.Error(), dir, "DIR")))
	}
	return out
}

func service(name string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {}\n"
}

func TestReadsFilesFoldersAndStandardInputInOrder(t *testing.T) {
	dir := folder(t,
		"b.yml", service("b"), "a.json", `{"kind":"Service","metadata":{"name":"a1"}} {"kind":"Service","metadata":{"name":"a2"}}`,
		"sub/c.yaml", service("c"), "z.yaml", "---\n"+service("z1")+"---\n# nothing\n---\n"+service("z2")+"...\n",
		".hidden.yaml", "a: [", "kustomization.yaml", "a: [", "sub/kustomization.yml", "a: [", "readme.txt", "a: [", ".git/x.yaml", "a: [",
	)
	other := folder(t, "no-extension", service("other"))
	source := newSource(t, manifests.Config{
		Paths: []string{filepath.Join(other, "no-extension"), dir, "-", filepath.Join(dir, "b.yml")},
		Stdin: iotest.OneByteReader(strings.NewReader(service("stdin"))),
	})
	want := []string{
		"Service default/other", "Service default/a1", "Service default/a2", "Service default/b", "Service default/c",
		"Service default/z1", "Service default/z2", "Service default/stdin",
	}
	for range 2 { // standard input is remembered
		if d := cmp.Diff(want, names(read(t, source), dir)); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
}

func TestReadsTheKindsItKnows(t *testing.T) {
	dir := folder(t, "all.yaml", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i}
---
apiVersion: extensions/v1beta1
kind: Ingress
metadata: {name: old}
---
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Ingress
metadata: {name: other group}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: other group}
---
apiVersion: zalando.org/v1
kind: RouteGroup
metadata: {name: r, namespace: x}
---
kind: ConfigMap
metadata: {name: c}
---
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: s}
- kind: Secret
  metadata: {name: t}
- kind: List
  items: [{kind: Endpoints, metadata: {name: e}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSliceList
items: [{metadata: {name: es}}]
---
no: kind
---
kind: 7
`)
	var log bytes.Buffer
	cfg := manifests.Config{Paths: []string{dir}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	source := newSource(t, cfg)
	read(t, source)
	got := names(read(t, source), dir)
	want := []string{
		"Ingress default/i", "RouteGroup x/r", "Service default/s", "Endpoints default/e", "EndpointSlice default/es",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 3 || !strings.Contains(log.String(), "extensions/v1beta1") {
		t.Errorf("%d warnings, want 3: an old ingress and two documents without kind, once each\n%s", n, &log)
	}
}

func TestNamespaceAndSelectorsRestrictWhatIsRead(t *testing.T) {
	dir := folder(t, "x.yaml", `
{kind: Service, metadata: {name: a, labels: {app: x, tier: web}}}
---
{kind: Service, metadata: {name: b, namespace: ns, labels: {app: x}}}
---
{kind: Service, metadata: {name: c, namespace: ns, labels: {app: 7}}}
---
{kind: Endpoints, metadata: {name: a, namespace: ns}}
`)
	for _, tt := range []struct {
		cfg  manifests.Config
		want []string
	}{
		{manifests.Config{Selection: kube.Selection{Namespace: "default"}}, []string{"Service default/a"}},
		{manifests.Config{Selection: kube.Selection{Namespace: "ns"}}, []string{"Service ns/b", "Endpoints ns/a", "bad"}},
		{manifests.Config{Selection: kube.Selection{Selectors: map[kube.Kind]map[string]string{kube.KindService: {"app": "x"}}}}, []string{"Service default/a", "Service ns/b", "Endpoints ns/a"}},
		{manifests.Config{Selection: kube.Selection{Selectors: map[kube.Kind]map[string]string{kube.KindService: {"app": "x", "tier": ""}}}}, []string{"Service default/a", "Endpoints ns/a"}},
	} {
		tt.cfg.Paths = []string{dir}
		got := names(read(t, newSource(t, tt.cfg)), dir)
		for i := range got {
			if strings.HasPrefix(got[i], "bad Service ns/c: ") {
				got[i] = "bad" // labels have to be strings
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%+v: -want +got\n%s", tt.cfg, d)
		}
	}
}

func TestABadObjectIsNamedWithItsPlace(t *testing.T) {
	dir := folder(t, "a.yaml", service("first")+`---
kind: Service
metadata: {name: wrong, annotations: {x: 1}}
---
kind: Service
metadata: {name: twice}
spec: {type: A, type: B}
---
`+service("second"), "b.yaml", service("third")+"---\n"+service("first"))
	source := newSource(t, manifests.Config{Paths: []string{dir}})
	got := names(read(t, source), dir)
	want := []string{
		"Service default/first", "Service default/second", "Service default/third",
		`bad Service default/wrong: DIR/a.yaml: document 2, line 5: decode Service wrong: json: cannot unmarshal number into Go struct field jsonMeta.metadata.annotations of type string`,
		`bad Service default/twice: DIR/a.yaml: document 3, line 8: yaml: unmarshal errors: line 11: key "type" already set in map`,
		`bad Service default/first: DIR/b.yaml: document 2, line 5: duplicate of the object in DIR/a.yaml: document 1, line 1, which takes precedence`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}

	// The last of the two values is what the JSON had all the time: the repair must be seen nevertheless.
	write(t, filepath.Join(dir, "a.yaml"), "kind: Service\nmetadata: {name: twice}\nspec: {type: B}\n")
	want = []string{"Service default/twice", "Service default/third", "Service default/first"}
	if d := cmp.Diff(want, names(read(t, source), dir)); d != "" {
		t.Errorf("after the repair: -want +got\n%s", d)
	}
}

func TestWhatCannotBeReadFailsTheRead(t *testing.T) {
	for _, tt := range []struct {
		name, file, text, want string
	}{
		{"syntax", "a.yaml", service("a") + "---\n" + service("b") + "x: [\n", "read DIR/a.yaml: document 2, line 5: yaml: line 10:"},
		{"tab", "a.yaml", "a:\n\tb: 1\n", "read DIR/a.yaml: document 1, line 1: yaml: line 2:"},
		{"JSON cut off", "a.json", `{"kind":"Service","metadata":{`, "read DIR/a.json: document 1, line 1: "},
		{"JSON and more", "a.json", `{"kind":"Service"}{"kind":`, "read DIR/a.json: document 1, line 1: "},
		{"JSON twice in YAML", "a.yaml", "{kind: Service, metadata: {name: a}}\nkind: Service\n", "read DIR/a.yaml: document 1, line 1: yaml: "},
		{"text", "a.yaml", service("a") + "---\nService unavailable\n", "read DIR/a.yaml: document 2, line 5: not an object: "},
		{"array", "a.json", `[{"kind":"Service"}]`, "read DIR/a.json: document 1, line 1: not an object: "},
		{"item", "a.yaml", "kind: List\nitems: [{kind: Service, metadata: {name: a}}, x]\n", "read DIR/a.yaml: document 1, line 1: item 2: not an object: "},
		{"too large", "a.yaml", strings.Repeat("# x\n", 100), "read DIR/a.yaml: larger than 300 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, tt.file, tt.text, "good.yaml", service("good"))
			source := newSource(t, manifests.Config{Paths: []string{dir}, MaxFileBytes: 300})
			for range 2 {
				if got := readError(t, source, dir); !strings.HasPrefix(got, tt.want) {
					t.Errorf("error %q, want %q", got, tt.want)
				}
			}
			write(t, filepath.Join(dir, tt.file), service("a"))
			if got := names(read(t, source), dir); len(got) != 2 {
				t.Errorf("after the repair: %v", got)
			}
		})
	}
}

// TestListsInListsCostAsMuchAsTheyAreLong: they once cost the square of it.
func TestListsInListsCostAsMuchAsTheyAreLong(t *testing.T) {
	nested := func(depth, padding int) string {
		return strings.Repeat(`{"kind":"List","apiVersion":"v1","items":[`, depth) +
			`{"kind":"Service","apiVersion":"v1","metadata":{"name":"app-1","annotations":{"x":"` + strings.Repeat("x", padding) + `"}}}` + strings.Repeat("]}", depth)
	}
	dir := folder(t, "a.json", nested(8, 10), "good.yaml", service("good"))
	source := newSource(t, manifests.Config{Paths: []string{dir}})
	if got := names(read(t, source), dir); len(got) != 2 {
		t.Errorf("of lists eight deep: %v", got)
	}
	write(t, filepath.Join(dir, "a.json"), nested(9, 10))
	if got := readError(t, source, dir); !strings.HasPrefix(got, "read DIR/a.json: document 1, line 1: ") || !strings.HasSuffix(got, "lists are more than 8 deep in each other") {
		t.Errorf("of lists nine deep: %q", got)
	}
	text := nested(4000, 1_000_000)
	write(t, filepath.Join(dir, "a.json"), text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	readError(t, source, dir)
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(40*len(text)); got > most {
		t.Errorf("%d bytes allocated for a file of %d, want at most %d", got, len(text), most)
	}
}

func TestFilesThatAreNotThereFailTheRead(t *testing.T) {
	dir := folder(t, "a.yaml", service("a"), "b.yaml", service("b"))
	for _, tt := range []struct {
		cfg  manifests.Config
		want string
	}{
		{manifests.Config{Paths: []string{filepath.Join(dir, "none.yaml")}}, "read DIR/none.yaml: no such file or directory"},
		{manifests.Config{Paths: []string{"-"}, Stdin: iotest.ErrReader(io.ErrUnexpectedEOF)}, "read -: unexpected EOF"},
	} {
		source := newSource(t, tt.cfg)
		for range 2 { // also standard input, which cannot be tried again
			if got := readError(t, source, dir); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		}
	}
	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := readError(t, newSource(t, manifests.Config{Paths: []string{dir}}), dir); !strings.Contains(got, "DIR/dangling.yaml") {
		t.Errorf("error %q, want one about the link that leads nowhere", got)
	}
}

// A ConfigMap volume: hidden folders with the files, a hidden link to the present one, and visible links to its files.
func TestFollowsAConfigMapVolume(t *testing.T) {
	dir := folder(t, "..1/a.yaml", service("a1"), "..2/a.yaml", service("a2"))
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", "..data")
	link("..data/a.yaml", "a.yaml")
	link("a.yaml", "again.yaml") // the same file, once
	link(".", "loop")
	source := newSource(t, manifests.Config{Paths: []string{dir}})
	if d := cmp.Diff([]string{"Service default/a1"}, names(read(t, source), dir)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	link("..2", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"Service default/a2"}, names(read(t, source), dir)); d != "" {
		t.Errorf("after the swap: -want +got\n%s", d)
	}
}

func TestAnObjectKeepsItsPointerInAChangedFile(t *testing.T) {
	dir := folder(t, "a.yaml", service("a")+"---\n"+service("b"))
	source := newSource(t, manifests.Config{Paths: []string{dir}})
	before := read(t, source)
	if again := read(t, source); again != before {
		t.Error("nothing changed and the snapshot is another one")
	}
	write(t, filepath.Join(dir, "a.yaml"), "# comment\n"+service("new")+"---\n"+strings.Replace(service("a"), "{}", "{clusterIP: x}", 1))
	write(t, filepath.Join(dir, "moved.yaml"), service("b"))
	after := read(t, source)
	if len(after.Services) != 3 || after.Services[1] != before.Services[0] || after.Services[2] != before.Services[1] {
		t.Errorf("got %v, want a new one, the old a with another field that nobody reads, and b from another file", names(after, dir))
	}
}

// changing is a reader that changes a file when it is read, which is in the middle of a read of the source.
type changing struct{ change func() }

func (c changing) Read([]byte) (int, error) {
	c.change()
	return 0, io.EOF
}

func TestFilesThatChangeWhileTheyAreReadAreReadAgain(t *testing.T) {
	dir := folder(t, "a.yaml", service("a"), "b.yaml", service("b"))
	source := newSource(t, manifests.Config{Paths: []string{dir, "-"}, Stdin: changing{func() {
		write(t, filepath.Join(dir, "a.yaml"), service("changed"))
		write(t, filepath.Join(dir, "c.yaml"), service("c"))
	}}})
	want := []string{"Service default/changed", "Service default/b", "Service default/c"}
	if d := cmp.Diff(want, names(read(t, source), dir)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, cfg := range []manifests.Config{
		{}, {Paths: []string{""}}, {Paths: []string{"-"}}, {Paths: []string{"x"}, MaxFileBytes: -1},
	} {
		if _, err := manifests.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// A folder given by mistake, such as /, is not read to its end.
func TestTooManyFilesFailTheRead(t *testing.T) {
	dir := t.TempDir()
	for i := range 10_001 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := readError(t, newSource(t, manifests.Config{Paths: []string{dir}}), dir), "read DIR/10000.yaml: more than 10000 files"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
