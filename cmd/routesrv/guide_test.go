package main

import (
	"os"
	"strings"
	"testing"
)

// TestSettingsInTheMigrationGuideAreCheckedAsItShows runs the commands of the guide that use --check-config.
func TestSettingsInTheMigrationGuideAreCheckedAsItShows(t *testing.T) {
	const guide = "../../docs/start/migrate.md"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(text), "```console\n$ routesrv --check-config")
	if !ok {
		t.Fatalf("%s has no block with --check-config", guide)
	}
	block, _, _ = strings.Cut("$ routesrv --check-config"+block, "```")
	block = strings.ReplaceAll(block, "\\\n", " ")
	commands := 0
	for _, part := range strings.Split(block, "$ routesrv ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		commands++
		if r := runWith(t, "", strings.Fields(command)...); r.err+r.out != want {
			t.Errorf("routesrv %s\ngot\n%swant\n%s", command, r.err+r.out, want)
		}
	}
	if commands < 3 {
		t.Errorf("only %d commands were run", commands)
	}
}
