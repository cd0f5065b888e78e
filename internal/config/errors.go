package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/routesrv/routesrv/internal/catalogue"
)

// Requests that end the program normally, without a configuration.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
	ErrChecked = errors.New("only a check of the settings requested") // returned if the settings are valid
)

// Warning is a notice about a valid configuration.
type Warning struct {
	Flag  string // with the dashes that help shows; empty if the warning is not about a flag
	Where string // variable, or file and line; empty for the command line
	Text  string
}

// String returns the warning as one line, place first.
func (w Warning) String() string { return place(w.Where, w.Flag) + w.Text }

// Error is one mistake in the configuration.
type Error struct {
	Flag  string // with the dashes that help shows; empty if the error is not about a flag
	Where string // variable, or file and line; empty for the command line
	Err   error
}

// Error returns the message as one line, place first.
func (e *Error) Error() string { return place(e.Where, e.Flag) + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// place returns the prefix of a message, such as "config.yaml:3: -address: ".
func place(where, flag string) string {
	s := ""
	if where != "" {
		s = where + ": "
	}
	if flag != "" {
		s += flag + ": "
	}
	return s
}

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
		if d := catalogue.Distance(typed, name); d < least {
			best, least = name, d
		}
	}
	return best, best != ""
}
