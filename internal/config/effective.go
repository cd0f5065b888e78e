package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

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

// printChecked writes the requested output: all settings with their origins as YAML, or else one line saying that they are valid.
func (p *Parser) printChecked(w io.Writer) error {
	text := []byte("configuration is valid\n")
	if p.checkOnly.settings {
		var err error
		if text, err = p.settings(); err != nil {
			return err
		}
	}
	_, err := w.Write(text)
	return err
}

// settings returns the value of every flag in the form of the configuration file, with its origin, in the order of the help, and the
// flags of Skipper that were given without effect. Of those it leaves out the values, which may be passwords.
func (p *Parser) settings() ([]byte, error) {
	type setting struct {
		Value any
		From  string
	}
	type unused struct{ From, Why string }
	var settings, ignored yaml.Node
	add := func(to *yaml.Node, name string, content any) error {
		var key, value yaml.Node
		to.Kind, to.Content = yaml.MappingNode, append(to.Content, &key, &value)
		return errors.Join(key.Encode(name), value.Encode(content))
	}
	var errs []error
	for _, o := range p.Flags() {
		if onlyArgument(o.Name) {
			continue
		}
		values, from := []string{o.value.def}, "default"
		if o.value.repeat {
			values = nil
		}
		if p.Given(o.Name) {
			values, from = p.effective[o.Name].values, p.from(o.Name)
		}
		if d, ok := p.derived[o.Name]; ok {
			values, from = []string{d.value}, d.from
		}
		errs = append(errs, add(&settings, o.Name, setting{shown(o, values), from}))
	}
	for _, name := range p.names() {
		if f, unsupported := p.unsupported[name]; unsupported && p.Given(name) {
			errs = append(errs, add(&ignored, name, unused{p.from(name), f.Reason}))
		}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	errs = append(errs, enc.Encode(struct {
		Settings yaml.Node
		Ignored  yaml.Node `yaml:",omitempty"`
	}{settings, ignored}), enc.Close())
	return b.Bytes(), errors.Join(errs...)
}

// from returns the origin of a setting.
func (p *Parser) from(name string) string {
	switch where := p.effective[name].where; {
	case where == "":
		return "command line"
	case p.effective[name].origin == fromEnvironment:
		return "environment " + where
	default:
		return where
	}
}

// shown returns values of a flag as a configuration file has them: a list if the flag may be repeated, else the last value, where numbers
// and switches are not texts. An empty value among several adds nothing.
func shown(o *Flag, values []string) any {
	if o.value.repeat {
		list := []string{}
		for _, v := range values {
			if v != "" {
				list = append(list, redacted(v))
			}
		}
		return list
	}
	text := redacted(values[len(values)-1])
	if b, err := parseBool(text); err == nil && o.value.boolean {
		return b
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && o.value.kind == "int" {
		return n
	}
	return text
}

// credentials matches a name and a password in a URL.
var credentials = regexp.MustCompile(`(://)[^/?#@\s]+@`)

// redacted removes the passwords of URLs from a text.
func redacted(text string) string { return credentials.ReplaceAllString(text, "${1}REDACTED@") }
