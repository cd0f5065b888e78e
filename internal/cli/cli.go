// Package cli has the commands that ask running route servers: status, clients, problems, explain, match, diff, held and accept.
//
// Two programs offer them. routesrv takes the URLs of support listeners ([URLs]); the plugin of kubectl finds pods in clusters by
// other [Places]. The commands do not know the difference: a [Cluster] is one route server with its replicas, wherever these are.
//
// # Guarantees
//
// Every cluster has a limit in time of its own, and is asked beside the others: one that does not answer is named, and delays
// nobody beyond that limit. The exit status is [Healthy], [Unhealthy] or [Trouble], and never Healthy when a cluster or replica that was to be asked gave no
// answer, or the replicas disagree. Names and messages of servers reach a terminal with control and format characters escaped.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/routesrv/routesrv/shadowdiff"
)

// The exit statuses of the commands.
const (
	Healthy   = 0 // what was asked for is fine
	Unhealthy = 1 // there is an answer, and something is not fine
	Trouble   = 2 // somebody did not answer, or the command was called wrongly
)

// Stdio are the standard streams. The booleans say which of them are terminals.
type Stdio struct {
	In                                   io.Reader
	Out, Err                             io.Writer
	InTerminal, OutTerminal, ErrTerminal bool
}

// Streams looks which streams are terminals.
func Streams(in io.Reader, out, err io.Writer) Stdio {
	return Stdio{in, out, err, isTerminal(in), isTerminal(out), isTerminal(err)}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Cluster is one route server with all of its replicas.
type Cluster struct {
	// Name is that of the context; empty if there is only one cluster and it has no name.
	Name string
	// Find returns the replicas. It is called at most a few times, one call after the other.
	Find func(ctx context.Context) ([]Replica, error)
}

// Replica is one process of a route server.
type Replica struct {
	Name string
	// Fault says why nobody can ask this replica, such as a pod that is pending; empty if it can be asked.
	Fault string
	// Support and Main are its listeners. Main is nil where only the support listener is known.
	Support, Main *Listener
}

// Listener is where one listener answers.
type Listener struct {
	URL       string // without path, such as http://localhost:9911
	Transport http.RoundTripper
}

// Places are the route servers that a command asks.
type Places interface {
	// Define adds the flags that choose them.
	Define(*pflag.FlagSet)
	// Args is what help shows of them among the arguments, such as "URL..."; empty if only flags choose.
	Args() string
	// Clusters takes its own arguments off args, and returns the route servers and the other arguments. It does not connect.
	Clusters(args []string) (clusters []Cluster, rest []string, err error)
	// Complete returns the values that a flag of Define may have; nil for a flag that has any.
	Complete(flag string) []string
	// Close ends all connections.
	Close()
}

// Program is a program with the commands of this package.
type Program struct {
	// Name is what users type, such as "kubectl routesrv".
	Name string
	// Places makes the places of one run.
	Places func() Places
	// Remote says that the places are clusters. The commands explain, match and diff exist only then: routesrv has its own.
	Remote bool
	// Version is what the command version prints.
	Version string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Others are further commands of the program, for completion.
	Others []OtherCommand
}

// context is the cluster of another context, where the places know contexts.
func (s *session) context(name string) (Cluster, error) {
	if e, ok := s.places.(Elsewhere); ok {
		return e.Context(name)
	}
	return Cluster{}, errors.New("there are no contexts here")
}

func (p Program) clock() func() time.Time {
	if p.Now != nil {
		return p.Now
	}
	return time.Now
}

// usageError is a call with wrong arguments.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Has reports whether a command of this name exists.
func (p Program) Has(name string) bool {
	_, ok := p.find(name)
	return ok
}

func (p Program) find(name string) (command, bool) {
	for _, c := range p.commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// Run runs one command: args begin with its name. It returns the exit status.
func (p Program) Run(ctx context.Context, args []string, std Stdio) int {
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
		fmt.Fprintf(std.Err, "%s: unknown command %q: want one of %s\n", p.Name, shadowdiff.Printable(args[0]), strings.Join(p.names(), ", "))
		return Trouble
	}
	status, err := p.run(ctx, c, args[1:], std)
	if err != nil {
		fmt.Fprintf(std.Err, "%s %s: %s\n", p.Name, c.name, shadowdiff.Printable(err.Error()))
		if _, usage := errors.AsType[usageError](err); usage {
			fmt.Fprintf(std.Err, "%s %s --help explains it.\n", p.Name, c.name)
		}
		return Trouble
	}
	return status
}

func (p Program) names() []string {
	var names []string
	for _, c := range p.commands() {
		names = append(names, c.name)
	}
	return append(names, "completion", "version")
}

// session is one run of a command.
type session struct {
	program  Program
	places   Places
	std      Stdio
	clusters []Cluster
	args     []string // without the places
	flags    *pflag.FlagSet
	output   string // text, wide or json
	timeout  time.Duration
	parallel int
	named    bool // rows begin with the name of the cluster
	now      func() time.Time
}

func (p Program) run(ctx context.Context, c command, args []string, std Stdio) (int, error) {
	places := p.Places()
	defer places.Close()
	s := &session{program: p, places: places, std: std, now: p.clock()}
	job := c.job()
	set := p.flags(c, job, places, s)
	s.flags = set
	if err := set.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			_, err := io.WriteString(std.Out, p.help(c, set, places))
			return Healthy, err
		}
		return Trouble, usageError{err}
	}
	clusters, rest, err := places.Clusters(set.Args())
	if err != nil {
		return Trouble, usageError{err}
	}
	switch {
	case len(rest) < c.min:
		return Trouble, usagef("too few arguments: want %s", c.args)
	case len(rest) > c.max:
		return Trouble, usagef("unexpected argument %q", rest[c.max])
	}
	s.clusters, s.args = clusters, rest
	s.named = len(clusters) > 1 || len(clusters) == 1 && clusters[0].Name != ""
	return job.run(ctx, s)
}
