package options

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

// value returns a switch that also accepts the word yaml.
func (c *checkFlag) value() *Value {
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

// WriteChecked writes what --check-config requested: all settings with their origins as YAML, or else one line saying that they are
// valid.
func (f *Flags) WriteChecked(w io.Writer) error {
	text := []byte("configuration is valid\n")
	if f.check.settings {
		var err error
		if text, err = f.yaml(); err != nil {
			return err
		}
	}
	_, err := w.Write(text)
	return err
}

// yaml returns the value of every flag in the form of the configuration file, with its origin, in the order of the help, and the
// flags of Skipper that were given without effect. It omits the values of the latter, which may be passwords.
func (f *Flags) yaml() ([]byte, error) {
	type setting struct {
		Value any
		From  string
	}
	type unused struct{ From, Why string }
	var settings, ignored yaml.Node
	var errs []error
	add := func(to *yaml.Node, name string, content any) {
		var key, value yaml.Node
		to.Kind, to.Content = yaml.MappingNode, append(to.Content, &key, &value)
		errs = append(errs, key.Encode(name), value.Encode(content))
	}
	for _, flag := range f.all {
		switch given := len(flag.values) > 0; {
		case onlyArgument(flag.Name):
		case flag.Ignored != "" && given:
			add(&ignored, flag.Name, unused{flag.from(), flag.Ignored})
		case flag.Ignored != "":
		case flag.derived.from != "":
			add(&settings, flag.Name, setting{flag.shown([]string{flag.derived.value}), flag.derived.from})
		case given:
			add(&settings, flag.Name, setting{flag.shown(flag.values), flag.from()})
		default:
			add(&settings, flag.Name, setting{flag.shown([]string{flag.value.def}), "default"})
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
func (f *Flag) from() string {
	from := f.where
	switch f.origin {
	case fromArguments:
		from = "command line"
	case fromEnvironment:
		from = "environment " + from
	}
	if f.file != "" {
		from += " and " + f.file
	}
	return from
}

// shown returns values of a flag as a configuration file has them: a list if the flag may be repeated, else the last value, where numbers
// and switches are not texts. An empty value among several adds nothing.
func (f *Flag) shown(values []string) any {
	if f.value.repeat {
		list := []string{}
		for _, v := range values {
			if v != "" && (v != f.value.def || len(f.values) > 0) {
				list = append(list, redacted(v))
			}
		}
		return list
	}
	text := redacted(values[len(values)-1])
	if b, err := parseBool(text); err == nil && f.value.kind == "bool" {
		return b
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil && f.value.kind == "int" {
		return n
	}
	return text
}

// credentials matches a name and a password in a URL.
var credentials = regexp.MustCompile(`(://)[^/?#@\s]+@`)

// redacted removes the passwords of URLs from a text.
func redacted(text string) string { return credentials.ReplaceAllString(text, "${1}REDACTED@") }
