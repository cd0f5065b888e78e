// Package cli implements the commands that ask running route servers: status, clients, problems, explain, match, diff, held and
// accept.
//
// Three programs offer them: routesrv with the URLs of support listeners ([URLs]), the kubectl plugin with other [Places] that
// find pods in clusters, and dataplane-client for the process in its own pod. For the commands all are the same: a [Cluster] is one
// route server with its replicas, wherever they are. explain, match and diff also take files and manifests.
//
// # Guarantees
//
// Clusters are asked concurrently, each with its own time limit: a cluster that does not answer is named, and delays the others
// no longer than that limit. The exit status is [Healthy], [Unhealthy] or [Trouble]. It is never Healthy if a cluster or replica
// did not answer, or if the replicas disagree. Control and format characters in names and messages of servers are escaped before
// they reach a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/routesrv/routesrv/app/board"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/shadowdiff"
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

// What a command asks, as package board does.
type (
	Cluster  = board.Cluster
	Replica  = board.Replica
	Listener = board.Listener
)

// Places are the route servers that a command asks.
type Places interface {
	// Define adds the flags that choose the route servers.
	Define(*options.Parser)
	// Args is the part of the arguments in help that names the places, such as "URL..."; empty if only flags choose them.
	Args() string
	// Clusters removes its own arguments from args, and returns the route servers and the other arguments. It does not connect.
	Clusters(args []string) (clusters []Cluster, rest []string, err error)
	// Close ends all connections.
	Close()
}

// Program is a program with the commands of this package.
type Program struct {
	// Name is what users type, such as "kubectl routesrv".
	Name string
	// Places returns the places for one run.
	Places func() Places
	// InPod returns the place of commands that change something: the process in the same pod (see [Socket]). nil means Places.
	InPod func() Places
	// Beside means that the program is the one beside a proxy: it has only the commands that ask its own process.
	Beside bool
	// Remote means that the places are clusters. Otherwise explain, match and diff take their tables as arguments.
	Remote bool
	// Version is the output of the command version.
	Version string
	// Env has the variables that set flags.
	Env options.Env
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Others are further commands of the program, for completion.
	Others []OtherCommand
}

// Elsewhere is implemented by places that can also name other clusters, for diff.
type Elsewhere interface {
	// Context returns the cluster of another context.
	Context(name string) (Cluster, error)
}

// context returns the cluster of another context, if the places support contexts.
func (s *session) context(name string) (Cluster, error) {
	if e, ok := s.places.(Elsewhere); ok {
		return e.Context(name)
	}
	return Cluster{}, errors.New("there are no contexts here")
}

// placesOf returns the places for one run of a command.
func (p Program) placesOf(c command) Places {
	if c.inPod && p.InPod != nil {
		return p.InPod()
	}
	return p.Places()
}

// usageError is an error in the arguments.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Has reports whether a command of this name exists.
func (p Program) Has(name string) bool {
	_, ok := p.find(name)
	return ok || name == "completion" || name == completeCommand || name == "help" || name == "version"
}

func (p Program) find(name string) (command, bool) {
	for _, c := range p.commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// Run runs one command: args begins with its name. It returns the exit status.
func (p Program) Run(ctx context.Context, args []string, std options.Stdio) int {
	if len(args) == 0 || args[0] == "help" && len(args) == 1 || args[0] == "-h" || args[0] == "--help" {
		_, _ = io.WriteString(std.Out, p.overview())
		return Healthy
	}
	if args[0] == "help" {
		args = []string{args[1], "--help"}
	}
	switch args[0] {
	case "version", "--version":
		fmt.Fprintln(std.Out, p.Version)
		return Healthy
	case "completion":
		return p.completion(args[1:], std)
	case completeCommand:
		return p.complete(args[1:], std)
	}
	c, ok := p.find(args[0])
	if !ok {
		hint := "want one of " + strings.Join(p.names(), ", ")
		if like, found := p.Nearest(args[0]); found {
			hint = "did you mean " + like + "?"
		}
		fmt.Fprintf(std.Err, "%s: unknown command %q: %s\n", p.Name, shadowdiff.Printable(args[0]), hint)
		return Trouble
	}
	status, err := p.run(ctx, c, args[1:], std)
	if err == nil {
		return status
	}
	for _, e := range unjoined(err) {
		fmt.Fprintf(std.Err, "%s %s: %s\n", p.Name, c.name, shadowdiff.Printable(e.Error()))
	}
	if _, usage := errors.AsType[usageError](err); usage {
		fmt.Fprintf(std.Err, "%s %s --help explains it.\n", p.Name, c.name)
	}
	return Trouble
}

// unjoined returns the errors that were joined; none if err is nil.
func unjoined(err error) []error {
	if usage, ok := err.(usageError); ok {
		err = usage.error
	}
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

func (p Program) names() []string {
	var names []string
	for _, c := range p.commands() {
		if !c.hidden {
			names = append(names, c.name)
		}
	}
	for _, o := range p.Others {
		names = append(names, o.Name)
	}
	return append(names, "completion", "version")
}

// Nearest returns the command whose name is closest to a mistyped one.
func (p Program) Nearest(typed string) (name string, found bool) {
	return options.Nearest(typed, p.names())
}

// session is one run of a command.
type session struct {
	program  Program
	places   Places
	std      options.Stdio
	clusters []Cluster
	args     []string // without the places
	parser   *options.Parser
	server   options.RouteServer // for manifests
	output   string              // text, json or html
	timeout  time.Duration
	parallel int
	named    bool   // rows begin with the name of the cluster
	urls     string // file of clusters
	close    func() // ends the connections to these
	now      func() time.Time
}

func (p Program) run(ctx context.Context, c command, args []string, std options.Stdio) (int, error) {
	places := p.placesOf(c)
	defer places.Close()
	s := &session{program: p, places: places, std: std, now: p.Now, close: func() {}}
	defer func() { s.close() }()
	if s.now == nil {
		s.now = time.Now
	}
	job := c.job()
	s.parser = p.parser(c, job, s)
	env := p.Env
	env.Output = std.Out
	words, warnings, err := s.parser.Parse(args, env)
	if errors.Is(err, options.ErrHelp) {
		return Healthy, nil
	}
	for _, w := range warnings {
		fmt.Fprintf(std.Err, "%s: warning: %v\n", p.Name, w)
	}
	if err != nil {
		return Trouble, usageError{err}
	}
	if c.local && !p.Remote || c.listed {
		s.args = words
	} else if s.urls != "" {
		if s.clusters, err = s.listed(); err != nil {
			return Trouble, usageError{err}
		}
		s.args = words
	} else if s.clusters, s.args, err = places.Clusters(words); err != nil {
		return Trouble, usageError{err}
	}
	least, most := c.limits(p)
	switch {
	case len(s.args) < least:
		return Trouble, usagef("too few arguments: want %s", p.arguments(c, places))
	case len(s.args) > most:
		return Trouble, usagef("unexpected argument %q", s.args[most])
	}
	s.named = len(s.clusters) > 1 || len(s.clusters) == 1 && s.clusters[0].Name != ""
	return job.run(ctx, s)
}
