package options_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/routesrv/routesrv/app/options"
)

// TestHelpHasEverythingInGroups: and its lines fit a terminal.
func TestHelpHasEverythingInGroups(t *testing.T) {
	var b bytes.Buffer
	if err := options.Help(&b); err != nil {
		t.Fatal(err)
	}
	help := b.String()
	at := 0
	for _, g := range []string{
		"Source", "Upstream", "Polling", "Selection", "Generated routes", "Conversion", "Annotations", "East-west", "Table processing", "Guard",
		"Listeners and shutdown", "TLS and protection", "Shards", "Events", "Logging", "Traces", "State folder", "Environment",
	} {
		i := strings.Index(help[at:], "\n"+g+" (")
		if i < 0 {
			t.Errorf("group %q is missing or too early", g)
			continue
		}
		at += i
	}
	for _, f := range options.Flags() {
		if n := len(regexp.MustCompile(`(?m)^  --?`+f.Name+`( |$)`).FindAllString(help, -1)); n != 1 {
			t.Errorf("-%s is there %d times", f.Name, n)
		}
		if !strings.HasSuffix(f.Usage, ".") {
			t.Errorf("-%s: usage %q is no sentence", f.Name, f.Usage)
		}
		if f.Set == "" || strings.HasSuffix(f.Set, ".") {
			t.Errorf("-%s is set by %q: want who sets it, and when", f.Name, f.Set)
		}
	}
	for i, line := range strings.Split(help, "\n") {
		if utf8.RuneCountInString(line) > 100 || strings.TrimRight(line, " ") != line {
			t.Errorf("line %d is too long or ends with a space: %q", i+1, line)
		}
	}
	for _, name := range []string{"ROUTESRV_FLAG_", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"} {
		if !strings.Contains(help, name) {
			t.Errorf("help does not name the variable %s", name)
		}
	}
}

// TestExamplesOfHelpParse: the command lines in the help texts and in help are valid.
func TestExamplesOfHelpParse(t *testing.T) {
	var b bytes.Buffer
	if err := options.Help(&b); err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, line := range strings.Split(strings.ReplaceAll(b.String(), "\\\n", ""), "\n") {
		args, ok := strings.CutPrefix(line, "    routesrv ")
		if !ok {
			continue
		}
		examples++
		_, warnings, err := options.ParseRouteServer(strings.Fields(args), options.Env{})
		if err != nil || len(warnings) != 0 {
			t.Errorf("%s: warnings %q, error %v", line, warnings, err)
		}
	}
	if examples < 3 {
		t.Errorf("%d examples in help, want 3", examples)
	}
}

// TestForeignFlagsAreSorted: a generated document must not change by itself.
func TestForeignFlagsAreSorted(t *testing.T) {
	if !slices.IsSortedFunc(options.UnsupportedFlags(), func(a, b options.UnsupportedFlag) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
}

// TestEveryFlagOfTheTableIsDefined: a program defines each row, so that none outlives its flag.
func TestEveryFlagOfTheTableIsDefined(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := make(map[string]bool)
	for _, f := range options.UnsupportedFlags() {
		foreign[f.Name] = true
	}
	for _, name := range options.FlagNames() {
		shard := strings.HasPrefix(name, "kubernetes-redis-service-") || strings.HasPrefix(name, "kubernetes-valkey-service-") // put together
		if !foreign[name] && !shard && !strings.Contains(code.String(), `"`+name+`"`) {
			t.Errorf("no program defines the flag %s of flags.yaml", name)
		}
	}
}
