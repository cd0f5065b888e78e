package compile_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/kube"
)

// The cases of the rules. Those in rulesDir were written by hand from the rules; nothing rewrites them. Other tests compare the
// rest with tables of the reference (differentialDir) or with worked examples of the rules (golden).
const (
	rulesDir        = "testdata/rules"
	rulesList       = "testdata/rules/rules.txt"
	differentialDir = "../test/conformance/testdata/differential"
)

// ruleCase is one folder of an archive: options, objects in addition to those of the archive, the expected table, and expressions
// of which each has to match a problem.
type ruleCase struct {
	name             string
	options, cluster string
	filters          *kube.DefaultFilters
	eskip, log       string
}

// input returns everything that a case passes to the compiler.
func (c ruleCase) input() string { return c.options + "\n" + c.cluster }

// output returns everything that the case expects.
func (c ruleCase) output() string { return c.eskip + "\n" + c.log }

func readRuleCases(t *testing.T, path string) map[string]ruleCase {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cases, shared := make(map[string]ruleCase), ""
	for _, f := range archive.Files {
		folder, name, inFolder := strings.Cut(f.Name, "/")
		if !inFolder {
			if f.Name != "cluster.yaml" {
				t.Fatalf("%s: the file %s is of no case", path, f.Name)
			}
			shared = string(f.Data)
			continue
		}
		c := cases[folder]
		c.name = folder
		switch service, isFilter := strings.CutPrefix(name, "filters/"); {
		case name == "options.yaml":
			c.options = string(f.Data)
		case name == "cluster.yaml":
			c.cluster = string(f.Data)
		case name == "want.eskip":
			c.eskip = string(f.Data)
		case name == "want.log":
			c.log = string(f.Data)
		case isFilter:
			if c.filters == nil {
				c.filters = &kube.DefaultFilters{Texts: make(map[kube.ServiceKey]string)}
			}
			service, namespace, _ := strings.Cut(service, ".")
			c.filters.Texts[kube.ServiceKey{Namespace: namespace, Name: service}] = string(f.Data)
		default:
			t.Fatalf("%s: the file %s has no meaning", path, f.Name)
		}
		cases[folder] = c
	}
	for name, c := range cases {
		if shared != "" {
			c.cluster = shared + "---\n" + c.cluster
		}
		cases[name] = c
	}
	return cases
}

// TestCasesOfRules compiles the cases written by hand from the rules: the table has to be the same text, and each expression has
// to match a problem.
func TestCasesOfRules(t *testing.T) {
	archives, err := filepath.Glob(rulesDir + "/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives of cases: %v", err)
	}
	for _, path := range archives {
		for name, c := range readRuleCases(t, path) {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar")+"/"+name, c.run)
		}
	}
}

func (c ruleCase) run(t *testing.T) {
	options, err := parseOptions([]byte(c.options))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := parseCluster([]byte(c.cluster))
	if err != nil {
		t.Fatal(err)
	}
	snapshot.DefaultFilters = c.filters
	result := mustCompiler(t, options).Compile(snapshot)
	routes := routesText(result)
	if diff := cmp.Diff(strings.Split(c.eskip, "\n"), strings.Split(routes, "\n")); diff != "" {
		t.Errorf("routes (-want +got):\n%s\nproblems:\n%s", diff, problemsText(result))
	}
	if _, err := eskip.Parse(routes); err != nil {
		t.Errorf("the table does not parse: %v", err)
	}
	for expr := range strings.Lines(c.log) {
		rx, err := regexp.Compile(strings.TrimSuffix(expr, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		matches := false
		for _, p := range result.Problems {
			matches = matches || rx.MatchString(p.String())
		}
		if !matches {
			t.Errorf("no problem matches %q:\n%s", rx, problemsText(result))
		}
	}
}

// rule is an entry of the list: its number, its text, and the cases that show it.
type rule struct {
	number, says string
	cases        []evidence
}

// evidence is a case, with expressions for what makes the rule apply (in) and for what the rule does (out). They keep the list
// honest: a case without either cannot show the rule.
type evidence struct {
	name    string
	in, out *regexp.Regexp
}

var (
	ruleLine     = regexp.MustCompile(`^((?:ingress|routegroup) [0-9]+(?:\.[0-9a-z]+)*)  (\S.*)$`)
	evidenceLine = regexp.MustCompile("^\\t(\\S+)(?: in:`([^`]+)`)?(?: out:`([^`]+)`)?$")
)

func readRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(rulesList)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rule
	expression := func(text string) *regexp.Regexp {
		if text == "" {
			return nil
		}
		rx, err := regexp.Compile("(?s)" + text)
		if err != nil {
			t.Fatal(err)
		}
		return rx
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if m := ruleLine.FindStringSubmatch(line); m != nil {
			rules = append(rules, rule{number: m[1], says: m[2]})
			continue
		}
		m := evidenceLine.FindStringSubmatch(line)
		if m == nil || len(rules) == 0 {
			t.Fatalf("%s: neither a rule nor a case: %q", rulesList, line)
		}
		last := &rules[len(rules)-1]
		last.cases = append(last.cases, evidence{m[1], expression(m[2]), expression(m[3])})
	}
	return rules
}

// findRuleCase finds the case of a name: rules/ARCHIVE/CASE, differential/ARCHIVE/CASE or golden/FILE.
func findRuleCase(t *testing.T, name string) (ruleCase, bool) {
	t.Helper()
	parts := strings.Split(name, "/")
	switch {
	case parts[0] == "rules" && len(parts) == 3:
		path := filepath.Join(rulesDir, parts[1]+".txtar")
		if _, err := os.Stat(path); err != nil {
			return ruleCase{}, false
		}
		c, ok := readRuleCases(t, path)[parts[2]]
		return c, ok
	case parts[0] == "differential" && len(parts) == 3:
		archive, err := txtar.ParseFile(filepath.Join(differentialDir, parts[1]+".txtar"))
		if err != nil {
			return ruleCase{}, false
		}
		var c ruleCase
		for _, f := range archive.Files {
			switch f.Name {
			case parts[2] + ".yaml":
				c.name, c.cluster = parts[2], string(f.Data)
			case parts[2] + ".kube":
				c.options = string(f.Data)
			case parts[2] + ".eskip":
				c.eskip = string(f.Data)
			case parts[2] + ".log":
				c.log = string(f.Data)
			}
		}
		return c, c.name != ""
	case parts[0] == "golden" && len(parts) == 2:
		archive, err := txtar.ParseFile(filepath.Join("testdata", parts[1]+".txtar"))
		if err != nil {
			return ruleCase{}, false
		}
		g := goldenCase{archive: archive}
		return ruleCase{
			name: parts[1], options: string(g.file("options.yaml")), cluster: string(g.file("cluster.yaml")),
			eskip: string(g.file("want.eskip")), log: string(g.file("want.problems")),
		}, true
	}
	return ruleCase{}, false
}

// TestEveryRuleHasItsCase: the list has every numbered rule of the conversion, so that a checkout alone proves the compiler. A
// case counts only if it has what makes the rule apply, and expects what the rule says.
func TestEveryRuleHasItsCase(t *testing.T) {
	rules := readRules(t)
	seen := make(map[string]bool)
	for _, r := range rules {
		if seen[r.number] {
			t.Errorf("%s is in the list twice", r.number)
		}
		seen[r.number] = true
		if len(r.cases) == 0 {
			t.Errorf("%s has no case: %s", r.number, r.says)
		}
		for _, e := range r.cases {
			c, ok := findRuleCase(t, e.name)
			if !ok {
				t.Errorf("%s: there is no case %s", r.number, e.name)
				continue
			}
			if !strings.HasPrefix(e.name, "rules/") && (e.in == nil || e.out == nil) {
				t.Errorf("%s: %s is a case of many things: say with in: and out: where it shows the rule", r.number, e.name)
			}
			if e.in != nil && !e.in.MatchString(c.input()) {
				t.Errorf("%s: %s has no %s in its options and objects", r.number, e.name, e.in)
			}
			if e.out != nil && !e.out.MatchString(c.output()) {
				t.Errorf("%s: %s does not want %s", r.number, e.name, e.out)
			}
		}
	}
	for _, chapter := range ruleChapters {
		for number := chapter.first; number <= chapter.last; number++ {
			if id := chapter.number + "." + strconv.Itoa(number); !seen[id] {
				t.Errorf("%s is not in the list", id)
			}
			delete(seen, chapter.number+"."+strconv.Itoa(number))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		t.Errorf("%s is of no chapter", id)
	}
}

// ruleChapters are the chapters of the list with their first and last rule: a rule that is missing from the list fails the test.
// RouteGroups are loaded as Ingresses are, so the chapter about RouteGroups begins where they differ.
var ruleChapters = []struct {
	number      string
	first, last int
}{
	{"ingress 3.3", 1, 5},
	{"ingress 3.4", 1, 2},
	{"ingress 3.5", 1, 5},
	{"ingress 5", 1, 6},
	{"ingress 6", 1, 12},
	{"ingress 7", 1, 6},
	{"ingress 8", 1, 4},
	{"ingress 9", 1, 6},
	{"ingress 10", 1, 8},
	{"ingress 11", 1, 14},
	{"ingress 12.1", 1, 1},
	{"ingress 12.2", 1, 2},
	{"ingress 12.3", 1, 3},
	{"ingress 12.4", 1, 7},
	{"ingress 12.5", 1, 3},
	{"ingress 12.6", 1, 5},
	{"ingress 12.7", 1, 2},
	{"ingress 13", 1, 6},
	{"ingress 14", 1, 7},
	{"ingress 15", 1, 4},
	{"ingress 16", 1, 5},
	{"ingress 17", 1, 10},
	{"ingress 18.1", 1, 5},
	{"ingress 18.2", 1, 3},
	{"ingress 19", 1, 5},
	{"ingress 20", 1, 3},
	{"ingress 21", 1, 6},
	{"ingress 24", 1, 3},
	{"ingress 25", 1, 1},
	{"routegroup 3", 5, 7},
	{"routegroup 4", 1, 12},
	{"routegroup 5", 1, 2},
	{"routegroup 6", 1, 8},
	{"routegroup 7", 1, 9},
	{"routegroup 8", 1, 3},
	{"routegroup 9", 1, 1},
	{"routegroup 10", 1, 2},
	{"routegroup 11", 1, 2},
	{"routegroup 12", 1, 3},
	{"routegroup 13", 1, 3},
	{"routegroup 14", 1, 1},
	{"routegroup 15", 1, 2},
	{"routegroup 17", 1, 3},
	{"routegroup 18", 1, 1},
}
