package shadowdiff

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Ignore selects differences that do not count. The zero value ignores nothing.
type Ignore struct {
	// Endpoints ignores endpoints that were added, removed or moved to another zone. The type of the backend and the algorithm
	// still count.
	Endpoints bool
	// IDs ignores routes whose id matches one of the expressions, anywhere in the id.
	IDs []*regexp.Regexp
}

// ParseIgnore parses a list of "endpoints" and "id=REGEX" separated by commas. A comma in an expression ends it only if one of
// these words follows.
func ParseIgnore(s string) (Ignore, error) {
	var out Ignore
	for rest := s; rest != ""; {
		var item string
		item, rest = cutIgnore(rest)
		expr, isID := strings.CutPrefix(item, "id=")
		switch {
		case item == "endpoints":
			out.Endpoints = true
		case isID && expr == "":
			return Ignore{}, fmt.Errorf("%q: the expression is empty and would match every route", item)
		case isID:
			rx, err := regexp.Compile(expr)
			if err != nil {
				return Ignore{}, fmt.Errorf("%q: %w", item, err)
			}
			out.IDs = append(out.IDs, rx)
		default:
			return Ignore{}, fmt.Errorf("%q: want endpoints or id=REGEX", item)
		}
	}
	return out, nil
}

// nextIgnore matches the comma before the next item of a list.
var nextIgnore = regexp.MustCompile(`,(endpoints(,|$)|id=)`)

func cutIgnore(s string) (item, rest string) {
	if !strings.HasPrefix(s, "id=") { // words end at the next comma
		item, rest, _ = strings.Cut(s, ",")
		return item, rest
	}
	if at := nextIgnore.FindStringIndex(s); at != nil {
		return s[:at[0]], s[at[0]+1:]
	}
	return s, ""
}

func (i Ignore) id(id string) bool {
	return slices.ContainsFunc(i.IDs, func(rx *regexp.Regexp) bool { return rx.MatchString(id) })
}

func (i Ignore) part(p Part) bool {
	return i.Endpoints && (p.Element == Endpoint || p.Element == Zone)
}

// Without returns the report without ignored differences, which it counts in Ignored. If only a part of a change is ignored, the
// change stays with its other parts.
func (r Report) Without(i Ignore) Report {
	var kept []Difference
	for _, d := range r.Differences {
		if i.id(d.ID) || d.NewID != "" && i.id(d.NewID) {
			continue
		}
		if d.Kind == Changed {
			d.Parts = slices.DeleteFunc(slices.Clone(d.Parts), i.part)
		}
		if d.Kind != Changed || len(d.Parts) > 0 {
			kept = append(kept, d)
		}
	}
	r.Ignored += len(r.Differences) - len(kept)
	r.Differences = kept
	return r
}
