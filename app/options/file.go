package options

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile adds the settings of the file that -config-file names. As for every flag, the last value from the highest place counts.
func (f *Flags) readFile(read func(string) ([]byte, error)) {
	var from setting
	for _, s := range f.settings {
		if s.flag.Name == "config-file" && s.origin >= from.origin {
			from = s
		}
	}
	if from.value == "" {
		return
	}
	content, err := read(from.value)
	if err != nil {
		f.errs = append(f.errs, &Error{Flag: from.flag.Option(), Where: from.where, Err: err})
		return
	}
	f.readYAML(printable(from.value), content)
}

// readYAML reads the mapping of the file. Nodes have line numbers and the text as written: as a TLS version, 1.20 is not 1.2.
func (f *Flags) readYAML(file string, content []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var root map[string]yaml.Node
	err := decodeYAML(dec.Decode, &root)
	if more := new(yaml.Node); err == nil && !errors.Is(dec.Decode(more), io.EOF) {
		err = errors.New("a second document: must be one")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		f.errs = append(f.errs, &Error{Where: file, Err: err})
		return
	}
	byLine := func(a, b string) int { return root[a].Line - root[b].Line }
	for _, name := range slices.SortedFunc(maps.Keys(root), byLine) {
		val := root[name]
		where := fmt.Sprintf("%s:%d", file, val.Line)
		if name == allowedExternalName+"s" {
			name = allowedExternalName // Skipper's key for the flag
		}
		switch flag := f.flag(name); {
		case onlyArgument(name) || name == "config-file":
			f.errs = append(f.errs, &Error{Where: where, Err: fmt.Errorf("key %s: is for the command line only", name)})
		case flag == nil:
			f.errs = append(f.errs, &Error{Where: where, Err: unknown(f.FlagSet, "key ", name)})
		default:
			f.readKey(flag, where, resolveAlias(&val))
		}
	}
}

// readKey adds the settings of one key.
func (f *Flags) readKey(flag *Flag, where string, val *yaml.Node) {
	texts, err := textsOf(flag, val)
	switch {
	case err != nil:
		f.errs = append(f.errs, &Error{Flag: flag.Option(), Where: where, Err: err})
	case texts == nil:
		f.warnings = append(f.warnings, &Error{Flag: flag.Option(), Where: where, Err: errors.New("has no value: the key is ignored")})
	}
	for _, t := range texts {
		f.give(flag, t, fromFile, where)
	}
}

// textsOf returns the values of a key in the form of the command line, or nil if it has none.
func textsOf(flag *Flag, val *yaml.Node) (texts []string, err error) {
	v := flag.value
	switch {
	case isNull(val):
		return nil, nil
	case flag.Ignored != "" && val.Kind != yaml.ScalarNode:
		return []string{"(list)"}, nil // its content does not matter
	case val.Kind == yaml.ScalarNode && v.kind == "bool":
		return []string{yamlBool(val)}, nil
	case val.Kind == yaml.ScalarNode:
		return []string{val.Value}, nil
	case val.Kind == yaml.MappingNode && flag.Name == allowedExternalName: // the form in which Skipper reads its list of allowed names
		var lists map[string][]string
		err := decodeYAML(val.Decode, &lists)
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			texts = append(texts, lists[name]...)
		}
		return texts, err
	case !v.repeat && !v.comma:
		return nil, fmt.Errorf("must be one value (%s), not a list or a mapping", v.kind)
	}
	if err := decodeYAML(val.Decode, &texts); err != nil || v.repeat {
		return texts, err
	}
	for _, t := range texts {
		if strings.Contains(t, ",") {
			return nil, fmt.Errorf("%s: an element of a list cannot have a comma", clip(t))
		}
	}
	return []string{strings.Join(texts, ",")}, nil
}

// decodeYAML decodes a value. The error has one line.
func decodeYAML(decode func(any) error, dst any) error {
	err := decode(dst)
	if lines, ok := errors.AsType[*yaml.TypeError](err); ok {
		err = errors.New(strings.Join(lines.Errors, "; "))
	}
	return err
}

// resolveAlias returns the node that an alias stands for, which is never an alias itself.
func resolveAlias(n *yaml.Node) *yaml.Node {
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

//go:embed skipper.yaml
var skipperText []byte

// ignoreSkipper declares the flags of Skipper that a route server accepts and does not use. They are in skipper.yaml.
func (f *Flags) ignoreSkipper() {
	var blocks []struct {
		Reason           string
		Refused          bool
		Quiet            *string
		Switches, Values string
	}
	if err := yaml.Unmarshal(skipperText, &blocks); err != nil {
		panic("skipper.yaml: " + err.Error())
	}
	for _, b := range blocks {
		switches := strings.Fields(b.Switches)
		for i, name := range slices.Concat(switches, strings.Fields(b.Values)) {
			kind := "string"
			if i < len(switches) {
				kind = "bool"
			}
			if !f.hidden || f.Lookup(name) == nil { // a command may have a flag of this name
				f.add(&Flag{Name: name, Ignored: b.Reason, Refused: b.Refused, quiet: b.Quiet, flags: f, value: &Value{kind: kind}}, "")
			}
		}
	}
}

// Ignored returns the flags of Skipper that the command accepts and does not use, sorted by name.
func (f *Flags) Ignored() []*Flag {
	all := slices.DeleteFunc(slices.Clone(f.all), func(one *Flag) bool { return one.Ignored == "" })
	slices.SortFunc(all, func(a, b *Flag) int { return strings.Compare(a.Name, b.Name) })
	return all
}
