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
//
// # Files
//
// Calls point down the list of files:
//
//	cli.go                              the programs and their commands
//	commands.go                         the table of the commands
//	status.go  clients.go  problems.go  states
//	steer.go  diff.go  get.go           orders; comparisons; one page
//	held.go  history.go                 what is held and accepted; what was served
//	questions.go  manifests.go          explain and match; the same and takeovers from manifests
//	session.go                          one run: flags, places, arguments, questions to replicas
//	output.go                           tables and JSON
package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
)

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
