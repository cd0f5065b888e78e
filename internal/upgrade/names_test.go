package upgrade_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namesFile lists the names of the first version: flags, series with their labels, endpoints with their methods.
var namesFile = filepath.Join(first, "names.txt")

// names reads the names of this version from the references, which are generated from the code and checked against
// it.
func names(t *testing.T) (all []string) {
	t.Helper()
	for _, reference := range []struct{ file, kind, expression string }{
		{"flags.md", "flag of routesrv: ", "(?m)^\\| `-{1,2}([a-z0-9-]+)` \\|"},
		{"flags-dataplane-client.md", "flag of dataplane-client: ", `(?m)^  -{1,2}([a-z0-9-]+)(?: |$)`},
		{"metrics.md", "series: ", "(?m)^\\| `([a-z_]+)` \\| ([a-z_, ]*) \\|"},
		{"endpoints.md", "endpoint: ", "(?m)^\\| `(/[^`]*)` \\| ([A-Zany, ]+) \\|"},
	} {
		text, err := os.ReadFile(filepath.Join("../../docs", reference.file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(reference.expression).FindAllStringSubmatch(string(text), -1)
		if len(found) < 10 {
			t.Fatalf("%s: only %q", reference.file, found)
		}
		for _, f := range found {
			all = append(all, strings.TrimSpace(reference.kind+strings.Join(f[1:], " ")))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestNamesOfTheFirstVersionAreThere: command lines, scrapes and scripts of the first version work with this version
// until a major version changes that.
func TestNamesOfTheFirstVersionAreThere(t *testing.T) {
	t.Parallel()
	all := names(t)
	if *record {
		writeFile(t, namesFile, strings.Join(all, "\n")+"\n")
	}
	text, err := os.ReadFile(namesFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !slices.Contains(all, line) {
			t.Errorf("%q was in the first version and is in no reference now: docs/release.md says what a version may change", line)
		}
	}
}
