package main

import (
	"fmt"
	"strings"

	"github.com/routesrv/routesrv/internal/config"
)

// comparedParts returns the tables that compare flags with Skipper's route server: the flags that it reads, and those that are
// new here.
func comparedParts() map[string]string {
	var theirs strings.Builder
	theirs.WriteString("| flag | default | here | |\n|---|---|---|---|\n")
	group := config.Group("")
	for _, f := range config.ComparedFlags() {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&theirs, "| **%s** | | | |\n", group)
		}
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		fmt.Fprintf(&theirs, "| `-%s` | %s | %s | %s |\n", f.Name, def, f.Likeness, cell(f.Note))
	}
	var ours strings.Builder
	ours.WriteString("| group | flags |\n|---|---|\n")
	names := make(map[config.Group][]string)
	var groups []config.Group // in the order of the help
	for _, f := range config.Flags() {
		if !f.Own {
			continue
		}
		if names[f.Group] == nil {
			groups = append(groups, f.Group)
		}
		names[f.Group] = append(names[f.Group], "`--"+f.Name+"`")
	}
	for _, g := range groups {
		fmt.Fprintf(&ours, "| %s | %s |\n", g, strings.Join(names[g], ", "))
	}
	return map[string]string{"flags of the reference": theirs.String(), "flags of our own": ours.String()}
}

// cell escapes a text for a table.
func cell(text string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text) }
