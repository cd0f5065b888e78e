package config

import (
	"bytes"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

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
	if !c.p.checkOnly.settings {
		_, err := io.WriteString(w, "configuration is valid\n")
		return err
	}
	text, err := c.p.effective()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// checkFlag is the value of --check-config.
type checkFlag struct{ on, settings bool }

// flag returns a switch that also accepts the word yaml.
func (c *checkFlag) flag() *Value {
	v := Bool(&c.on, false)
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

// derived is a value that another flag determines.
type derived struct{ value, from string }

// Derive records that another flag determines the value of a flag. Call it after Parse for values that a program derives from its
// flags.
func (p *Parser) Derive(name, value, from string) {
	if _, known := p.byName[name]; known {
		p.derived[name] = derived{value, from}
	}
}

// effective returns the value of every flag in the form of the configuration file, with its origin, in the order of the help, and the
// flags of Skipper that were given without effect. Of those it leaves out the values, which may be passwords.
func (p *Parser) effective() ([]byte, error) {
	var settings, ignored yaml.Node
	for _, o := range p.Flags() {
		if onlyArgument(o.Name) {
			continue
		}
		value, from := yamlOf(o, []string{o.value.def}), "default"
		if o.value.repeat {
			value = yamlOf(o, nil)
		}
		if p.isSet(o.Name) {
			value, from = yamlOf(o, p.values[o.Name]), p.from(o.Name)
		}
		if d, ok := p.derived[o.Name]; ok {
			value, from = yamlOf(o, []string{d.value}), d.from
		}
		settings.Content = append(settings.Content, plain(o.Name), mapping(plain("value"), value, plain("from"), plain(from)))
	}
	for _, name := range p.names() {
		f, unsupported := p.unsupported[name]
		if unsupported && p.isSet(name) {
			why := mapping(plain("from"), plain(p.from(name)), plain("why"), plain(f.Reason))
			ignored.Content = append(ignored.Content, plain(name), why)
		}
	}
	root := mapping(plain("settings"), mapping(settings.Content...))
	if len(ignored.Content) > 0 {
		root.Content = append(root.Content, plain("ignored"), mapping(ignored.Content...))
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
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

// yamlOf returns values of a flag in the form of a configuration file: a list if the flag may be repeated, else the last value, where
// numbers and switches have no quotes. An empty value among several adds nothing.
func yamlOf(o *Flag, values []string) *yaml.Node {
	if o.value.repeat {
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, v := range slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" }) {
			list.Content = append(list.Content, plain(redacted(v)))
		}
		return list
	}
	n := plain(redacted(values[len(values)-1]))
	if b, err := parseBool(n.Value); o.value.boolean && err == nil {
		n.Tag, n.Value = "!!bool", map[bool]string{true: "true", false: "false"}[b]
	} else if o.value.kind == "int" && n.Value != "" {
		n.Tag = "!!int"
	}
	return n
}

// mapping returns a mapping of keys and values in turn.
func mapping(content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: content}
}

// plain returns a text node; the encoder quotes it if it could be read as another type.
func plain(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// credentials matches a name and a password in a URL.
var credentials = regexp.MustCompile(`(://)[^/?#@\s]+@`)

// redacted removes the passwords of URLs from a text.
func redacted(text string) string { return credentials.ReplaceAllString(text, "${1}REDACTED@") }
