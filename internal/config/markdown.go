package config

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes the reference of the flags of the route server, docs/flags.md.
func WriteMarkdown(w io.Writer) error {
	return routeServerParser(new(RouteServer)).WriteMarkdown(w)
}

// WriteMarkdown writes the reference of the flags of the command as a document. The document depends only on the flags, so that a
// test can compare it with the file.
func (p *Parser) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Flags of %s\n\n", p.cmd.Name)
	b.WriteString("<!-- Generated from package config. Do not edit. -->\n\n")
	b.WriteString(prose(settingsText) + "\n\n")
	if p.cmd.Skipper {
		b.WriteString("Flags with one dash are Skipper's, flags with two dashes are new; both forms work for both. [Other " +
			"flags of Skipper](#other-flags-of-skipper) are listed separately.\n\n")
	}
	flags := p.Flags()
	for _, g := range p.groups() {
		fmt.Fprintf(&b, "## %s\n\n", g.name)
		if g.sentence != "" {
			b.WriteString(g.sentence + "\n\n")
		}
		b.WriteString("| flag | type | default | |\n|---|---|---|---|\n")
		for _, f := range flags {
			if f.Group == g.name {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(dashes(f.Name, f.Own)+f.Name), cell(f.Type), code(f.Default), cell(f.Usage))
			}
		}
		b.WriteString("\n")
	}
	writeEnvironment(&b)
	writeFile(&b)
	if p.cmd.Skipper {
		writeUnsupported(&b)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func writeEnvironment(b *strings.Builder) {
	b.WriteString("## Environment\n\n| variable | |\n|---|---|\n")
	for _, e := range environmentDocs() {
		names := strings.Split(e.name, ", ")
		for i, n := range names {
			names[i] = code(n)
		}
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(names, ", "), cell(e.usage))
	}
	b.WriteString("\n")
}

func writeFile(b *strings.Builder) {
	b.WriteString("## Configuration file\n\n" +
		"The file of `-config-file` is one YAML mapping of at most 1 MiB, with the names of the flags as keys. An unknown key " +
		"and a duplicate key are errors, with file and line.\n\n" +
		"```yaml\n" +
		"kubernetes: true\n" +
		"kubernetes-in-cluster: true\n" +
		"source-poll-timeout: 3000\n" +
		"wait-for-healthcheck-interval: 65s\n" +
		"kubernetes-only-allowed-external-names: true\n" +
		"kubernetes-allowed-external-name:\n" +
		"- ^example[.]org$\n" +
		"- ^example[.]com$\n" +
		"kubernetes-east-west-range-domains: [ingress.cluster.local]\n" +
		"kubernetes-east-west-range-predicates: ClientIP(\"10.2.0.0/15\")\n" +
		"```\n\n")
}

func writeUnsupported(b *strings.Builder) {
	b.WriteString("## Other flags of Skipper\n\n" + unsupportedText + "\n\n")
	var reasons []string // in the order of the first flag with each reason
	names := make(map[string][]string)
	for _, f := range UnsupportedFlags() {
		if f.Refused {
			fmt.Fprintf(b, "%s is refused: %s.\n\n", code("-"+f.Name), prose(f.Reason))
			continue
		}
		if names[f.Reason] == nil {
			reasons = append(reasons, f.Reason)
		}
		names[f.Reason] = append(names[f.Reason], code("-"+f.Name))
	}
	b.WriteString("| these have no effect on a route server | because |\n|---|---|\n")
	for _, r := range reasons {
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(names[r], " "), cell(r))
	}
}

// prose returns a text with flags set as code.
func prose(s string) string {
	words := strings.Split(s, " ")
	for i, w := range words {
		bare := strings.TrimRight(w, ".,;:)")
		if len(bare) > 1 && bare[0] == '-' && bare[1] != '>' {
			words[i] = code(bare) + w[len(bare):]
		}
	}
	return strings.Join(words, " ")
}

// cell returns prose for a table, where a bar would end the cell and an angle bracket could begin a tag.
func cell(s string) string {
	return prose(strings.NewReplacer("|", "\\|", "<", "&lt;", "\n", " ").Replace(s))
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "|", "\\|") + "`"
}
