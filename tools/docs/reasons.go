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

// effects are what happens otherwise, by the first filter of a danger, and whether that was seen on a running proxy.
var effects = map[string]struct {
	text string
	seen bool
}{
	"admissionControl":       {"zero or less ends the process as soon as the route is applied; far below a millisecond keeps a core busy", true},
	"compress":               {"the first client that accepts br ends the process", true},
	"ratelimit":              {"with -enable-ratelimits, the first request takes 24 bytes for each; below zero, requests hang", true},
	"clientRatelimit":        {"with -enable-ratelimits, each client takes 24 bytes for each request; below zero, the second request hangs; other windows keep a core busy permanently", true},
	"clusterRatelimit":       {"as ratelimit, in proxies that share their limits in a swarm", false},
	"clusterClientRatelimit": {"as clientRatelimit, in proxies that share their limits in a swarm", false},
	"chunks":                 {"each request takes a buffer of this size, outside of the code that recovers from a panic", false},
	"basicAuth":              {"applying the route reads without end, waits, or ends the process", false},
	"teeLoopback":            {"each copy of a request meets the filters again, so one request becomes thousands and takes gigabytes", true},
}

// dangerTable lists the arguments of filters that proxies accept and do not survive.
func dangerTable() string {
	var b strings.Builder
	b.WriteString("| filter | rule | otherwise |\n|---|---|---|\n")
	for _, d := range catalogue.Dangers() {
		effect := effects[d.Filters[0]].text
		if !effects[d.Filters[0]].seen {
			effect += " \\*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(d.Filters, "`, `"), cell(d.Rule), cell(effect))
	}
	b.WriteString("\n\\* not seen on a running proxy, but follows from what the proxy does with the argument.\n")
	return b.String()
}
