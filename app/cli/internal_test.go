package cli

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/shadowdiff"
)

// noPlaces are places that accept nothing, but have the flags that examples use.
type noPlaces struct{ URLs }

func (p *noPlaces) Define(flags *options.Parser) {
	var text string
	p.URLs.Define(flags)
	flags.Ask("contexts", options.Text("", &text, ""))
	flags.Ask("context", options.Text("", &text, ""))
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
	for _, p := range []Program{{Name: "routesrv"}, {Name: "kubectl routesrv", Remote: true}} {
		for _, c := range p.commands() {
			if c.hidden {
				continue
			}
			if len(c.examples) == 0 || c.summary == "" || !strings.Contains(c.intro, "xit status is 0 if") {
				t.Errorf("%s %s: help without examples, or without the exit status", p.Name, c.name)
			}
			places := &noPlaces{}
			var help strings.Builder
			if err := p.parser(c, c.job(), &session{places: places}).Help(&help); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(help.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 150 {
					t.Errorf("%s %s: a line of help has %d characters: %s", p.Name, c.name, n, line)
				}
			}
			for _, e := range c.examples {
				call, fits := p.example(e.call)
				if strings.Contains(help.String(), e.what) != fits {
					t.Errorf("%s %s: help and the example %q: want it there: %t", p.Name, c.name, e.what, fits)
				}
				if !fits {
					continue
				}
				args := words(call)
				if args[0] != c.name {
					t.Errorf("%s: the example %q is of another command", c.name, e.call)
				}
				rest, _, err := p.parser(c, c.job(), &session{places: places}).Parse(args[1:], options.Env{ReadFile: func(string) ([]byte, error) { return []byte("{}"), nil }})
				if err != nil {
					t.Errorf("%s: example %q: %v", c.name, e.call, err)
				}
				if !c.local {
					rest = slices.DeleteFunc(rest, isURL)
				}
				if least, most := c.limits(p); len(rest) < least || len(rest) > most {
					t.Errorf("%s: example %q has %d arguments, want %d to %d", c.name, e.call, len(rest), least, most)
				}
			}
		}
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

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Millisecond: "1s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 3 * time.Hour: "3h", 50 * time.Hour: "2d",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
