package main

import (
	"slices"
	"strings"
	"testing"
)

func TestQuotesThatTheCodeDoesNotHaveAreFound(t *testing.T) {
	c := &code{
		words:    map[string]bool{"guard-hold": true, "n": true},
		literals: []string{"table held back, the served one stays", "cannot be read"},
		labels:   map[string][]string{"routesrv_problems": {"kind", "reason"}},
		names:    map[string]bool{"deployment/routesrv": true, "namespace/routesrv": true},
	}
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"all is well": {"Set `--guard-hold=5m`.\n\n```sh\nroutesrv --guard-hold 5m\nkubectl -n routesrv port-forward deploy/routesrv 9911\n```\n\nThe log has `table held back,\n" +
			"the served one stays`, or `file … cannot be read`? See `routesrv_problems{job=\"a\",kind=\"Ingress\"}` and `kubectl apply --server-side`.", nil},
		"parts of a message":   {"The log says `table … back`. Later the log has `file … cannot be read`.", []string{`1: nothing logs "file … cannot be read"`}},
		"a flag":               {"a\nSet `--guard-hld=5m`.", []string{"2: no program has the flag --guard-hld=5m"}},
		"a flag of a command":  {"```sh\n$ routesrv serve --guard-hld 5m\n```\n", []string{"2: no program has the flag --guard-hld"}},
		"a flag in a sentence": {"Run `routesrv diff --from x`.", []string{"1: no program has the flag --from"}},
		"a message":            {"The log has `table is held`.", []string{`1: nothing logs "table is held"`}},
		"a label":              {"`routesrv_problems{severity=\"x\",names=~\"y\"}`", []string{"1: routesrv_problems has no label names"}},
		"a deployment":         {"```\nkubectl -n routesrv port-forward deployment/server 9911\n```", []string{"2: no manifest has the deployment/server"}},
		"a namespace":          {"```\nkubectl get pods -n ingress\n```", []string{"2: no manifest has the namespace/ingress"}},
		"placeholders":         {"```\nkubectl -n NAMESPACE port-forward POD 9911\n```", nil},
	} {
		got := c.check(tt.text)
		if !slices.EqualFunc(got, tt.want, strings.HasSuffix) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestHelpMentionsOnlyFlagsOfItsProgram(t *testing.T) {
	const help = "  --state-dir PATH\n        Folder. See also -kubernetes and --upstream.\n  -kubernetes\n        Read the API.\n"
	if got := checkHelp(help); !slices.Equal(got, []string{"2: the program has no flag upstream"}) {
		t.Errorf("%q", got)
	}
}

func TestTheCodeOfThisRepositoryIsRead(t *testing.T) {
	c, err := readCode("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !c.hasFlag("guard") || !c.hasFlag("kubernetes-redis-service-port") || !c.names["deployment/routesrv"] || !c.names["namespace/routesrv"] ||
		!slices.Contains(c.labels["routesrv_problems"], "reason") || !c.hasMessage("certificates changed and cannot be read") {
		t.Errorf("%d words, %d literals, names %v", len(c.words), len(c.literals), c.names)
	}
}
