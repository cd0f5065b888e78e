// Package cli implements the commands that query running route servers; their table is in commands.go.
//
// Three programs offer them: routesrv with the URLs of support listeners ([URLs]), the kubectl plugin with other [Places] that
// find pods in clusters, and dataplane-client for the process in its own pod. explain, match and diff also take files and manifests.
//
// # Guarantees
//
// Clusters are queried concurrently: one that does not answer is reported, and delays the others by at most its time limit. The exit
// status is [Healthy], [Unhealthy] or [Trouble], and never Healthy if a cluster did not answer, or if the replicas disagree. Control
// and format characters in names and messages of servers are escaped before they reach a terminal.
package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
)

// Exit statuses of the commands.
const (
	Healthy   = 0 // the answer is good
	Unhealthy = 1 // an answer arrived, and it is not good
	Trouble   = 2 // a server did not answer, or the arguments are wrong
)

// verdict returns the exit status for an answer.
func verdict(good bool) int {
	if good {
		return Healthy
	}
	return Unhealthy
}

// What a command queries.
type (
	Cluster  = query.Cluster
	Replica  = query.Replica
	Listener = query.Listener
	Places   = query.Places
)

// Program is a program with the commands of this package.
type Program struct {
	// Name is what users type, such as "kubectl routesrv".
	Name string
	// Places returns the places for one run.
	Places func() Places
	// InPod returns the place of commands that change something: the process in the same pod (see [Socket]). nil means Places.
	InPod func() Places
	// Beside means that the program is the one beside a proxy: it has only the commands that query its own process.
	Beside bool
	// Remote means that the places are clusters. Otherwise explain, match and diff take their tables as arguments.
	Remote  bool
	Version string
	// Env has the variables that set flags.
	Env options.Env
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Run runs one command: args begins with its name. It returns the exit status.
func (p Program) Run(ctx context.Context, args []string, std program.Stdio) int {
	root := &cobra.Command{
		Use: strings.ReplaceAll(p.Name, " ", "-"), Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: p.Name},
		Long: p.Name + " queries the route servers of your clusters, and the proxies behind them.\n\n" +
			"The exit status is 0 if all is well, 1 if something is not, and 2 if a server did not answer or the call is wrong.",
	}
	root.AddCommand(p.Commands(std)...)
	return program.Execute(ctx, root, p.Version, args, std)
}

// Commands returns the commands for one run.
func (p Program) Commands(std program.Stdio) (all []*cobra.Command) {
	for _, c := range commands() {
		if p.Beside && !c.beside || !p.Beside && c.name == "get" {
			continue
		}
		cmd := p.command(c, std)
		for _, below := range c.below {
			cmd.AddCommand(p.command(below, std))
		}
		all = append(all, cmd)
	}
	return all
}

// command returns one command, without those below it.
func (p Program) command(c command, std program.Stdio) *cobra.Command {
	s := &session{program: p, std: std, now: p.Now, places: p.Places()}
	if c.inPod && p.InPod != nil {
		s.places = p.InPod()
	}
	if s.now == nil {
		s.now = time.Now
	}
	cmd := &cobra.Command{
		Use: strings.TrimSpace(c.name + " [flags] " + p.arguments(c, s.places)), Short: c.short, Long: c.long, Hidden: c.short == "",
		Example: p.examples(c.examples), DisableFlagsInUseLine: true, ValidArgs: c.words, Args: cobra.ArbitraryArgs,
	}
	if c.fails != "" {
		cmd.Long += "\n\nThe exit status is 0 if all is well, 1 if " + c.fails + ",\nand 2 if a server does not answer or the call is wrong."
	}
	s.define(cmd, c)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return program.StatusError(s.run(cmd, c, args))
	}
	return cmd
}

// arguments returns the arguments of a command for help.
func (p Program) arguments(c command, places Places) string {
	words := []string{places.Args(), c.args}
	switch {
	case c.local && p.Remote && c.table != "":
		words = []string{c.args, "[" + c.table + "]"}
	case c.local:
		words = []string{c.args, c.table}
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// limits returns how many arguments a command takes, in addition to the places.
func (p Program) limits(c command) (least, most int) {
	tables := len(strings.Fields(c.table))
	if c.local && !p.Remote {
		return c.min + tables, c.max + tables
	}
	return c.min, c.max + tables
}

// examples returns calls for the kind of places that the program has: @ stands for places, which are shown only if they are URLs, and
// @routes for the URL of a table. A line that begins with # describes the next one.
func (p Program) examples(text string) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		call := strings.TrimSpace(lines[i+1])
		switch {
		case p.Remote && strings.Contains(call, " @routes"), !p.Remote && strings.Contains(call, "context"):
			continue
		case p.Remote || p.Beside:
			call = strings.ReplaceAll(call, " @", "")
		default:
			call = strings.NewReplacer(" @routes", " http://routesrv/routes", " @", " http://routesrv:9911").Replace(call)
		}
		fmt.Fprintf(&b, "  %s\n  %s %s\n", strings.TrimSpace(lines[i]), p.Name, call)
	}
	return b.String()
}

// session is one run of a command.
type session struct {
	program  Program
	places   Places
	std      program.Stdio
	job      job
	flags    *options.Flags
	clusters []Cluster
	args     []string            // without the places
	server   options.RouteServer // for manifests
	tls      options.TLSFiles    // of commands about tables
	output   string              // text or json
	timeout  time.Duration
	named    bool   // rows begin with the name of the cluster
	urls     string // file of clusters
	now      func() time.Time
}

// Limits and defaults of the flags of all commands.
const (
	defaultTimeout = 10 * time.Second
	tableTimeout   = 30 * time.Second // for commands that fetch tables
)

// define declares the flags of a command.
func (s *session) define(cmd *cobra.Command, c command) {
	f := options.New(cmd)
	s.flags, s.job = f, c.job()
	f.CommandGroup("Flags")
	s.job.define(f)
	s.output, s.timeout = "text", defaultTimeout
	if c.local {
		s.timeout = tableTimeout
	}
	f.Add("-o,--output", options.Choice(&s.output, "text", "json"), "Form of the result.")
	f.Add("--timeout", options.Duration(&s.timeout, s.timeout, 100*time.Millisecond, 10*time.Minute), "Longest time that one cluster or table may take.")
	if s.program.Remote {
		f.Add("--urls", options.Text("FILE", &s.urls, ""),
			"File of clusters, NAME URL on each line, with the URLs of support listeners; - is standard input. It needs no API server.")
	}
	f.CommandGroup("Route servers")
	s.places.Define(f)
	if c.local {
		f.TLS("tls", &s.tls, "Files for TLS to the main listeners, PEM.")
		f.Manifests(&s.server)
		cmd.Long += "\n\nManifests are compiled with the flags and the -config-file of the server: routesrv --help lists them."
	}
}

// run runs the command with its arguments.
func (s *session) run(cmd *cobra.Command, c command, args []string) (int, error) {
	defer s.places.Close()
	defer http.DefaultClient.CloseIdleConnections()
	err := program.Resolved(cmd, s.flags, s.flags.Resolve(args, s.program.Env))
	if err != nil {
		return Trouble, err
	}
	switch {
	case c.local && !s.program.Remote:
		s.args = args
	case s.urls != "":
		s.args = args
		s.clusters, err = s.listed()
	default:
		s.clusters, s.args, err = s.places.Clusters(args)
	}
	if err != nil {
		return Trouble, usageError(err)
	}
	switch least, most := s.program.limits(c); {
	case len(s.args) < least:
		return Trouble, usagef("too few arguments: needs %s", s.program.arguments(c, s.places))
	case len(s.args) > most:
		return Trouble, unexpected(s.args[most])
	}
	s.named = len(s.clusters) > 1 || len(s.clusters) == 1 && s.clusters[0].Name != ""
	return s.job.run(cmd.Context(), s)
}

// usagef returns an error in the arguments.
func usagef(format string, args ...any) error { return options.Usagef(format, args...) }

func usageError(err error) error { return &options.Error{Err: err} }

func unexpected(arg string) error { return usagef("unexpected argument %q", arg) }

// parameters returns the parameters of a request, names and values in turn, without the empty ones.
func parameters(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// ask asks the replicas of clusters, within the limits of the flags.
func ask[T any](ctx context.Context, s *session, clusters []Cluster, question func(context.Context, Replica) (T, error)) []query.Reply[T] {
	return query.Ask(ctx, s.timeout, clusters, question)
}
