package main

import (
	"fmt"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/compile/rules"
)

// reasonParts returns the list of all reasons of problems, without what to do, which each problem says, and the table of the arguments that proxies do not survive.
func reasonParts() map[string]string {
	var b strings.Builder
	for _, r := range rules.Reasons() {
		severity := r.Severity.String()
		if r.Elsewhere {
			severity += " \\*"
		}
		fmt.Fprintf(&b, "- `%s` (%s): %s\n", r.Reason, severity, r.Means)
	}
	b.WriteString("\n\\* other objects, or pods, can cause or solve this problem without a change of the object.\n")
	return map[string]string{"reasons": b.String(), "dangers": dangerTable()}
}

// dangerTable lists the arguments of filters that proxies accept and do not survive.
func dangerTable() string {
	var b strings.Builder
	b.WriteString("| filter | rule | otherwise |\n|---|---|---|\n")
	for _, d := range catalogue.Dangers() {
		effect := d.Effect
		if !d.Seen {
			effect += " \\*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(d.Filters, "`, `"), cell(d.Rule), cell(effect))
	}
	b.WriteString("\n\\* not seen on a running proxy, but follows from what the proxy does with the argument.\n")
	return b.String()
}
