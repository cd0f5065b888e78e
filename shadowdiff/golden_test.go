package shadowdiff_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/shadowdiff"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	goldenA = `
kube_rg__shop__cart__all__0_0: Host("^www[.]example[.]org$") && Foo(1) -> setRequestHeader("X-Shop", "a long value that nobody wants to read twice, with a version 1 in it, and more text behind")
	-> status(204) -> f() -> <roundRobin, "http://10.2.0.11:8080?zone=a", "http://10.2.0.13:8080?zone=b">;
kube_rg__shop__cart__get__1_0: Path("/cart") -> <shunt>;
kube_shop__search__host____svc: Path("/search") -> "http://search";
gone: Path("/gone") -> setPath("/` + "\x1b[31m\u202e" + `") -> <shunt>;
kube__redirect: * -> redirectTo(308, "https:") -> <shunt>;
same: Path("/same") -> <shunt>;`
	goldenB = `
kube_rg__shop__cart__all__0_0: Host("^api[.]example[.]org$") && Bar() -> f() -> setRequestHeader("X-Shop", "a long value that nobody wants to read twice, with a version 2 in it, and more text behind")
	-> <random, "http://10.2.0.11:8080?zone=c", "http://10.2.0.14:8080?zone=b">;
kube_rg__shop__cart__get__1_1: Path("/cart") -> <shunt>;
kube_shop__search__host____svc: Path("/search") -> <"http://10.2.9.1:80", "http://10.2.9.2:80">;
kube_pay__app______: Host(/pay/) -> "http://pay";
kube__redirect: * -> redirectTo(301, "https:") -> <shunt>;
same: Path("/same") -> <shunt>;`
)

func goldenView(t *testing.T) *shadowdiff.Comparison {
	t.Helper()
	return &shadowdiff.Comparison{
		A: shadowdiff.Side{Name: "a.eskip"}, B: shadowdiff.Side{Name: "http://routesrv/routes", Revision: 42},
		Report: shadowdiff.Diff(parse(t, goldenA), parse(t, goldenB)),
	}
}

// watchedView is a continuous comparison with a confirmed and a pending difference.
func watchedView(t *testing.T) *shadowdiff.Comparison {
	t.Helper()
	w := watch(t, 1)
	for range 3 {
		w.compare(3, with, lacking)
	}
	o := w.compare(3, with+`; c: Bar() -> <shunt>`, lacking+`; d: Baz() -> <shunt>`)
	return &shadowdiff.Comparison{
		A: shadowdiff.Side{Name: "cluster", Revision: 9}, B: shadowdiff.Side{Name: "server"}, At: w.now, Watch: &o,
		Report: shadowdiff.Diff(parse(t, with+`; c: Bar() -> <shunt>`), parse(t, lacking+`; d: Baz() -> <shunt>`)),
		Err:    "B: http://server: 503 Service Unavailable",
	}
}

func TestGolden(t *testing.T) {
	same := &shadowdiff.Comparison{Report: shadowdiff.Diff(parse(t, goldenA), parse(t, goldenA))}
	for _, c := range []struct {
		file  string
		view  *shadowdiff.Comparison
		write func(io.Writer, *shadowdiff.Comparison) error
	}{
		{"diff.txt", goldenView(t), shadowdiff.WriteText},
		{"diff.json", goldenView(t), shadowdiff.WriteJSON},
		{"watch.txt", watchedView(t), shadowdiff.WriteText},
		{"watch.json", watchedView(t), shadowdiff.WriteJSON},
		{"same.txt", same, shadowdiff.WriteText},
		{"same.json", same, shadowdiff.WriteJSON},
		{"trouble.txt", &shadowdiff.Comparison{Err: "A: x.eskip: no such file"}, shadowdiff.WriteText},
	} {
		t.Run(c.file, func(t *testing.T) {
			var got bytes.Buffer
			if err := c.write(&got, c.view); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join("testdata", c.file)
			if *update {
				if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestASummaryCountsInWords(t *testing.T) {
	for want, r := range map[string]shadowdiff.Report{
		"same: 1 route":                          {A: 1, B: 1, Equal: 1},
		"same: 2 routes (1 difference ignored)":  {A: 2, B: 2, Equal: 2, Ignored: 1},
		"same: 0 routes (2 differences ignored)": {Ignored: 2},
	} {
		if got := (&shadowdiff.Comparison{Report: r}).Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorsOfTheWriterAreReported(t *testing.T) {
	v := goldenView(t)
	if shadowdiff.WriteText(failing{}, v) == nil || shadowdiff.WriteJSON(failing{}, v) == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä€ text": "plain ä€ text", "\x1b[2J": `\x1b[2J`, "a\u202eb": `a\u202eb`, "\xff": `\xff`, "\u0085": `\u0085`,
		"\u2028": `\u2028`, "\u0080": `\u0080`, "\x7f": `\x7f`, "\u00a0~": "\u00a0~",
	} {
		if got := shadowdiff.Printable(in); got != want {
			t.Errorf("Printable(%q) = %s, want %s", in, got, want)
		}
	}
}
