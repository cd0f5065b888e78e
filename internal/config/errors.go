package config

import "errors"

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
