package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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

// job is a command with the values of its flags.
type job interface {
	define(*options.Flags)
	run(ctx context.Context, s *session) (status int, err error)
}

// runner is a job without its own flags.
type runner func(ctx context.Context, s *session) (status int, err error)

func (runner) define(*options.Flags) {}

func (r runner) run(ctx context.Context, s *session) (int, error) { return r(ctx, s) }

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

// listed reads the file of clusters: NAME URL on each line.
func (s *session) listed() (all []Cluster, err error) {
	const most = 1 << 20
	in := s.std.In
	if s.urls != "-" {
		f, err := os.Open(s.urls)
		if err != nil {
			return nil, fmt.Errorf("--urls: %w", err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(io.LimitReader(in, most))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || !query.IsURL(words[1]) {
			return nil, fmt.Errorf("--urls: line %d: must be NAME URL", n)
		}
		r := Replica{Name: words[1], Support: &Listener{URL: strings.TrimSuffix(words[1], "/")}}
		all = append(all, Cluster{Name: words[0], Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--urls: %w", err)
	}
	return all, nil
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
