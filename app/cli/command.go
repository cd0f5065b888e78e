package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
)

// Limits and defaults of the flags of all commands.
const (
	defaultTimeout  = 10 * time.Second
	tableTimeout    = 30 * time.Second // for commands that fetch tables
	defaultParallel = 16
	maxParallel     = 256
)

// job is a command with the values of its flags.
type job interface {
	define(*options.Parser)
	run(ctx context.Context, s *session) (status int, err error)
}

// noFlags is the part of a job that has none of its own.
type noFlags struct{}

func (noFlags) define(*options.Parser) {}

// command describes a job.
type command struct {
	name, args string
	min, max   int      // arguments in addition to the places
	outputs    []string // forms of the result; nil means text and json
	inPod      bool     // it changes something, so routesrv runs it in the pod
	local      bool     // where places are URLs, it takes tables as arguments: URLs, files, or manifests that it compiles
	table      string   // how help calls the arguments that are tables
	tables     int      // how many of them there are
	beside     bool     // dataplane-client has it, too
	hidden     bool     // for other programs
	listed     bool     // a file may list the places, so the job finds them
	job        func() job
	help
}

// help is the text of a command: app/options/help/NAME.txt.
type help struct {
	summary, intro string // intro is the description, including the exit statuses
	examples       []example
}

// example is a call with its purpose. An argument @ stands for places, which are shown only if they are URLs; @routes is the URL of a
// table.
type example struct{ what, call string }

// helpOf divides the text of a command, whose first line is the summary and whose end are the examples.
func helpOf(name string) (h help) {
	text := options.HelpText(name)
	h.summary, text, _ = strings.Cut(text, "\n\n")
	for _, block := range strings.Split(text, "\n\n") {
		what, call, _ := strings.Cut(strings.TrimSuffix(block, "\n"), "\n    ")
		if call == "" || what == "" || what[0] == ' ' || strings.Contains(what+call, "\n") {
			h.intro += block + "\n\n"
		} else {
			h.examples = append(h.examples, example{what, call})
		}
	}
	return h
}

// commands returns all commands of a program, in the order of the help.
func (p Program) commands() []command {
	all := []command{
		{name: "get", args: "PATH", min: 1, max: 1, beside: true, job: func() job { return getJob{} }},
		{name: "board", listed: true, outputs: []string{"page", "text", "json"}, job: func() job { return &boardJob{} }},
		{name: "status", job: func() job { return &statusJob{maxAge: time.Minute, wait: settleWait} }},
		{name: "clients", job: func() job { return &clientsJob{maxBehind: 30 * time.Second} }},
		{name: "problems", job: func() job { return &problemsJob{} }},
		{name: "explain", args: "WHAT...", min: 1, max: 2, tables: 1, table: "PLACE", local: true, job: func() job { return explainJob{} }},
		{name: "match", args: "URL", min: 1, max: 1, tables: 1, table: "TABLE", local: true, job: func() job { return &matchJob{} }},
		{name: "diff", max: 1, tables: 2, table: "A B", local: true, outputs: []string{"text", "json", "html"}, job: func() job { return &diffJob{} }},
		{name: "replay", args: "LOG...", min: 1, max: 1000, local: true, job: func() job { return &replayJob{} }},
		{name: "trial", tables: 1, table: "TABLE", local: true, job: func() job { return &trialJob{} }},
		{name: "held", beside: true, job: func() job { return heldJob{} }},
		{name: "log", job: func() job { return &logJob{} }},
		{name: "show", args: "ENTRY", min: 1, max: 1, outputs: []string{"text", "json", "html"}, job: func() job { return showJob{} }},
		{name: "freeze", inPod: true, job: func() job { return &steerJob{order: api.SteerFreeze} }},
		{name: "unfreeze", inPod: true, job: func() job { return &steerJob{order: api.SteerRelease} }},
		{name: "rollback", args: "[ENTRY]", max: 1, inPod: true, job: func() job { return &steerJob{order: api.SteerRollback} }},
		{name: "post", args: "PATH FORM", min: 2, max: 2, inPod: true, hidden: true, job: func() job { return postJob{} }},
		{name: "accept", args: "DIGEST", min: 1, max: 1, inPod: true, beside: true, job: func() job { return &acceptJob{} }},
	}
	all = slices.DeleteFunc(all, func(c command) bool { return p.Beside && !c.beside || !p.Beside && c.name == "get" })
	for i := range all {
		if !all[i].hidden {
			all[i].help = helpOf(all[i].name)
		}
		if all[i].outputs == nil {
			all[i].outputs = []string{"text", "json"}
		}
	}
	return all
}

// limits returns how many arguments a command takes.
func (c command) limits(p Program) (least, most int) {
	if c.local && !p.Remote {
		return c.min + c.tables, c.max + c.tables
	}
	if c.local {
		return c.min, c.max + c.tables
	}
	return c.min, c.max
}

// arguments returns the arguments of a command for help.
func (p Program) arguments(c command, places Places) string {
	words := []string{places.Args(), c.args}
	if c.listed {
		words = nil
	}
	if c.local {
		words = []string{c.args, c.table}
	}
	if c.local && p.Remote {
		words[1] = "[" + c.table + "]"
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// parser returns the parser of a command, which fills the job and the session.
func (p Program) parser(c command, j job, s *session) *options.Parser {
	about := options.Command{
		Name: p.Name + " " + c.name, Args: p.arguments(c, s.places), Intro: p.intro(c), MaxArgs: -1, Asking: true, Skipper: c.local,
	}
	parser := options.NewParser(about)
	if c.local {
		parser = options.NewRouteServer(about, &s.server)
	}
	j.define(parser)
	s.output, s.timeout, s.parallel = c.outputs[0], defaultTimeout, defaultParallel
	if c.local {
		s.timeout = tableTimeout
	}
	parser.Ask("output", options.Choice(&s.output, c.outputs...))
	parser.Ask("timeout", options.Duration(&s.timeout, s.timeout, 100*time.Millisecond, 10*time.Minute))
	if p.Remote {
		parser.Ask("parallel", options.Number(&s.parallel, defaultParallel, 1, maxParallel))
	}
	if p.Remote || c.listed {
		parser.Ask("urls", options.Text("FILE", &s.urls, ""))
	}
	s.places.Define(parser)
	return parser
}

// intro returns the description of a command with its examples.
func (p Program) intro(c command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", c.summary, strings.TrimSpace(c.intro))
	if c.local {
		b.WriteString("\nManifests are compiled with the flags and the -config-file of the server: routesrv --help lists them.\n")
	}
	for _, e := range c.examples {
		if call, ok := p.example(e.call); ok {
			fmt.Fprintf(&b, "\n%s\n    %s %s\n", e.what, p.Name, call)
		}
	}
	return b.String()
}

// example returns a call for the kind of places that the program has. It is false if the call needs another kind.
func (p Program) example(call string) (string, bool) {
	switch {
	case p.Remote && strings.Contains(call, " @routes"), !p.Remote && strings.Contains(call, "context"):
		return "", false
	case p.Remote || p.Beside:
		return strings.ReplaceAll(call, " @", ""), true
	}
	return strings.NewReplacer(" @routes", " http://routesrv/routes", " @", " http://routesrv:9911").Replace(call), true
}

// overview returns the text of --help without a command.
func (p Program) overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s asks the route servers of your clusters, and the proxies behind them.\n\nUsage: %s COMMAND [flags] [arguments]\n\nCommands\n", p.Name, p.Name)
	for _, w := range p.commandWords() {
		fmt.Fprintf(&b, "  %-11s %s\n", w.word, w.meaning)
	}
	fmt.Fprintf(&b, "\nThe exit status is %d if all is well, %d if something is not, and %d if somebody did not answer or the call is wrong.\n",
		Healthy, Unhealthy, Trouble)
	fmt.Fprintf(&b, "%s COMMAND --help has the details and examples.\n", p.Name)
	return b.String()
}
