package cli

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// somePlaces have the flags that examples use.
type somePlaces struct{ query.URLs }

func (p *somePlaces) Define(flags *options.Flags) {
	var text string
	p.URLs.Define(flags)
	flags.Add("--contexts", options.Text("NAME", &text, ""), "Contexts.")
	flags.Add("--context", options.Text("NAME", &text, ""), "Context.")
}

// words splits an example as a shell does, as far as examples need it.
func words(call string) []string {
	call = regexp.MustCompile(`<\([^)]*\)`).ReplaceAllString(call, "file")
	var all []string
	for _, m := range regexp.MustCompile(`(?:'[^']*'|[^' ])+`).FindAllString(call, -1) {
		all = append(all, strings.ReplaceAll(m, "'", ""))
	}
	return all
}

// TestExamplesOfHelpAreCalls: each example uses existing flags with values that they accept, and as many arguments as the command
// expects.
func TestExamplesOfHelpAreCalls(t *testing.T) {
	examples := 0
	for _, p := range []Program{{Name: "routesrv"}, {Name: "kubectl routesrv", Remote: true}} {
		for _, c := range commands() {
			if c.short != "" && (c.examples == "" || c.fails == "") {
				t.Errorf("%s: help without examples, or without the exit status", c.name)
			}
			for line := range strings.Lines(c.long + "\n" + p.examples(c.examples)) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 150 {
					t.Errorf("%s: a line of help has %d characters: %s", c.name, n, line)
				}
				call, ok := strings.CutPrefix(strings.TrimSpace(line), p.Name+" ")
				if !ok {
					continue
				}
				examples++
				args := words(call)
				if args[0] != c.name {
					t.Errorf("%s: the example %q is of another command", c.name, call)
				}
				s := &session{program: p, places: &somePlaces{}}
				cmd := &cobra.Command{Use: c.name, Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true}
				s.define(cmd, c)
				cmd.RunE = func(_ *cobra.Command, rest []string) error {
					if !c.local {
						rest = slices.DeleteFunc(rest, query.IsURL)
					}
					if least, most := p.limits(c); len(rest) < least || len(rest) > most {
						t.Errorf("%s: example %q has %d arguments, want %d to %d", c.name, call, len(rest), least, most)
					}
					return s.flags.Resolve(rest, options.Env{ReadFile: func(string) ([]byte, error) { return []byte("{}"), nil }})
				}
				_, err := options.SetArgs(cmd, args[1:])
				if err = errors.Join(err, cmd.Execute()); err != nil {
					t.Errorf("%s: example %q: %v", c.name, call, err)
				}
			}
		}
	}
	if examples < 35 {
		t.Errorf("only %d examples", examples)
	}
}

// FuzzEscapeJSON: escaped JSON has the same meaning, and contains nothing that a terminal acts on.
func FuzzEscapeJSON(f *testing.F) {
	for _, s := range []string{"plain", "\x7f\u009b\u202e\u2028", "\U000e0001 tag", "\xff", "grüße"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(map[string]string{"s": s})
		if err != nil {
			t.Fatal(err)
		}
		escaped := shadowdiff.PrintableJSON(text)
		var before, after map[string]string
		if json.Unmarshal(text, &before) != nil || json.Unmarshal(escaped, &after) != nil || before["s"] != after["s"] {
			t.Errorf("%q became %q", text, escaped)
		}
		for _, r := range string(escaped) {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%q has %U", escaped, r)
			}
		}
	})
}
