package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileSize is the limit of the configuration file, in bytes.
const maxFileSize = 1 << 20

// file reads the settings from the configuration file that the given settings name.
func (p *Parser) file(settings []setting, read func(string) ([]byte, error)) []setting {
	s, ok := configFile(settings)
	if !ok || s.value == "" {
		return nil
	}
	if read == nil {
		read = func(string) ([]byte, error) { return nil, errors.New("files cannot be read here") }
	}
	content, err := read(s.value)
	if err == nil && len(content) > maxFileSize {
		err = fmt.Errorf("%s has %d bytes: want at most %d", printable(s.value), len(content), maxFileSize)
	}
	if err != nil {
		p.errs = append(p.errs, &Error{Flag: p.shown(s.name), Where: s.where, Err: err})
		return nil
	}
	return p.yaml(s.value, content)
}

// configFile returns the setting that names the file: the last one from the highest place, as for every flag.
func configFile(settings []setting) (found setting, ok bool) {
	for _, s := range settings {
		if s.name == "config-file" && (!ok || s.origin >= found.origin) {
			found, ok = s, true
		}
	}
	return found, ok
}

// yaml reads settings from the text of the file, which must be one mapping. It uses nodes instead of decoded values, because they
// have line numbers and the text as written: as a TLS version, 1.20 is not 1.2.
func (p *Parser) yaml(name string, content []byte) []setting {
	file := printable(name)
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		p.warnings = append(p.warnings, Warning{Flag: p.shown("config-file"), Where: file, Text: "the file is empty"})
		return nil
	} else if err != nil {
		p.errs = append(p.errs, syntax(file, err))
		return nil
	}
	if err := dec.Decode(&more); err == nil {
		p.failAt(file, &more, errors.New("a second document: want one"))
		return nil
	} else if !errors.Is(err, io.EOF) {
		p.errs = append(p.errs, syntax(file, err))
		return nil
	}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		p.failAt(file, root, errors.New("want a mapping of flag names to values"))
		return nil
	}
	return p.mapping(file, root)
}

func (p *Parser) mapping(file string, root *yaml.Node) []setting {
	var settings []setting
	lines := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, val := root.Content[i], resolve(root.Content[i+1])
		name := key.Value
		if name == allowedExternalName+"s" {
			name = allowedExternalName // Skipper's key for the flag
		}
		if key.Kind != yaml.ScalarNode {
			p.failAt(file, key, errors.New("want the name of a flag as key"))
			continue
		}
		if first, again := lines[name]; again {
			p.failAt(file, key, fmt.Errorf("key %s again: it is also in line %d", printable(name), first))
			continue
		}
		lines[name] = key.Line
		if _, ok := p.known(name); !ok {
			p.failAt(file, key, p.unknown("key", "", name))
			continue
		}
		if name == "config-file" || onlyArgument(name) {
			p.failAt(file, key, fmt.Errorf("key %s: is for the command line only", name))
			continue
		}
		where := fmt.Sprintf("%s:%d", file, key.Line)
		texts, err := p.texts(name, val)
		if err != nil {
			p.errs = append(p.errs, &Error{Flag: p.shown(name), Where: where, Err: err})
			continue
		}
		if texts == nil {
			p.warnings = append(p.warnings, Warning{Flag: p.shown(name), Where: where, Text: "has no value: the key is ignored"})
		}
		for _, t := range texts {
			settings = append(settings, setting{name: name, value: t, origin: fromFile, where: where})
		}
	}
	return settings
}

// texts returns the values of a key in the form of the command line, or nil if it has none.
func (p *Parser) texts(name string, val *yaml.Node) ([]string, error) {
	o, ours := p.byName[name]
	switch {
	case isNull(val):
		return nil, nil
	case !ours && val.Kind != yaml.ScalarNode:
		return []string{"(list)"}, nil // an unused flag of Skipper: its content does not matter
	case val.Kind == yaml.ScalarNode:
		if boolean, _ := p.known(name); boolean {
			return []string{yamlBool(val)}, nil
		}
		return []string{val.Value}, nil
	case val.Kind == yaml.MappingNode && name == allowedExternalName:
		return allValues(val)
	case val.Kind == yaml.SequenceNode && (o.value.repeat || o.value.comma):
		texts, err := elements(val)
		if err != nil || o.value.repeat {
			return texts, err
		}
		for _, t := range texts {
			if strings.Contains(t, ",") {
				return nil, fmt.Errorf("%s: an element of a list cannot have a comma", clip(t))
			}
		}
		return []string{strings.Join(texts, ",")}, nil
	case o.value.repeat || o.value.comma:
		return nil, errors.New("want a text or a list of texts")
	default:
		return nil, fmt.Errorf("want one value (%s), not a list or a mapping", o.value.kind)
	}
}

// elements returns the texts of a list.
func elements(list *yaml.Node) ([]string, error) {
	texts := make([]string, 0, len(list.Content))
	for _, n := range list.Content {
		n = resolve(n)
		if n.Kind != yaml.ScalarNode || isNull(n) {
			return nil, fmt.Errorf("line %d: want a text as element of the list", n.Line)
		}
		texts = append(texts, n.Value)
	}
	return texts, nil
}

// allValues returns the texts of all lists in a mapping, the form in which Skipper reads its list of allowed names.
func allValues(mapping *yaml.Node) ([]string, error) {
	texts := []string{}
	for i := 1; i < len(mapping.Content); i += 2 {
		n := resolve(mapping.Content[i])
		if n.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("line %d: want a list of texts", n.Line)
		}
		some, err := elements(n)
		if err != nil {
			return nil, err
		}
		texts = append(texts, some...)
	}
	return texts, nil
}

// resolve returns the node that an alias stands for, which is never an alias itself.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// yamlBool returns the text of a switch. Skipper's YAML also accepts the words of YAML 1.1.
func yamlBool(n *yaml.Node) string {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		switch strings.ToLower(n.Value) {
		case "yes", "on", "y":
			return "true"
		case "no", "off", "n":
			return "false"
		}
	}
	return n.Value
}

// yamlLine matches the beginning of an error from the YAML parser.
var yamlLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// syntax moves the line number of an error from the YAML parser to where other errors have it.
func syntax(file string, err error) *Error {
	msg := err.Error()
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		return &Error{Where: file + ":" + m[1], Err: errors.New("yaml: " + msg[len(m[0]):])}
	}
	return &Error{Where: file, Err: err}
}

func (p *Parser) failAt(file string, n *yaml.Node, err error) {
	p.errs = append(p.errs, &Error{Where: fmt.Sprintf("%s:%d", file, n.Line), Err: err})
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
	e, from := p.effective[name], p.effective[name].where
	switch {
	case from == "":
		from = "command line"
	case e.origin == fromEnvironment:
		from = "environment " + from
	}
	if e.file != "" {
		from += " and " + e.file
	}
	return from
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
