package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Documents quote flags. A quote that the code does not have sends a reader who copies it into an error.

var (
	inlineCode = regexp.MustCompile("`([^`]+)`")
	quotedFlag = regexp.MustCompile(`^--?([a-z][a-z0-9-]*[a-z0-9])(=.*)?$`)
	ourCommand = regexp.MustCompile(`(?:^|[\s/])(routesrv|dataplane-client)(?: |$)|kubectl routesrv`)
)

// foreignFlags are flags of other programs that the text quotes alone.
var foreignFlags = strings.Fields(`previous noout enddate sync-policy kubernetes-healtcheck self-heal auto-prune race shuffle timeout args full fuzz fuzztime run bench benchtime count for seed plan packages help goal record
	cpu benchmem update context key certificate-identity-regexp certificate-oidc-issuer repo deletion-policy as
	trimpath ldflags check only drop-caches kubeconfig o k n f A a x n0 soak server-side wait prune watch-cache feature-gates
	runtime-config request-timeout max-requests-inflight max-mutating-requests-inflight default-watch-cache-size audit-log-path listen-metrics-urls
	storage-media-type web.enable-lifecycle enable-lifecycle no-new-privs privileged hostNetwork new-bundle-format tlog-upload use-signing-config it type path source revision
	modes states length clients floods burst factor`)

// checkQuotes requires that documents quote only flags that a program has.
func checkQuotes() error {
	known := make(map[string]bool)
	for _, name := range slices.Concat(flagNames(), foreignFlags) {
		known[name] = true
	}
	documents, err := documentFiles(".")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range documents {
		if name == "CHANGELOG.md" || strings.Contains(name, "testdata/") {
			continue // about other versions and programs
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, flag := range flagsOf(string(text)) {
			if !known[flag] {
				errs = append(errs, fmt.Errorf("%s: no program has the flag %s", name, flag))
			}
		}
	}
	return errors.Join(errs...)
}

// flagsOf returns the flags that a document quotes: alone, or in a command of ours.
func flagsOf(text string) (flags []string) {
	var quotes []string
	for line := range strings.Lines(text) {
		if ourCommand.MatchString(strings.TrimPrefix(strings.TrimSpace(line), "$ ")) && !strings.Contains(line, "`") {
			quotes = append(quotes, line)
		}
	}
	for _, m := range inlineCode.FindAllStringSubmatch(strings.Join(prose(text), "\n"), -1) {
		if strings.HasPrefix(m[1], "-") || ourCommand.MatchString(m[1]) {
			quotes = append(quotes, m[1])
		}
	}
	for _, quote := range quotes {
		for _, word := range strings.Fields(quote) {
			if m := quotedFlag.FindStringSubmatch(strings.Trim(word, "[],")); m != nil {
				flags = append(flags, m[1])
			}
		}
	}
	return flags
}
