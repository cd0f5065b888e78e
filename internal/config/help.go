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
	fmt.Fprintf(&b, "Usage: %s [flags]", p.cmd.Name)
	if p.cmd.Args != "" {
		b.WriteString(" " + p.cmd.Args)
	}
	b.WriteString("\n\n")
	if p.cmd.Intro != "" {
		b.WriteString(strings.TrimRight(p.cmd.Intro, "\n") + "\n\n")
	}
	if p.cmd.Asking {
		wrap(&b, "", askingText)
	} else {
		wrap(&b, "", settingsText)
		if p.cmd.Skipper {
			b.WriteString("\n")
			wrap(&b, "", unsupportedText)
		}
	}
	for _, g := range p.groups() {
		first := true
		for _, o := range p.flags {
			if o.group != g.name || p.cmd.Asking && !o.ask {
				continue
			}
			if first {
				title(&b, string(g.name), g.sentence)
				first = false
			}
			b.WriteString("  " + o.header() + "\n")
			wrap(&b, "        ", o.usage)
		}
	}
	if !p.cmd.Asking {
		title(&b, "Environment", "Variables that are read.")
		for _, e := range environmentDocs() {
			b.WriteString("  " + e.name + "\n")
			wrap(&b, "        ", e.usage)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func title(b *strings.Builder, name, sentence string) {
	b.WriteString("\n" + name)
	if sentence != "" {
		b.WriteString(" (" + strings.ToLower(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".") + ")")
	}
	b.WriteString("\n")
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
