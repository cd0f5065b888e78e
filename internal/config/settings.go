package config

import (
	"fmt"
	"strings"
)

// Setting is one of the settings of a flag that has several, such as --guard=hold=2h,release=manual.
type Setting struct {
	Name  string
	Value *Value
	Usage string // a sentence for help
}

// Settings returns the value of a flag that takes settings, SETTING=VALUE with commas between them, and may be repeated. If word is
// not nil, a text without a name sets it, as in --fallback=always,after=1m. set records the names that were given, unless it is nil.
func Settings(word *Value, set map[string]bool, all ...Setting) *Value {
	kind := "SETTING=VALUE,…"
	names := make([]string, len(all))
	byName := make(map[string]*Value)
	for i, s := range all {
		names[i], byName[s.Name] = s.Name, s.Value
	}
	v := &Value{kind: kind, repeat: true}
	if word != nil {
		v.kind, v.def = word.kind+","+kind, word.def
	}
	v.set = func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			name, val, given := strings.Cut(one, "=")
			s := byName[name]
			switch {
			case s == nil && !given && word != nil:
				if err := word.set(one); err != nil {
					return err
				}
				continue
			case s == nil:
				return fmt.Errorf("%s: want settings with commas between them, NAME=VALUE: %s", clip(one), strings.Join(names, ", "))
			case !given && s.boolean:
				val = "true"
			case !given:
				return fmt.Errorf("%s: want %s=%s", clip(one), name, strings.ToUpper(s.kind))
			}
			if err := s.set(val); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if set != nil {
				set[name] = true
			}
		}
		return nil
	}
	return v
}

// Describe returns the usage of a flag with settings: a sentence, and then each setting with its default.
func Describe(sentence string, all ...Setting) string {
	for _, s := range all {
		sentence += " " + s.Name
		if s.Value.def != "" && !s.Value.boolean {
			sentence += "=" + s.Value.def
		}
		sentence += ": " + s.Usage
	}
	return sentence
}
