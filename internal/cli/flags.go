package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Limits and defaults of the flags of all commands.
const (
	defaultTimeout  = 10 * time.Second
	defaultParallel = 16
	maxParallel     = 256
)

// job is a command with the values of its flags.
type job interface {
	define(*pflag.FlagSet)
	run(ctx context.Context, s *session) (status int, err error)
}

// command describes a job.
type command struct {
	name, args, summary string
	intro               string // description, including the exit statuses
	examples            []example
	min, max            int      // arguments in addition to the places
	outputs             []string // forms of the result
	inPod               bool     // it changes something, so routesrv runs it in the pod
	job                 func() job
}

// example is a call with its purpose. Arguments that begin with @ stand for places, and are shown only if the places are URLs.
type example struct{ what, call string }

// flags returns the flags of a command.
func (p Program) flags(c command, j job, places Places, s *session) *pflag.FlagSet {
	set := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	s.output, s.timeout, s.parallel = "text", defaultTimeout, defaultParallel
	j.define(set)
	set.VarP(&choice{&s.output, c.outputs}, "output", "o", "form of the result: "+strings.Join(c.outputs, ", "))
	set.Var(&period{&s.timeout}, "timeout", "longest time that one cluster may take, from 100ms to 10m")
	if p.Remote {
		set.Var(&count{&s.parallel, 1, maxParallel}, "parallel", "how many clusters are asked at a time")
	}
	places.Define(set)
	return set
}

// help returns the text of --help.
func (p Program) help(c command, set *pflag.FlagSet, places Places) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s\n\n%s\n", c.summary, p.usage(c, places), strings.TrimSpace(c.intro))
	if len(c.examples) > 0 {
		b.WriteString("\nExamples\n")
	}
	for _, e := range c.examples {
		if !p.Remote && strings.Contains(e.call, "--context") {
			continue
		}
		fmt.Fprintf(&b, "  %s\n      %s %s\n", e.what, p.Name, p.example(e.call))
	}
	b.WriteString("\nFlags\n" + set.FlagUsagesWrapped(100))
	return b.String()
}

func (p Program) usage(c command, places Places) string {
	words := []string{p.Name, c.name, "[flags]"}
	for _, w := range []string{places.Args(), c.args} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// example removes the URLs from a call if the places are clusters, and the flags of clusters if the places are URLs.
func (p Program) example(call string) string {
	const url = " http://routesrv:9911"
	if p.Remote || p.Beside {
		return strings.ReplaceAll(call, " @", "")
	}
	return strings.ReplaceAll(call, " @", url)
}

// overview returns the text of --help without a command.
func (p Program) overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s asks the route servers of your clusters, and the proxies behind them.\n\nUsage: %s COMMAND [flags] [arguments]\n\nCommands\n", p.Name, p.Name)
	for _, c := range p.commands() {
		fmt.Fprintf(&b, "  %-11s %s\n", c.name, c.summary)
	}
	b.WriteString("  completion  Prints the completion script of a shell: bash, zsh, fish, or kubectl.\n  version     Prints the version.\n")
	fmt.Fprintf(&b, "\nThe exit status is %d if all is well, %d if something is not, and %d if somebody did not answer or the call is wrong.\n",
		Healthy, Unhealthy, Trouble)
	fmt.Fprintf(&b, "%s COMMAND --help has the details and examples.\n", p.Name)
	return b.String()
}

// choice accepts one of the given words.
type choice struct {
	dst   *string
	words []string
}

// String, Set and Type implement pflag.Value, here and for the types below.
func (c *choice) String() string { return *c.dst }
func (c *choice) Type() string   { return strings.TrimPrefix(strings.Join(c.words, "|"), "|") }
func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("want %s", strings.TrimPrefix(strings.Join(c.words, ", "), ", "))
	}
	*c.dst = s
	return nil
}

// period accepts a duration that users may wait.
type period struct{ dst *time.Duration }

func (p *period) String() string { return p.dst.String() }
func (p *period) Type() string   { return "duration" }
func (p *period) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 100*time.Millisecond || d > 10*time.Minute {
		return fmt.Errorf("want a time with its unit, such as 10s, from 100ms to 10m")
	}
	*p.dst = d
	return nil
}

// count accepts a number between two limits.
type count struct {
	dst      *int
	min, max int
}

func (c *count) String() string { return fmt.Sprint(*c.dst) }
func (c *count) Type() string   { return "int" }
func (c *count) Set(s string) error {
	var n int
	if _, err := fmt.Sscanf(s, "%d", &n); err != nil || n < c.min || n > c.max || fmt.Sprint(n) != s {
		return fmt.Errorf("want a number from %d to %d", c.min, c.max)
	}
	*c.dst = n
	return nil
}
