package main

import (
	"fmt"
	"strings"

	"github.com/routesrv/routesrv/compile"
)

// reasonParts returns the table of all reasons of problems.
func reasonParts() map[string]string {
	var b strings.Builder
	b.WriteString("| reason | severity | what is wrong | what the team does |\n|---|---|---|---|\n")
	for _, r := range compile.Reasons() {
		do := r.Do
		if do == "" {
			do = "nothing"
		}
		severity := r.Severity.String()
		if r.Elsewhere {
			severity += " *"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Reason, severity, cell(r.Means), cell(strings.TrimSuffix(do, ".")))
	}
	b.WriteString("\n\\* other objects, or pods, can cause or solve this problem without a change of the object.\n")
	return map[string]string{"reasons": b.String()}
}
