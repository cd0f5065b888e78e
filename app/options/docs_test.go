package options_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
)

// helpText returns the help of the route server.
func helpText(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	cmd := &cobra.Command{Use: "routesrv", Long: "Serves."}
	cmd.SetOut(&b)
	if _, _, err := parseWith(cmd, options.RouteServerFlags, []string{"-help"}, options.Env{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHelpHasEverythingInGroups: and its lines fit a terminal.
func TestHelpHasEverythingInGroups(t *testing.T) {
	help := helpText(t)
	at := 0
	for _, g := range []string{
		"Source", "Upstream", "Polling", "Selection", "Generated routes", "Conversion", "Annotations", "East-west", "Table processing", "Guard",
		"Listeners and shutdown", "TLS and protection", "Shards", "Logging", "State folder", "Events",
	} {
		i := strings.Index(help[at:], "\n"+g+" (")
		if i < 0 {
			t.Errorf("group %q is missing or too early", g)
			continue
		}
		at += i
	}
	for _, f := range allFlags() {
		if n := len(regexp.MustCompile(`(?m)^ +(-., )?--`+f.Name+`( |$)`).FindAllString(help, -1)); n != 1 {
			t.Errorf("-%s is there %d times", f.Name, n)
		}
		if !strings.HasSuffix(f.Usage, ".") {
			t.Errorf("-%s: usage %q is no sentence", f.Name, f.Usage)
		}
	}
	for i, line := range strings.Split(help, "\n") {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("line %d is too long: %q", i+1, line)
		}
	}
	for _, name := range []string{"ROUTESRV_FLAG_", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"} {
		if !strings.Contains(help, name) {
			t.Errorf("help does not name the variable %s", name)
		}
	}
}

// TestForeignFlagsAreSorted: a generated document must not change by itself.
func TestForeignFlagsAreSorted(t *testing.T) {
	if !slices.IsSortedFunc(ignoredFlags(), func(a, b *options.Flag) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
}
