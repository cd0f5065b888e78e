package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxShown limits how much of a text a message repeats, in bytes.
const maxShown = 200

// clip quotes a text for a message and shortens it.
func clip(s string) string {
	if len(s) > maxShown {
		return strconv.Quote(strings.ToValidUTF8(s[:maxShown], "")) + "…"
	}
	return strconv.Quote(s)
}

// printable returns a name for a message, quoted if it could harm a terminal or a log.
func printable(s string) string {
	if len(s) <= maxShown && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }) {
		return s
	}
	return clip(s)
}

// unknown returns the error for a name that is not a flag. It repeats only the name: the intended value may be a secret.
func (p *Parser) unknown(what, dash, name string) error {
	msg := "unknown " + what + " " + dash + printable(name)
	if like, found := nearest(name, p.names()); found {
		if dash != "" {
			like = p.shown(like)
		}
		msg += ": did you mean " + like + "?"
	}
	return fmt.Errorf("%s (%s --help lists all flags)", msg, p.cmd.Name)
}

// nearest returns the name closest to the typed one, if at most a third of the letters differ.
func nearest(typed string, names []string) (string, bool) {
	if len(typed) > maxShown {
		return "", false
	}
	typed = strings.ToLower(strings.Trim(strings.ReplaceAll(typed, "_", "-"), "-"))
	best, least := "", max(1, len(typed)/3)+1
	for _, name := range names {
		if d := distance(typed, name); d < least {
			best, least = name, d
		}
	}
	return best, best != ""
}

// distance returns how many letters to insert, delete, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
