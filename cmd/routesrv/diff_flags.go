package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/source/tables"
	"github.com/routesrv/routesrv/shadowdiff"
)

const diffIntro = `Compares two routing tables by meaning: the order of endpoints makes no difference, the order of filters
does. A and B are each one of

    a file of routes, such as the copy that a data plane keeps
    a file or folder of manifests, which is compiled with the flags of the server
    the URL of a route server, such as http://routesrv/routes or http://routesrv/routes/eu-central-1a
    the URL of the support listener of a Skipper, such as http://10.2.0.7:9911/routes
    -, routes on standard input

If a server of an https URL requires a certificate, as with components/mtls, give --cert and --key.

The exit status is 0 if the tables have the same meaning, 1 if they differ, and 2 after an error.

Would a change of settings change anything?
    routesrv compile -config-file old.yaml ./manifests | routesrv diff -config-file new.yaml - ./manifests

Does a proxy have the table of the route server? Endpoints come and go, so ignore them:
    routesrv diff --ignore endpoints http://routesrv/routes http://10.2.0.7:9911/routes

The same, with a route server that requires certificates:
    routesrv diff --cacert ca.crt --cert tls.crt --key tls.key https://routesrv/routes ./routes.eskip

Compare two route servers of one cluster until Ctrl-C, and report only lasting differences:
    routesrv diff --watch http://old/routes http://new/routes
`

// groupDiff groups the comparison flags in the help.
const groupDiff config.Group = "Comparison"

// diffOptions are the settings of routesrv diff.
type diffOptions struct {
	server   config.RouteServer // for manifests
	output   string             // text, json or html
	ignore   shadowdiff.Ignore
	watch    bool
	interval time.Duration
	timeout  time.Duration
	text     shadowdiff.TextOptions
	tls      cli.TLS
}

// diffFlags documents the flags of the command.
func diffFlags() []config.FlagDoc {
	color := ""
	_, p := newDiffParser(&color)
	return p.Flags()
}

func newDiffParser(color *string) (*diffOptions, *config.Parser) {
	o := &diffOptions{output: "text", interval: shadowdiff.DefaultInterval, timeout: tables.DefaultTimeout}
	p := config.NewRouteServer(config.Command{
		Name: "routesrv diff", Args: "A B", Intro: diffIntro, MinArgs: 2, MaxArgs: 2, Skipper: true,
	}, &o.server)
	p.Flag(groupDiff, "output", choice(&o.output, "text", "json", "html"), "Form of the result: text, json (schema "+
		shadowdiff.Schema+") or html (a self-contained page).")
	p.Flag(groupDiff, "ignore", flagValue{kind: "LIST", set: func(s string) (err error) {
		o.ignore, err = shadowdiff.ParseIgnore(s)
		return err
	}}, "Differences to ignore: endpoints, for endpoints and their zones, and id=REGEX, for routes with a matching id; "+
		"separated by commas. The last line counts the ignored differences.")
	p.Flag(groupDiff, "watch", flagValue{kind: "bool", def: "false", boolean: true, set: func(s string) (err error) {
		o.watch, err = strconv.ParseBool(s)
		return err
	}}, "Compare repeatedly until interrupted, and print only new and resolved differences. A difference is reported once skew "+
		"cannot explain it: when both tables have a revision that is new enough, else after three comparisons over two "+
		"intervals. The exit status is that of the last comparison.")
	p.Flag(groupDiff, "interval", period(&o.interval), "Time between two comparisons of --watch.")
	p.Flag(groupDiff, "timeout", period(&o.timeout), "Time limit for one table from a URL.")
	p.Flag(groupDiff, "color", choice(color, "auto", "always", "never"), "Colours in the text: auto means always on a terminal, "+
		"unless the variable NO_COLOR is set.")
	tlsFlags(p, groupDiff, &o.tls)
	return o, p
}

// parseDiff reads the command line of routesrv diff, the environment and the configuration file.
func parseDiff(args []string, env config.Env, std config.Stdio) (diffOptions, []string, []config.Warning, error) {
	color := "auto"
	parsed, p := newDiffParser(&color)
	places, warnings, err := p.Parse(args, env)
	o := *parsed
	if err != nil && !errors.Is(err, config.ErrChecked) {
		return o, nil, warnings, err
	}
	if o.watch && o.output == "html" {
		return o, nil, warnings, &config.Error{Flag: "--output", Err: fmt.Errorf("--watch prints text or json, not html")}
	}
	if o.server.Source.Kubernetes {
		warnings = append(warnings, config.Warning{Flag: "-kubernetes", Text: "has no effect: the tables are A and B"})
	}
	if len(o.server.Source.Manifests) > 0 {
		warnings = append(warnings, config.Warning{Flag: "--manifests", Text: "has no effect: the tables are A and B"})
	}
	o.text = textOptions(std.Out, env.Environ, color)
	return o, places, warnings, err
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// textOptions chooses colours for the output stream.
func textOptions(out io.Writer, environ []string, color string) shadowdiff.TextOptions {
	o := shadowdiff.TextOptions{Color: color == "always"}
	if !isTerminal(out) {
		return o
	}
	f := out.(*os.File)
	if width, _, err := term.GetSize(int(f.Fd())); err == nil {
		o.Width = width
	}
	plain := slices.ContainsFunc(environ, func(e string) bool {
		return strings.HasPrefix(e, "NO_COLOR=") && e != "NO_COLOR=" || e == "TERM=dumb"
	})
	o.Color = o.Color || color == "auto" && !plain
	return o
}

// flagValue is a pflag.Value whose setter is a function.
type flagValue struct {
	kind, def string
	boolean   bool
	repeated  bool
	set       func(string) error
}

// String, Set, Type, IsBoolFlag and IsRepeated are the methods that config requires of a flag.
func (v flagValue) String() string     { return v.def }
func (v flagValue) Set(s string) error { return v.set(s) }
func (v flagValue) Type() string       { return v.kind }
func (v flagValue) IsBoolFlag() bool   { return v.boolean }
func (v flagValue) IsRepeated() bool   { return v.repeated }

// choice accepts one of the given words.
func choice(dst *string, words ...string) flagValue {
	return flagValue{kind: strings.Join(words, "|"), def: *dst, set: func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%q: want %s", s, strings.Join(words, ", "))
		}
		*dst = s
		return nil
	}}
}

// period accepts a duration above zero.
func period(dst *time.Duration) flagValue {
	return flagValue{kind: "duration", def: dst.String(), set: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < time.Millisecond || d > 24*time.Hour {
			return fmt.Errorf("%q: want a time with its unit, such as 3s, from 1ms to 24h", s)
		}
		*dst = d
		return nil
	}}
}
