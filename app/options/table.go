package options

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The tables of flags. They are read once, when the first parser is made; mistakes in them are found by every test that parses.
var (
	//go:embed flags.yaml
	flagsText []byte
	//go:embed skipper.yaml
	skipperText []byte
	//go:embed help/*.txt
	helpTexts embed.FS

	flagTable        = sync.OnceValue(func() (groups []*group) { return table(flagsText, groups) })
	unsupportedFlags = sync.OnceValue(readUnsupported)
)

// table reads a table into the type of its rows.
func table[T any](text []byte, rows []T) []T {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&rows); err != nil {
		panic("config: table of flags: " + err.Error())
	}
	return rows
}

// group is a group of flags in flags.yaml, whose first lines describe the fields.
type group struct {
	Name    string `yaml:"group"`
	About   string
	Set     string
	Objects bool
	Flags   []*row
}

// row is a flag in flags.yaml.
type row struct {
	Name, Of    string
	Skipper     bool
	Short, Text string
	Settings    map[string]string
	Set         string
}

// Flag is a flag of a command with its documentation.
type Flag struct {
	Name  string // without dashes
	Short string // one-letter form; empty for none
	Usage string // sentences
	Set   string // who sets it, and when
	Own   bool   // not one of Skipper's
	Ask   bool   // of an asking command

	Group   string   // the name of its group
	Type    string   // bool, string, int, duration, list and so on
	Default string   // as it would be typed; empty if that is empty
	Words   []string // the only possible values; nil means any value

	group *group
	place int    // in the table
	env   string // the variable that sets it
	value *Value
}

// Option returns the flag as it is typed.
func (f *Flag) Option() string { return dashes(f.Name, f.Own) + f.Name }

// dashes returns the dashes of a name: one for Skipper's flags and for single letters, two for this project's flags.
func dashes(name string, own bool) string {
	if own && len(name) > 1 {
		return "--"
	}
	return "-"
}

// newFlag finds a flag in the table: the first of the programs or commands that has one of this name. It panics if none has.
func newFlag(name string, v *Value, of ...string) *Flag {
	for _, program := range of {
		place := 0
		for _, g := range flagTable() {
			for _, r := range g.Flags {
				if place++; r.Name == name && r.Of == program {
					f := &Flag{Name: name, Short: r.Short, Usage: r.Text, Set: r.Set, Own: !r.Skipper, group: g, place: place, value: v}
					f.Group, f.Type, f.Default, f.Words = g.Name, v.kind, v.def, v.words
					if f.Set == "" {
						f.Set = g.Set
					}
					f.describe(r.Settings)
					return f
				}
			}
		}
	}
	panic("config: the flag " + name + " is not in the table")
}

// describe adds each setting with its default to the usage.
func (f *Flag) describe(texts map[string]string) {
	for _, s := range f.value.settings {
		text, ok := texts[s.Name]
		if !ok {
			panic("config: the setting " + s.Name + " of the flag " + f.Name + " is not in the table")
		}
		f.Usage += " " + s.Name
		if s.Value.def != "" && !s.Value.boolean {
			f.Usage += "=" + s.Value.def
		}
		f.Usage += ": " + text
	}
}

// Flags returns the flags of the command, in the order of the table.
func (p *Parser) Flags() []*Flag {
	return slices.SortedFunc(maps.Values(p.byName), func(a, b *Flag) int { return a.place - b.place })
}

// Flags returns the flags of the route server, in the order of the help.
func Flags() []*Flag { return routeServerParser(new(RouteServer)).Flags() }

// Help prints the help of the route server.
func Help(w io.Writer) error { return routeServerParser(new(RouteServer)).Help(w) }

// HelpText returns the description of a program or command: help/NAME.txt.
func HelpText(name string) string {
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil {
		return "" // the caller has one
	}
	return string(text)
}

// UnsupportedFlag is a flag of Skipper that the route server does not have.
type UnsupportedFlag struct {
	Name    string // without dashes
	Bool    bool
	Refused bool   // setting it is an error, not a warning
	Reason  string // why it has no effect here, or what to do instead; follows a colon

	quiet *string // a value that requests the existing behaviour; nil if there is none
}

// UnsupportedFlags returns the flags of Skipper that the route server does not have, sorted by name.
func UnsupportedFlags() []UnsupportedFlag {
	return slices.SortedFunc(maps.Values(unsupportedFlags()), func(a, b UnsupportedFlag) int { return strings.Compare(a.Name, b.Name) })
}

// readUnsupported reads skipper.yaml.
func readUnsupported() map[string]UnsupportedFlag {
	flags := make(map[string]UnsupportedFlag)
	for _, block := range table(skipperText, []struct {
		Reason           string
		Refused          bool
		Quiet            *string
		Switches, Values string
	}(nil)) {
		for i, names := range []string{block.Switches, block.Values} {
			for _, name := range strings.Fields(names) {
				if _, again := flags[name]; again {
					panic(fmt.Sprintf("config: skipper.yaml has %s twice", name))
				}
				flags[name] = UnsupportedFlag{Name: name, Bool: i == 0, Refused: block.Refused, Reason: block.Reason, quiet: block.Quiet}
			}
		}
	}
	return flags
}

// FlagNames returns the names of all flags of all programs, and of those of Skipper that the route server does not have.
func FlagNames() (names []string) {
	for _, g := range flagTable() {
		for _, r := range g.Flags {
			names = append(names, r.Name)
		}
	}
	return slices.AppendSeq(names, maps.Keys(unsupportedFlags()))
}

// helpWidth is the maximum length of the lines of help, in characters.
const helpWidth = 100

// Help prints what the command does, its flags in groups, and the environment variables it reads.
func (p *Parser) Help(w io.Writer) error {
	var b strings.Builder
	b.WriteString(strings.TrimSpace("Usage: "+p.cmd.Name+" [flags] "+p.cmd.Args) + "\n\n")
	b.WriteString(strings.TrimRight(p.cmd.Intro, "\n") + "\n\n")
	switch {
	case p.cmd.Asking:
		b.WriteString(HelpText("asking"))
	case p.cmd.Skipper:
		b.WriteString(HelpText("settings") + "\n" + HelpText("skipper"))
	default:
		b.WriteString(HelpText("settings"))
	}
	var g *group
	for _, f := range p.Flags() {
		if p.cmd.Asking && !f.Ask {
			continue
		}
		if f.group != g {
			g = f.group
			g.title(&b)
		}
		b.WriteString("  " + f.header() + "\n")
		wrap(&b, "        ", f.Usage)
		if f.Set != g.Set {
			wrap(&b, "        ", "Set by: "+f.Set+".")
		}
	}
	if !p.cmd.Asking {
		b.WriteString("\n" + HelpText("environment"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// title writes what the flags of the group are about, and who sets them.
func (g *group) title(b *strings.Builder) {
	b.WriteString("\n" + g.Name)
	if g.About != "" {
		b.WriteString(" (" + strings.ToLower(g.About[:1]) + strings.TrimSuffix(g.About[1:], ".") + ")")
	}
	b.WriteString("\n")
	if g.Set != "" {
		wrap(b, "  ", "Set by: "+g.Set+".")
	}
}

// header returns the flag as help shows it: -address HOST:PORT (default :9090).
func (f *Flag) header() string {
	s := f.Option()
	if f.Short != "" {
		s = "-" + f.Short + ", " + s
	}
	if f.value.kind != "bool" {
		s += " " + f.value.kind
	}
	if def := f.value.def; def != "" && !(f.value.kind == "bool" && def == "false") {
		s += fmt.Sprintf(" (default %s)", def)
	}
	return s
}

// wrap writes a text in lines of at most helpWidth, each with the indent.
func wrap(b *strings.Builder, indent, s string) {
	n := 0
	for _, word := range strings.Fields(s) {
		l := utf8.RuneCountInString(word)
		switch {
		case n == 0:
			b.WriteString(indent)
			n = len(indent)
		case n+1+l > helpWidth:
			b.WriteString("\n" + indent)
			n = len(indent)
		default:
			b.WriteString(" ")
			n++
		}
		b.WriteString(word)
		n += l
	}
	b.WriteString("\n")
}
