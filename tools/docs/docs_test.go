package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDeadLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.md", "# A `code` title: with *marks*, and 2\n\n## Twice\n\n## Twice\n\n"+
		"[b](docs/b.md) [b](docs/b.md#b) [here](#twice-1) [top](#a-code-title-with-marks-and-2) [net](https://example.org/x.md#y)\n"+
		"[folder](docs) ![picture](docs/b.md)\n\n```\n[not a link](nowhere.md)\n## Not a heading\n```\n")
	write("docs/b.md", "# B\n\n[up](../a.md#twice)\n")
	if err := checkLinks(dir); err != nil {
		t.Fatalf("links that are fine: %v", err)
	}
	write("docs/c.md", "# C\n\n[a](../gone.md)\n[b](b.md#gone)\n\n[c](#not-a-heading) [d](../a.md#not-a-heading)\n")
	err := checkLinks(dir)
	if err == nil {
		t.Fatal("dead links are not found")
	}
	for _, want := range []string{"c.md:3: the link ../gone.md", "c.md:4: the link b.md#gone", "c.md:6: the link #not-a-heading",
		"c.md:6: the link ../a.md#not-a-heading"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 4 {
		t.Errorf("%d errors, want 4:\n%v", n, err)
	}
}

const testSection = "\n**Users notice** a\n\n**Urgent?** b\n\n**Look**\n\n```sh\nkubectl get pods\n```\n\n" +
	"**If you see** c\n\n**Verify** d\n"

const testRunbook = "# Runbook\n\n## Alerts\n\n### RoutesrvA\n" + testSection + "\n## Symptoms\n\n### Something is slow\n" + testSection

func TestRunbookThatFitsTheAlertsIsFine(t *testing.T) {
	if err := compareRunbook([]alert{{"RoutesrvA", runbookFile + "#routesrva"}}, testRunbook); err != nil {
		t.Error(err)
	}
}

func TestRunbookThatDoesNotFitTheAlertsIsFound(t *testing.T) {
	a := alert{"RoutesrvA", runbookFile + "#routesrva"}
	for name, tt := range map[string]struct {
		alerts []alert
		text   string
		want   string
	}{
		"an alert without a section":  {[]alert{a, {"RoutesrvB", runbookFile + "#routesrvb"}}, testRunbook, "has no section RoutesrvB"},
		"a section without an alert":  {nil, testRunbook, "section RoutesrvA, and there is no such alert"},
		"an alert that leads astray":  {[]alert{{"RoutesrvA", "docs/operate/runbook.md#a"}}, testRunbook, `leads to "docs/operate/runbook.md#a"`},
		"a section without a part":    {[]alert{a}, strings.Replace(testRunbook, "**Urgent?** b", "", 1), "section RoutesrvA: must"},
		"a section with a part twice": {[]alert{a}, testRunbook + "\n**Verify** e\n", "section Something is slow: must"},
		"parts in another order": {
			[]alert{a}, strings.Replace(testRunbook, "**Users notice** a\n\n**Urgent?** b", "**Urgent?** b\n\n**Users notice** a", 1), "section RoutesrvA: must",
		},
		"nothing to type": {[]alert{a}, strings.Replace(testRunbook, "kubectl get pods\n", "", 1), "section RoutesrvA: Look must"},
		"too much to type": {
			[]alert{a}, strings.Replace(testRunbook, "kubectl get pods\n", strings.Repeat("kubectl get pods\n", 4), 1), "section RoutesrvA: Look must",
		},
	} {
		if err := compareRunbook(tt.alerts, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}

func TestAlertsAreReadOfARule(t *testing.T) {
	got, err := alertsOf([]byte("spec: {groups: [{rules: [{record: x}, {alert: RoutesrvA, annotations: {runbook_url: r}}]}, {rules: [{alert: RoutesrvB}]}]}"))
	if err != nil || !slices.Equal(got, []alert{{"RoutesrvA", "r"}, {"RoutesrvB", ""}}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := alertsOf([]byte("spec: {}")); err == nil {
		t.Error("a rule file without alerts is fine")
	}
}

func TestDiagramsAreFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("# A\n\n```mermaid\nflowchart LR\n```\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := checkLinks(dir); err == nil || !strings.Contains(err.Error(), "Mermaid") {
		t.Errorf("error %v", err)
	}
}

func TestPartsAreWrittenBetweenTheirMarkers(t *testing.T) {
	got := string(fill([]byte("a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n<!-- generated: y -->\n<!-- end -->\n"),
		map[string]string{"x": "X\n", "y": "Y\n"}))
	want := "a\n<!-- generated: x -->\n\nX\n\n<!-- end -->\nb\n<!-- generated: y -->\n\nY\n\n<!-- end -->\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if again := string(fill([]byte(got), map[string]string{"x": "X\n", "y": "Y\n"})); again != want {
		t.Errorf("written again: %q", again)
	}
}

func TestFlagsAreFoundWhereTheyAreQuoted(t *testing.T) {
	text := "Set `--guard-hold=5m`, not `kubectl apply --server-side`.\n\n```sh\n$ routesrv serve --state-dir x\nls --all\n```\n"
	if got, want := flagsOf(text), []string{"state-dir", "guard-hold"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWordsAreThoseOutsideOfCode(t *testing.T) {
	if n := words("# One two\n\n| three | --- |\n\n```\nnot these\n```\n\nFour `five`: 6.\n"); n != 6 {
		t.Errorf("%d words, want 6", n)
	}
}

func TestTermsAreThoseOfTheCode(t *testing.T) {
	code := "const LogX = \"table held\"\nname: routesrv-peers\nf.Add(\"--max-age\", v, \"Age.\")\nLogY = \"texts pass without a trial\""
	labels := map[string]string{"routesrv_clients": "kind,state"}
	for quote, want := range map[string]string{
		"texts pass without a trial": "", "texts pass without one": "the message", "routesrv-peers": "", "routesrv-friends": "the name",
		"ROUTESRV_MAX_AGE": "", "ROUTESRV_MIN_AGE": "the variable", "routesrv_clients{state}": "", "routesrv_clients{zone}": "the label",
		"kubectl routesrv get it all": "", "GET /routes": "", "--guard=hold": "",
	} {
		if got := unknownTerm(quote, code, labels); got != want {
			t.Errorf("%q: %q, want %q", quote, got, want)
		}
	}
}

func TestTranslatedPhrasesAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"Nobody waits for it.": true, "// What is not there is left out.": true, "a list of its own": true, `"port %d: want a number"`: true,
		"the age is that of the last read": true, "the rest is logged and says so": true, "// Is there a route?": false, "what is it? Then stop.": false,
		"there is a route": false, "a person who reads": false, "a separate list": false,
	} {
		if got := translated(text) != ""; got != want {
			t.Errorf("%q: found %v, want %v", text, got, want)
		}
	}
	src := "package a\n\n// One is gone.\nvar a = `b c\nd` // e\n"
	if got, want := string(wordsOf([]byte(src))), "\n\n // One is gone.\n `b c\nd` // e"; got != want {
		t.Errorf("words of a file: %q, want %q", got, want)
	}
}
