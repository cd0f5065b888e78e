package config

import "errors"

// What is asked for instead of a configuration. All are a normal end of the program.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
	ErrChecked = errors.New("only a check of the settings requested") // and there is nothing wrong with them
)

// Warning is something that an operator should know about a configuration that works.
type Warning struct {
	Flag  string // with the dashes that help shows; empty if it is about none
	Where string // variable, or file and line; empty for the command line
	Text  string
}

// String is the warning as one line, place first.
func (w Warning) String() string { return place(w.Where, w.Flag) + w.Text }

// Error is one thing that is wrong with the configuration.
type Error struct {
	Flag  string // with the dashes that help shows; empty if it is about none
	Where string // variable, or file and line; empty for the command line
	Err   error
}

// Error is the message as one line, place first.
func (e *Error) Error() string { return place(e.Where, e.Flag) + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// place says where a message belongs to: "config.yaml:3: -address: ".
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
