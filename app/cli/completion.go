package cli

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/shadowdiff"
)

// completeCommand is the command that the scripts call. It receives the words of the line up to the cursor, and prints candidates
// for the last word, then a directive. Programs built with cobra use the same form, which kubectl expects from plugins.
const completeCommand = "__complete"

// Directives after the candidates.
const (
	completeFiles   = ":0" // the shell adds files
	completeNoFiles = ":4"
)

// OtherCommand is a command of the program from another package.
type OtherCommand struct {
	Name, Summary string
	Run           func(ctx context.Context, args []string, env options.Env, std options.Stdio) (status int)
	Flags         func() []*options.Flag
}

// shells are the shells that completion supports.
var shells = []string{"bash", "zsh", "fish", "kubectl"}

// completion prints a script.
func (p Program) completion(args []string, std options.Stdio) int {
	binary := strings.ReplaceAll(p.Name, " ", "-") // "kubectl routesrv" is kubectl-routesrv
	if len(args) != 1 || !slices.Contains(shells, args[0]) {
		help, status := std.Err, Trouble
		if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
			help, status = std.Out, Healthy
		}
		_, _ = strings.NewReplacer("NAME", p.Name, "BINARY", binary).WriteString(help, options.HelpText("completion"))
		return status
	}
	function := "_" + strings.ReplaceAll(binary, "-", "_")
	shell, before := args[0], ""
	if shell == "zsh" {
		shell, before = "bash", "autoload -U +X bashcompinit && bashcompinit\n"
	}
	text, err := scripts.ReadFile("scripts/" + shell)
	if err != nil {
		return Trouble
	}
	names := strings.NewReplacer("BINARY", binary, "FUNCTION", function, "COMPLETE", completeCommand)
	if _, err := names.WriteString(std.Out, before+string(text)); err != nil {
		return Trouble
	}
	return Healthy
}

// scripts has the scripts of the shells; zsh uses the one for bash. They call the program itself, so that they fit every version.
//
//go:embed scripts
var scripts embed.FS

// complete prints candidates for the last word.
func (p Program) complete(words []string, std options.Stdio) int {
	candidates, directive := p.candidates(words)
	for _, c := range candidates {
		fmt.Fprintln(std.Out, shadowdiff.Printable(c.word)+c.about())
	}
	fmt.Fprintln(std.Out, directive)
	return Healthy
}

// candidate is a word with its description.
type candidate struct{ word, meaning string }

func (c candidate) about() string {
	if c.meaning == "" {
		return ""
	}
	return "\t" + shadowdiff.Printable(c.meaning)
}

func (p Program) candidates(words []string) ([]candidate, string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	if len(words) == 1 {
		return fitting(p.commandWords(), last), completeNoFiles
	}
	if words[0] == "completion" {
		return fitting(plain(shells...), last), completeNoFiles
	}
	for _, o := range p.Others {
		if o.Name == words[0] && strings.HasPrefix(last, "-") {
			var flags []candidate
			for _, f := range o.Flags() {
				flags = append(flags, candidate{f.Option(), f.Usage})
			}
			return fitting(flags, last), completeNoFiles
		}
	}
	c, ok := p.find(words[0])
	if !ok {
		return nil, completeFiles
	}
	places := p.placesOf(c)
	defer places.Close()
	flags := make(map[string]*options.Flag)
	var names []candidate
	for _, f := range p.parser(c, c.job(), &session{places: places}).Flags() {
		flags[f.Option()] = f
		if f.Short != "" {
			flags["-"+f.Short] = f
		}
		if f.Ask || c.local {
			names = append(names, candidate{f.Option(), f.Usage})
		}
	}
	if name, val, ok := strings.Cut(last, "="); ok && flags[name] != nil {
		all, directive := valuesOf(flags[name], places)
		all = fitting(all, val)
		for i := range all {
			all[i].word = name + "=" + all[i].word
		}
		return all, directive
	}
	if f := flags[words[len(words)-2]]; f != nil && f.Type != "bool" {
		all, directive := valuesOf(f, places)
		return fitting(all, last), directive
	}
	if strings.HasPrefix(last, "-") {
		return fitting(append([]candidate{{"--help", ""}}, names...), last), completeNoFiles
	}
	switch c.name {
	case "explain":
		if len(words) == 2 {
			return fitting([]candidate{{"ingress", "an Ingress, as NAMESPACE/NAME"}, {"routegroup", "a RouteGroup, as NAMESPACE/NAME"}}, last), completeNoFiles
		}
	case "diff":
		var all []candidate
		for _, name := range possible("context", places) {
			all = append(all, candidate{"context/" + name, ""})
		}
		return fitting(all, last), completeFiles
	}
	return nil, completeNoFiles
}

func (p Program) commandWords() []candidate {
	var all []candidate
	for _, c := range p.commands() {
		if !c.hidden {
			all = append(all, candidate{c.name, c.summary})
		}
	}
	for _, o := range p.Others {
		all = append(all, candidate{o.Name, o.Summary})
	}
	return append(all, candidate{"completion", "Prints the completion script of a shell."}, candidate{"version", "Prints the version."})
}

// valuesOf returns the possible values of a flag.
func valuesOf(f *options.Flag, places Places) ([]candidate, string) {
	switch {
	case f.Words != nil:
		return plain(f.Words...), completeNoFiles
	case f.Type == "FILE" || f.Type == "PATH":
		return nil, completeFiles
	}
	return plain(possible(f.Name, places)...), completeNoFiles
}

// possible returns the values of a flag that the places know; nil means any value.
func possible(flag string, places Places) []string {
	if p, ok := places.(interface{ Complete(flag string) []string }); ok {
		return p.Complete(flag)
	}
	return nil
}

func plain(words ...string) []candidate {
	all := make([]candidate, len(words))
	for i, w := range words {
		all[i].word = w
	}
	return all
}

// fitting returns the candidates with a prefix.
func fitting(all []candidate, prefix string) []candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return !strings.HasPrefix(c.word, prefix) })
}
