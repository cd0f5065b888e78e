package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/app/program"
)

const (
	tableA = `kube_rg__shop__cart__all__0_0: Path("/cart") -> setPath("/v1") -> <roundRobin, "http://10.0.0.1", "http://10.0.0.2">;
kube_shop__search______: Path("/search") -> "http://search";
same: * -> <shunt>;
`
	tableB = `kube_rg__shop__cart__all__0_0: Path("/cart") -> setPath("/v2") -> <roundRobin, "http://10.0.0.2", "http://10.0.0.3">;
same: * -> <shunt>;
kube_pay__app______: Path("/pay") -> "http://pay";
`
	diffAB = `--- A: A, 3 routes
+++ B: B, 3 routes

Ingress pay/app (from the id)
  + kube_pay__app______
      Path("/pay") -> "http://pay"

RouteGroup shop/cart (from the id)
  ~ kube_rg__shop__cart__all__0_0
      filter 1        - setPath("/v1")
                      + setPath("/v2")
      endpoint        - http://10.0.0.1
      endpoint        + http://10.0.0.3

Ingress shop/search (from the id)
  - kube_shop__search______
      Path("/search") -> "http://search"

different: 3 of 4 routes: 1 missing, 1 extra, 1 changed
`
)

// tempFile writes a temporary file.
func tempFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// skipperFake imitates the support listener of a Skipper, with at most two routes per page.
func skipperFake(t *testing.T, document string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(document), "\n")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
		if err != nil || r.URL.Query().Get("nopretty") != "true" {
			http.Error(w, "invalid offset", http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Timestamp", "1000")
		w.Header().Set("X-Count", strconv.Itoa(len(lines)))
		fmt.Fprint(w, strings.Join(lines[offset:min(offset+2, len(lines))], "\n"))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/routes"
}

// urlOf serves a text and returns its URL.
func urlOf(t *testing.T, text string, header ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/routes"
}

func TestDiffShowsWhatDiffers(t *testing.T) {
	a, b := tempFile(t, "a.eskip", tableA), tempFile(t, "b.eskip", tableB)
	r := runWith(t, "", "diff", a, b)
	got := strings.NewReplacer(a, "A", b, "B").Replace(r.out)
	if r.status != 1 || r.err != "" || got != diffAB {
		t.Errorf("status %d, error %s, output:\n%s\nwant:\n%s", r.status, r.err, got, diffAB)
	}
}

func TestDiffOfEveryKindOfSide(t *testing.T) {
	compiled := runWith(t, "", "compile", shop).out
	zones := runWith(t, "", "compile", "-enable-kubernetes-endpointslices", shop).out
	for _, c := range []struct {
		name   string
		stdin  string
		a, b   string
		flags  []string
		status int
		out    string // regular expression
	}{
		{name: "file and standard input", a: tempFile(t, "a.eskip", tableA), b: "-", stdin: tableA, out: `^same: 3 routes\n$`},
		{name: "standard input first", a: "-", stdin: tableB, b: tempFile(t, "a.eskip", tableA), status: 1, out: `1 missing, 1 extra, 1 changed`},
		{name: "folder of manifests", a: shop, b: tempFile(t, "c.eskip", compiled), out: `^same: 33 routes`},
		{name: "folder of manifests with flags", a: shop, b: tempFile(t, "c.eskip", compiled), flags: []string{"-kubernetes-https-redirect=false"},
			status: 1, out: `(?s)generated routes\n  \+ kube__redirect\n`},
		{name: "flags that make no difference", a: shop, b: tempFile(t, "c.eskip", zones), flags: []string{"-enable-kubernetes-endpointslices"}, out: `^same`},
		{name: "one file of manifests", a: shop + "/services.yaml", b: tempFile(t, "c.eskip", compiled), status: 1, out: `RouteGroup shop/cart`},
		{name: "URL of a route server", a: urlOf(t, compiled, "X-Revision", "7", "X-Count", "33"), b: shop, out: `^same: 33 routes`},
		{name: "URL with a revision", a: urlOf(t, tableA, "X-Revision", "7"), b: "-", status: 1, out: `A: http://\S+, 3 routes, revision 7`},
		{name: "pages of a Skipper", a: skipperFake(t, compiled), b: shop, out: `^same: 33 routes`},
		{name: "endpoints ignored", a: skipperFake(t, tableA), b: tempFile(t, "b.eskip", tableB), flags: []string{"--ignore", "endpoints"},
			status: 1, out: `(?s)setPath\("/v2"\)\n\n.*1 changed\n$`},
		{name: "all ignored", a: tempFile(t, "a.eskip", tableA), b: tempFile(t, "b.eskip", tableB), flags: []string{"--ignore=endpoints,id=^kube_"},
			out: `^same: 1 route \(3 differences ignored\)\n$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runWith(t, c.stdin, append(append([]string{"diff"}, c.flags...), c.a, c.b)...)
			if r.status != c.status || !regexp.MustCompile(c.out).MatchString(r.out) || r.err != "" {
				t.Errorf("status %d, want %d; output, want %s:\n%s\nerror: %s", r.status, c.status, c.out, r.out, r.err)
			}
		})
	}
}

func TestDiffWithARealServer(t *testing.T) {
	url, stop := serveHere(t, "--manifests", shop)
	awaitTable(t, url+"/routes")
	if r := runWith(t, "", "diff", url+"/routes", shop); r.status != 0 || !strings.HasPrefix(r.out, "same: 33 routes") {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
	if r := runWith(t, "", "diff", url+"/nothing", shop); r.status != 2 || !strings.Contains(r.err, "404 Not Found") {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
}

func TestDiffTroubles(t *testing.T) {
	good := tempFile(t, "good.eskip", tableA)
	bad := tempFile(t, "bad.eskip", "a: * -> <shunt>;\nb: Foo( -> <shunt>")
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"too few", "", []string{good}, "too few arguments: needs A B"},
		{"too many", "", []string{good, good, good}, "unexpected argument"},
		{"no file", "", []string{good, "nowhere.eskip"}, "routesrv diff: B: nowhere.eskip: no such file or directory\n"},
		{"does not parse", "", []string{bad, good}, `^routesrv diff: A: \S+bad.eskip:2:11: parse failed after token ->, last route id: b, position \d+: syntax error\n$`},
		{"both", "", []string{bad, tempFile(t, "bad.eskip", "#")}, `(?s)^routesrv diff: A: .*\nroutesrv diff: B: .*\n$`},
		{"standard input twice", "", []string{"-", "-"}, "-: the standard input can be only one of the tables"},
		{"manifest that is none", "", []string{good, tempFile(t, "x.yaml", "kind: [")}, `B: .*x\.yaml`},
		{"nobody answers", "", []string{good, "http://127.0.0.1:1/routes"}, "B: http://127.0.0.1:1/routes: .*connection refused"},
		{"output", "", []string{"--output=xml", good, good}, `--output: "xml": must be one of text, json`},
		{"ignore", "", []string{"--ignore=filters", good, good}, `--ignore: "filters": must be endpoints or id=REGEX`},
		{"unknown flag", "", []string{"--outputs=json", good, good}, "outputs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runWith(t, c.stdin, append([]string{"diff"}, c.args...)...)
			if r.status != 2 || !regexp.MustCompile(c.want).MatchString(r.err) || r.out != "" {
				t.Errorf("status %d, output %q, error, want %s:\n%s", r.status, r.out, c.want, r.err)
			}
		})
	}
}

func TestDiffNamesProblemsAndSettingsWithoutEffect(t *testing.T) {
	r := runWith(t, "", "diff", "-kubernetes", tempFile(t, "x.yaml", brokenGroup), shop)
	if r.status != 1 || !strings.Contains(r.err, "x.yaml: error: RouteGroup shop/broken") ||
		!strings.Contains(r.err, "warning: -kubernetes and --manifests have no effect") {
		t.Errorf("status %d\n%s", r.status, r.err)
	}
}

func TestDiffPrintsJSON(t *testing.T) {
	r := runWith(t, "", "diff", "--output=json", tempFile(t, "a.eskip", tableA), tempFile(t, "b.eskip", tableB))
	var got struct {
		Schema      string
		Result      string
		Counts      map[string]int
		Differences []struct{ Kind, ID string }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatal(err)
	}
	if r.status != 1 || got.Schema != "routesrv.shadowdiff/v1" || got.Result != "different" || got.Counts["missing"] != 1 ||
		len(got.Differences) != 3 || got.Differences[0].ID != "kube_pay__app______" {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
}

func TestDiffReportsThatItCannotPrint(t *testing.T) {
	var errs strings.Builder
	a, b := tempFile(t, "a.eskip", tableA), tempFile(t, "b.eskip", tableB)
	for _, output := range []string{"text", "json"} {
		status := run(t.Context(), []string{"diff", "--output", output, a, b}, nil, program.Stdio{In: strings.NewReader(""), Out: closedPipe{}, Err: &errs})
		if status != 2 || !strings.Contains(errs.String(), "print the result: io: read/write on closed pipe") {
			t.Errorf("%s: status %d: %s", output, status, errs.String())
		}
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
