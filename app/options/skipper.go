package options

import (
	_ "embed"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
