package main

import (
	"context"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
)

// asking returns the commands that query running route servers by URL.
func asking() cli.Program {
	p := cli.Program{Name: "routesrv", Places: cli.NewURLs, InPod: inPod, Version: config.VersionText("routesrv", version)}
	for _, c := range []struct {
		name, summary string
		flags         []config.FlagDoc
	}{
		{"compile", "Prints the table of manifests.", config.Flags()},
		{"diff", "Compares two tables.", diffFlags()},
		{"explain", "Says what became of an Ingress, a RouteGroup, a route or a host.", explainFlags()},
		{"match", "Finds the route of a request.", matchFlags()},
		{"migrate", "Writes an overlay for a Deployment of Skipper's route server.", migrateFlags()},
		{"webhook", "Answers API servers before they store an Ingress or a RouteGroup.", nil},
	} {
		o := cli.OtherCommand{Name: c.name, Summary: c.summary}
		for _, f := range c.flags {
			dashes := "-"
			if f.Own {
				dashes = "--"
			}
			o.Flags = append(o.Flags, dashes+f.Name)
		}
		p.Others = append(p.Others, o)
	}
	return p
}

// asks reports whether asking has the command, including help and completion.
func asks(command string) bool {
	return command == "completion" || command == "__complete" || asking().Has(command)
}

// runAsking runs a command that queries route servers. The exit status is 0 if all is well, 1 if something is wrong, and 2 on
// trouble, such as a server that does not answer.
func runAsking(ctx context.Context, args []string, std config.Stdio) int {
	return asking().Run(ctx, args, cli.Streams(std.In, std.Out, std.Err))
}

// tlsFlags adds the flags for the certificates used with URLs.
func tlsFlags(p *config.Parser, g config.Group, t *cli.TLS) {
	for _, f := range []struct {
		name, usage string
		dst         *string
	}{
		{"cacert", cli.CACertUsage, &t.CACert}, {"cert", cli.CertUsage, &t.Cert}, {"key", cli.KeyUsage, &t.Key}, {"server-name", cli.ServerNameUsage, &t.ServerName},
	} {
		kind := "FILE"
		if f.name == "server-name" {
			kind = "NAME"
		}
		p.Flag(g, f.name, flagValue{kind: kind, set: func(s string) error { *f.dst = s; return nil }}, f.usage)
	}
}
