package config

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

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
