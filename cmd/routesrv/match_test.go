package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMatchGolden runs routesrv match as the files of testdata/match specify. Each file has the arguments, one per line, the
// table, the exit status and the output.
func TestMatchGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/match/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			table := tempFile(t, "table.eskip", string(archive.Files[1].Data))
			args := []string{"match"}
			for arg := range strings.Lines(string(archive.Files[0].Data)) {
				args = append(args, strings.Replace(strings.TrimSuffix(arg, "\n"), "table.eskip", table, 1))
			}
			r := runWith(t, "", args...)
			if r.err != "" {
				t.Errorf("standard error: %s", r.err)
			}
			out := strings.ReplaceAll(r.out, table, "table.eskip")
			got := &txtar.Archive{Comment: archive.Comment, Files: append(archive.Files[:2:2],
				txtar.File{Name: "status", Data: fmt.Appendln(nil, r.status)}, txtar.File{Name: "out", Data: []byte(out)},
			)}
			if *update {
				if err := os.WriteFile(path, txtar.Format(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, txtar.Format(got)) {
				t.Errorf("-want +got:\n%s", cmp.Diff(string(want), string(txtar.Format(got))))
			}
		})
	}
}

// TestMatchReadsEveryKindOfTable: match reads tables from the same places as routesrv diff.
func TestMatchReadsEveryKindOfTable(t *testing.T) {
	compiled := runWith(t, "", "compile", shop).out
	for _, place := range []string{shop, tempFile(t, "t.eskip", compiled), "-", urlOf(t, compiled), skipperFake(t, compiled)} {
		r := runWith(t, compiled, "match", "https://shop.example.org/", place)
		owner := "Ingress shop/web"
		if place != shop {
			owner += " (from the id)"
		}
		if r.status != 0 || !strings.Contains(r.out, "route kube_shop__web__shop_example_org_____web\n  owner       "+owner+"\n") {
			t.Errorf("%s: status %d, %s%s, want the route of %s", place, r.status, r.err, r.out, owner)
		}
	}
}

func TestMatchMessages(t *testing.T) {
	table := tempFile(t, "t.eskip", tableA)
	tests := []struct {
		args []string
		want string // regular expression for the standard error
	}{
		{[]string{"http://a/"}, `too few arguments: needs URL TABLE`},
		{[]string{"/cart", table}, `url="/cart" has no host: .*-H 'Host:`},
		{[]string{"shop/cart", table}, `url="shop/cart": must be the URL of a request`},
		{[]string{"ftp://shop/cart", table}, `url="ftp://shop/cart": must be the URL of a request`},
		{[]string{"http:///cart", table}, `url="http:///cart": must be the URL of a request`},
		{[]string{"-H", "X-Beta", "http://a/", table}, `header="X-Beta": must be a header such as`},
		{[]string{"-X", "A B", "http://a/", table}, `method="A B": must be a method`},
		{[]string{"--from", "shop", "http://a/", table}, `from="shop": must be the IP address`},
		{[]string{"--at", "noon", "http://a/", table}, `at="noon": must be a time as in 2026-`},
		{[]string{"-o", "yaml", "http://a/", table}, `--output: "yaml": must be one of text, json`},
		{[]string{"--candidates=-1", "http://a/", table}, `--candidates: "-1": must be a whole number`},
		{[]string{"-validate-query=maybe", "http://a/", table}, `--validate-query: "maybe": must be true or false`},
		{[]string{"http://a/", "nowhere"}, `nowhere: no such file`},
		{[]string{"--candidate=1", "http://a/", table}, `unknown flag .*--candidates`},
	}
	for _, tt := range tests {
		r := runWith(t, "", append([]string{"match"}, tt.args...)...)
		if r.status != 2 || !regexp.MustCompile(tt.want).MatchString(r.err) {
			t.Errorf("%q: status %d, %s, want %s", tt.args, r.status, r.err, tt.want)
		}
	}
}

// TestMatchTakesURLsAsCurlDoes: default ports, user names and fragments do not reach the proxy.
func TestMatchTakesURLsAsCurlDoes(t *testing.T) {
	table := tempFile(t, "t.eskip", `a: Host("^shop$") && Path("/x") -> <shunt>; b: Host("^shop:81$") && Path("/") && QueryParam("q") -> <shunt>`)
	for url, want := range map[string]string{
		"https://me:secret@shop:443/x#top": "a", "http://shop:80/x": "a", "HTTP://shop/x?a/b": "a", "http://shop:81?q": "b",
	} {
		r := runWith(t, "", "match", url, table)
		if r.status != 0 || !strings.Contains(r.out, "\nroute "+want+"\n") {
			t.Errorf("%s: status %d, %s%s, want route %s", url, r.status, r.err, r.out, want)
		}
	}
	if r := runWith(t, "", "match", "-H", "host: shop", "/x", table); r.status != 0 {
		t.Errorf("a path with a header Host: %+v", r)
	}
}

func TestMatchHelpTeaches(t *testing.T) {
	r := runWith(t, "", "match", "--help")
	for _, want := range []string{"Usage:\n  routesrv match [flags] URL TABLE", "  -X, --request METHOD ", "  -H, --header 'NAME: VALUE' ", "  --from ADDRESS", "xit status is 0"} {
		if r.status != 0 || !strings.Contains(r.out, want) {
			t.Errorf("status %d, help has no %q", r.status, want)
		}
	}
}
