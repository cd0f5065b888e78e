package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/table"
)

// hostile is text with which an object could act on a terminal: colours, a bell, an erased line, an 8-bit control sequence, and
// text that runs backwards or is invisible.
const hostile = "\x1b[31mred\x07\r\x1b[2K\u009b31m\u202egnp\u2066\u2028\x7f\b"

// hostileManifests have it wherever a text of an object can be.
func hostileManifests(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	filters, err := json.Marshal(`unknown("` + hostile + `")`)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i, annotations := range []string{
		`{}`, `{"zalando.org/skipper-filter": ` + string(filters) + `}`, `{"zalando.org/skipper-filter": ` + string(text) + `}`,
		`{"zalando.org/skipper-backend-protocol": ` + string(text) + `}`, `{"zalando.org/skipper-ingress-redirect-code": ` + string(text) + `}`,
		`{"kubernetes.io/ingress.class": ` + string(text) + `}`,
	} {
		name := strings.Trim(string(text), `"`) + string(rune('a'+i))
		b.WriteString(`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"namespace": "shop", "name": "` + name + `", "annotations": ` + annotations + `},
"spec": {"rules": [{"host": "` + name + `.org", "http": {"paths": [{"path": "/` + name + `", "pathType": "Prefix", "backend": {"service": {"name": "app-1", "port": {"number": 80}}}}]}},
{"host": "b.example.org", "http": {"paths": [{"path": "/", "backend": {"service": {"name": "` + name + `", "port": {"number": 80}}}}]}}]}}` + "\n---\n")
	}
	b.WriteString(`{"apiVersion": "zalando.org/v1", "kind": "RouteGroup", "metadata": {"namespace": "shop", "name": ` + string(text) + `}, "spec": {"backends": [{"name": ` + string(text) + `, "type": ` + string(text) + `}]}}
---
{"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "app-1"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}
---
{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": "shop", "name": "app-1"}, "subsets": [{"addresses": [{"ip": "10.2.0.1"}], "ports": [{"port": 8080}]}]}
`)
	return string(shadowdiff.PrintableJSON([]byte(b.String())))
}

// acts returns what of a text a terminal would act on.
func acts(text string) (found []rune) {
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			found = append(found, r)
		}
	}
	return found
}

// TestTextsOfObjectsDoNotActOnATerminal: what commands say about objects has no control characters of theirs. The table itself, which
// is for proxies, has them unless it goes to a terminal.
func TestTextsOfObjectsDoNotActOnATerminal(t *testing.T) {
	path := tempFile(t, "hostile.yaml", hostileManifests(t))
	other := tempFile(t, "other.yaml", strings.ReplaceAll(hostileManifests(t), "8080", "9090"))
	broken := tempFile(t, "broken.yaml", "apiVersion: v1\nkind: \"\\e[31m\\a\"\nmetadata: {name: \"\\e[31m\\a\"}\nspec: {")
	for _, args := range [][]string{
		{"compile", path}, {"compile", broken}, {"compile", path + "\x1b[31m"},
		{"explain", "ingress", "shop/" + hostile + "b", path}, {"explain", "b.example.org", path}, {"explain", "-o", "json", "b.example.org", path}, {"explain", "x", broken},
		{"match", "http://b.example.org/", path}, {"match", "-o", "json", "http://b.example.org/", path}, {"match", "http://b.example.org/", broken},
		{"diff", path, other}, {"diff", "-o", "json", path, other}, {"diff", path, broken},
	} {
		r := runWith(t, "", args...)
		texts := map[string]string{"standard error": r.err}
		if args[0] != "compile" {
			texts["standard output"] = r.out
		}
		for where, text := range texts {
			if found := acts(text); len(found) > 0 {
				t.Errorf("%q: %.40q on %s:\n%.300q", args[:2], found, where, text)
			}
		}
		if r.out+r.err == "" {
			t.Errorf("%q says nothing", args)
		}
		if args[0] == "compile" && args[1] == path && !strings.Contains(r.err, "red") {
			t.Errorf("the problems do not have the texts: %s", r.err)
		}
	}
}

func TestTableOnATerminal(t *testing.T) {
	route := &table.Route{ID: "r", Text: "r: Header(\"a\", \"\x1b[31m\") -> <shunt>;"}
	list, err := table.List{}.With([]*table.Route{route}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for terminal, want := range map[bool]string{false: route.Text + "\n", true: `r: Header("a", "\x1b[31m") -> <shunt>;` + "\n"} {
		var out strings.Builder
		if err := printTable(&out, list, terminal); err != nil || out.String() != want {
			t.Errorf("terminal %t: %q, %v, want %q", terminal, out.String(), err, want)
		}
	}
}
