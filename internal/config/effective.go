package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Setting is a flag with its effective value.
type Setting struct {
	Group Group
	Name  string // without dashes
	Own   bool   // not one of Skipper's
	// Values are in the form of the command line. A repeatable flag has the values that were given; other flags have one. Empty
	// means no value.
	Values []string
	// Changed reports that the values differ from the default.
	Changed bool
	// From is where the setting comes from: "command line", "environment NAME", "FILE:LINE" or "default", or another flag that
	// determines it.
	From string

	kind            string
	boolean, repeat bool
}

// Ignored is a flag of Skipper that was given and has no effect here. Its value is not kept, because it may be a password.
type Ignored struct {
	Name string // without dashes
	From string // as in Setting
	Why  string
}

// Checked is the result of --check-config when the settings are valid. It is an [ErrChecked].
type Checked struct {
	p *Parser
}

// Error returns the text of ErrChecked.
func (c *Checked) Error() string { return ErrChecked.Error() }

// Is makes errors.Is report that it is an ErrChecked.
func (c *Checked) Is(target error) bool { return target == ErrChecked }

// Print writes the requested output: all settings with their origins as YAML, or else one line saying that they are valid.
func (c *Checked) Print(w io.Writer) error {
	if !c.p.checkOnly.settings && !c.p.checkOnly.output {
		_, err := io.WriteString(w, "configuration is valid\n")
		return err
	}
	text, err := c.p.yamlOfSettings()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// checkFlag is the value of --check-config. output is set by -o, which may precede or follow it.
type checkFlag struct{ on, settings, output bool }

// flag returns a switch that also accepts the word yaml.
func (c *checkFlag) flag() *value {
	v := boolean(&c.on, false)
	set := v.set
	v.set = func(s string) error {
		if c.settings = s == "yaml"; c.settings {
			c.on = true
			return nil
		}
		return set(s)
	}
	return v
}

// CheckOutput defines -o, the form of what --check-config prints: "--check-config -o yaml" is "--check-config=yaml". It is for
// programs whose flags do not include -o.
func (p *Parser) CheckOutput() {
	v := &value{kind: "yaml"}
	v.set = func(s string) error {
		if s != "yaml" {
			return fmt.Errorf("%q: want yaml", s)
		}
		p.checkOnly.output = true
		return nil
	}
	p.group(GroupGeneral).own("o", v, "With --check-config: also print the settings in effect, as YAML. Short for --check-config=yaml.")
	p.check(func() {
		if p.isSet("o") && !p.checkOnly.on {
			p.fail("o", errors.New("it needs --check-config"))
		}
	})
}

// Derive records that another flag determines the value of a flag. Call it after Parse for values that a program derives from its
// flags.
func (p *Parser) Derive(name, value, from string) {
	if _, known := p.byName[name]; known {
		p.derived[name] = Setting{Values: []string{value}, From: from}
	}
}

// Settings returns all flags with their effective values after Parse, in the order of the help. It omits flags such as --help and
// --check-config.
func (p *Parser) Settings() []Setting {
	var all []Setting
	for _, doc := range p.Flags() {
		if onlyArgument(doc.Name) {
			continue
		}
		o := p.byName[doc.Name]
		s := Setting{Group: o.group, Name: o.name, Own: o.own, From: "default", kind: o.value.kind, boolean: o.value.boolean, repeat: o.value.repeat}
		if !s.repeat {
			s.Values = []string{o.value.def}
		}
		if p.isSet(o.name) {
			s.Values, s.From = p.inEffect(o), p.from(o.name)
		}
		if d, ok := p.derived[o.name]; ok {
			s.Values, s.From = d.Values, d.From
		}
		s.Changed = s.repeat && len(s.Values) > 0 || !s.repeat && s.Values[0] != o.value.def
		all = append(all, s)
	}
	return all
}

// inEffect returns the values of a flag that was set. An empty value among several adds nothing.
func (p *Parser) inEffect(o *option) []string {
	values := p.values[o.name]
	switch {
	case o.value.repeat:
		return slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" })
	case o.value.boolean:
		if b, err := parseBool(p.last[o.name]); err == nil { // not for a switch that accepts other values
			return []string{map[bool]string{true: "true", false: "false"}[b]}
		}
	}
	return []string{p.last[o.name]}
}

// from returns the origin of a setting.
func (p *Parser) from(name string) string {
	switch where := p.where[name]; {
	case where == "":
		return "command line"
	case p.origins[name] == fromEnvironment:
		return "environment " + where
	default:
		return where
	}
}

// Ignored returns the flags of Skipper that were given and have no effect here, sorted by name.
func (p *Parser) Ignored() []Ignored {
	var all []Ignored
	for _, name := range p.names() {
		f, unsupported := p.unsupported[name]
		if !unsupported || !p.isSet(name) {
			continue
		}
		why := f.reason
		if f.instead != "" {
			why = f.instead
		}
		all = append(all, Ignored{Name: name, From: p.from(name), Why: why})
	}
	return all
}

// yamlOfSettings returns the value of every flag in the form of the configuration file, with its origin, in the order of the
// help.
func (p *Parser) yamlOfSettings() ([]byte, error) {
	settings := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range p.Settings() {
		settings.Content = append(settings.Content, plain(s.Name), entry(s.node(), "from", s.From))
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plain("settings"), settings}}
	if given := p.Ignored(); len(given) > 0 {
		ignored := &yaml.Node{Kind: yaml.MappingNode}
		for _, i := range given {
			ignored.Content = append(ignored.Content, plain(i.Name), &yaml.Node{
				Kind: yaml.MappingNode, Content: []*yaml.Node{plain("from"), plain(i.From), plain("why"), plain(i.Why)},
			})
		}
		root.Content = append(root.Content, plain("ignored"), ignored)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// entry returns a mapping of a value and one more key.
func entry(value *yaml.Node, key, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plain("value"), value, plain(key), plain(text)}}
}

// node returns the value in the form of a configuration file.
func (s Setting) node() *yaml.Node {
	if s.repeat {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, v := range s.Values {
			list.Content = append(list.Content, plain(redacted(v)))
		}
		return list
	}
	return s.scalar(redacted(s.Values[0]))
}

// scalar returns one value; numbers and switches have no quotes.
func (s Setting) scalar(text string) *yaml.Node {
	n := plain(text)
	switch {
	case s.boolean && (text == "true" || text == "false"):
		n.Tag = "!!bool"
	case s.kind == "int" && text != "":
		n.Tag = "!!int"
	}
	return n
}

// plain returns a text node; the encoder quotes it if it could be read as another type.
func plain(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// credentials matches a name and a password in a URL.
var credentials = regexp.MustCompile(`(://)[^/?#@\s]+@`)

// redacted removes the passwords of URLs from a text.
func redacted(text string) string { return credentials.ReplaceAllString(text, "${1}REDACTED@") }

// Argument returns a value in the form of the command line.
func (s Setting) Argument(value string) string { return dashes(s.Name, s.Own) + s.Name + "=" + value }

// File returns a configuration file with the settings, in their order. Parsing the file yields the same settings.
func File(settings []Setting) ([]byte, error) {
	if len(settings) == 0 {
		return nil, nil
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range settings {
		value := &yaml.Node{Kind: yaml.SequenceNode}
		for _, v := range s.Values {
			value.Content = append(value.Content, plain(v))
		}
		if !s.repeat || len(s.Values) == 1 {
			value = s.scalar(s.Values[0])
		}
		root.Content = append(root.Content, plain(s.Name), value)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// Reading is the result of reading the arguments of a route server.
type Reading struct {
	Settings []Setting // all of them, in the order of help
	Ignored  []Ignored
	Warnings []Warning
}

// ReadArguments reads the arguments of a route server, without the name of the program, as [ParseRouteServer] does, and returns
// their meaning. Its error is the one of ParseRouteServer; the reading is complete even then.
func ReadArguments(args []string, env Env) (Reading, error) {
	p := routeServerParser(new(RouteServer))
	_, warnings, err := p.Parse(args, env)
	return Reading{Settings: p.Settings(), Ignored: p.Ignored(), Warnings: warnings}, err
}
