package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/routesrv/routesrv/catalogue"
)

// Command describes the command that a [Parser] parses.
type Command struct {
	Name  string // as it is typed, with the subcommand
	Args  string // form of the positional arguments in help, such as "PATH..."; empty if it accepts none
	Intro string // description and examples for help; lines are printed unchanged

	// MinArgs and MaxArgs limit the positional arguments; a negative MaxArgs means no limit.
	MinArgs, MaxArgs int

	// Skipper accepts flags of Skipper that have no effect here, with a warning each. Otherwise they are unknown.
	Skipper bool
	// Asking marks a command that asks servers. Its help has only the flags of [Parser.Ask]; if it also has those of a route server,
	// they are for the manifests that it compiles.
	Asking bool
}

// Parser holds the flags of one command and parses them once. Create it with [NewParser], add groups of flags, and then call
// Parse, Help, Flags or WriteMarkdown. It is not safe for concurrent use.
type Parser struct {
	cmd         Command
	command     string // the last word of its name, as in the table
	byName      map[string]*Flag
	short       map[string]string // names by their one-letter forms
	unsupported map[string]UnsupportedFlag
	checks      []func()
	take        func(positional []string) // if not nil, called before the checks
	guardSet    map[string]bool           // the settings of --guard that were given

	configFile    string
	help, version bool
	checkOnly     checkFlag

	// Filled by Parse.
	environ   []string
	effective map[string]effective // by flag; only those that were given
	derived   map[string]derived   // determined by another flag
	warnings  []Warning
	errs      []error
}

// NewParser returns a parser with the flags that every command has: config-file, check-config, help and version. A command without
// an Intro gets the text that [HelpText] has for its last word.
func NewParser(cmd Command) *Parser {
	name := cmd.Name[strings.LastIndexByte(cmd.Name, ' ')+1:]
	if cmd.Intro == "" {
		cmd.Intro = HelpText(name)
	}
	p := &Parser{
		cmd: cmd, command: name,
		byName: make(map[string]*Flag), short: make(map[string]string), effective: make(map[string]effective), derived: make(map[string]derived),
	}
	if cmd.Skipper {
		p.unsupported = unsupportedFlags()
	}
	p.Flag("help", Bool(&p.help, false))
	if cmd.Asking && !cmd.Skipper {
		return p
	}
	p.Flag("config-file", Text("string", &p.configFile, ""))
	if cmd.Asking {
		return p
	}
	p.Flag("check-config", p.checkOnly.flag())
	p.Flag("version", Bool(&p.version, false))
	return p
}

// Flag defines a flag of the table. If the table has one for this program, it is that one, and otherwise the route server's. Its
// variable is ROUTESRV_FLAG_ and the name.
func (p *Parser) Flag(name string, v *Value) {
	f := newFlag(name, v, p.command, "")
	f.env = EnvName(name)
	p.define(f)
}

// Ask defines a flag of an asking command: that of the table for this command, else for all that ask. Its variable is ROUTESRV_ and the
// name, as in ROUTESRV_NAMESPACE. It replaces a flag of the route server with the same name.
func (p *Parser) Ask(name string, v *Value) {
	f := newFlag(name, v, p.command, "asking")
	f.Ask, f.env = true, askName(name)
	if f.Short != "" {
		p.short[f.Short] = name
	}
	p.define(f)
}

func (p *Parser) define(f *Flag) {
	if before := p.byName[f.Name]; before != nil {
		if !f.Ask || before.Ask {
			panic("config: the flag " + f.Name + " is defined twice")
		}
	}
	p.byName[f.Name] = f // an asking command has another meaning for it
}

// Given reports whether the flag was given anywhere.
func (p *Parser) Given(name string) bool { return len(p.effective[name].values) > 0 }

// Value returns the value that was given for a flag, as it was written; empty if there is none.
func (p *Parser) Value(name string) string { return p.effective[name].last }

// Check adds a function of a program that verifies combinations of flags.
func (p *Parser) Check(f func() ([]Warning, error)) {
	p.check(func() {
		warnings, err := f()
		p.warnings = append(p.warnings, warnings...)
		if err != nil {
			p.errs = append(p.errs, err)
		}
	})
}

// check adds a function that verifies combinations after all values are set and each is valid alone. It reports with fail and
// warn.
func (p *Parser) check(f func()) { p.checks = append(p.checks, f) }

// given reports whether the flag was set to a value other than its default.
func (p *Parser) given(name string) bool {
	return p.Given(name) && p.Value(name) != p.byName[name].value.def
}

// fail records an error at the place where the flag was set; warn records a warning. An empty name means no particular flag.
func (p *Parser) fail(name string, err error) {
	p.errs = append(p.errs, &Error{Flag: p.shown(name), Where: p.effective[name].where, Err: err})
}

// shown returns the name of a flag with its dashes.
func (p *Parser) shown(name string) string {
	if name == "" {
		return ""
	}
	o := p.byName[name]
	return dashes(name, o != nil && o.Own) + name
}

func (p *Parser) failf(name, format string, args ...any) { p.fail(name, fmt.Errorf(format, args...)) }

func (p *Parser) warn(name, format string, args ...any) {
	w := Warning{Flag: p.shown(name), Where: p.effective[name].where, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(p.warnings, w) {
		p.warnings = append(p.warnings, w)
	}
}

// origin is where a setting comes from; a higher origin takes precedence.
type origin int

const (
	fromFile origin = iota
	fromEnvironment
	fromArguments
)

// effective is what the highest origin of a flag says, for some flags with what the file says.
type effective struct {
	values []string
	last   string // of values
	origin origin
	where  string // of the last one, as in Error
	file   string // where the file adds to it; empty if it does not
}

// setting is one value for one flag, in text form.
type setting struct {
	name   string
	value  string
	origin origin
	where  string // as in Error
}

// Parse reads the arguments, without the name of the program, and env into the values of the flags. It returns the positional
// arguments. Warnings and errors are those of [ParseRouteServer].
func (p *Parser) Parse(args []string, env Env) ([]string, []Warning, error) {
	given, positional := p.arguments(args)
	switch {
	case asked(given, "help"):
		if env.Output != nil {
			if err := p.Help(env.Output); err != nil {
				return nil, nil, fmt.Errorf("print help: %w", err)
			}
		}
		return nil, nil, ErrHelp
	case asked(given, "version"):
		return nil, nil, ErrVersion
	}
	p.environ = env.Environ
	settings := append(given, p.environment(env.Environ)...)
	settings = append(settings, p.file(settings, env.ReadFile)...)
	p.apply(settings)
	p.count(positional)

	// Check combinations only if each value is valid: on top of an invalid value, a check would report a follow-up error that
	// nobody can act on.
	if len(p.errs) == 0 {
		if p.take != nil {
			p.take(positional)
		}
		for _, check := range p.checks {
			check()
		}
	}
	if err := errors.Join(p.errs...); err != nil || !p.checkOnly.on {
		return positional, p.warnings, err
	}
	if env.Output != nil {
		if err := p.printChecked(env.Output); err != nil {
			return nil, p.warnings, fmt.Errorf("print the settings: %w", err)
		}
	}
	return nil, p.warnings, ErrChecked
}

// asked reports whether the last setting of a switch is on.
func asked(settings []setting, name string) bool {
	on := false
	for _, s := range settings {
		if s.name == name {
			on, _ = parseBool(s.value)
		}
	}
	return on
}

// inForce returns the settings that count, in the order in which they count: for a flag of the reference that may be repeated, and for one that takes
// several settings, those of all origins, the highest one last; for all other flags those of the highest. It warns of the values of other lists that the
// highest origin replaces.
func (p *Parser) inForce(settings []setting) (all []setting) {
	highest, file := make(map[string]origin), make(map[string]string)
	for _, s := range settings {
		highest[s.name] = max(highest[s.name], s.origin)
	}
	adds := func(s setting) bool {
		o := p.byName[s.name]
		return s.origin < highest[s.name] && o != nil && o.value.repeat && (!o.Own || o.value.settings != nil)
	}
	for _, s := range settings {
		switch o := p.byName[s.name]; {
		case adds(s) && s.origin == fromFile:
			file[s.name] = s.where
		case s.origin < highest[s.name] && o != nil && o.value.repeat && !adds(s):
			p.warnings = append(p.warnings, Warning{Flag: p.shown(s.name), Where: s.where, Text: "has no effect: the flag is also given elsewhere"})
		}
	}
	for _, s := range settings {
		// The reference reads the arguments, the file, and the arguments again. For these flags all three count.
		twice := s.name == "edit-route" || s.name == "clone-route" || s.name == allowedExternalName
		if twice && s.origin == highest[s.name] && file[s.name] != "" {
			all = append(all, s)
		}
	}
	for _, from := range []origin{fromFile, fromEnvironment, fromArguments} {
		for _, s := range settings {
			if s.origin == from && (from == highest[s.name] || adds(s)) {
				all = append(all, s)
			}
		}
	}
	for name, where := range file {
		p.effective[name] = effective{file: where}
	}
	return all
}

// apply sets the values that count.
func (p *Parser) apply(settings []setting) {
	for _, s := range p.inForce(settings) {
		before := p.effective[s.name]
		again := len(before.values) > 0
		p.effective[s.name] = effective{append(before.values, s.value), s.value, s.origin, s.where, before.file}
		o, ok := p.byName[s.name]
		if !ok {
			p.accept(s, again)
			continue
		}
		if again && !o.value.repeat && before.last != s.value {
			p.warn(s.name, "given more than once: the last value counts")
		}
		if err := o.value.set(s.value); err != nil {
			p.fail(s.name, err)
		}
	}
}

// accept handles a flag of Skipper that the route server does not have.
func (p *Parser) accept(s setting, again bool) {
	f := p.unsupported[s.name]
	if f.Bool {
		if _, err := parseBool(s.value); err != nil {
			p.fail(s.name, err)
			return
		}
	}
	if again || f.quiet != nil && *f.quiet == s.value {
		return
	}
	if f.Refused {
		p.failf(s.name, "not supported: %s", f.Reason)
		return
	}
	p.warn(s.name, "has no effect on a route server: %s", f.Reason)
}

// count checks the number of positional arguments.
func (p *Parser) count(args []string) {
	switch {
	case len(args) < p.cmd.MinArgs && len(p.errs) == 0:
		p.failf("", "%s: too few arguments: want %s (%s --help explains)", p.cmd.Name, p.cmd.Args, p.cmd.Name)
	case p.cmd.MaxArgs > 0 && len(args) > p.cmd.MaxArgs:
		p.failf("", "unexpected argument %s: %s wants %s", clip(args[p.cmd.MaxArgs]), p.cmd.Name, p.cmd.Args)
	}
}

// known reports whether the name is a flag, and whether it is a switch.
func (p *Parser) known(name string) (boolean, ok bool) {
	if o, ok := p.byName[name]; ok {
		return o.value.boolean, true
	}
	f, ok := p.unsupported[name]
	return f.Bool, ok
}

// names returns all names that known accepts.
func (p *Parser) names() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(slices.Collect(maps.Keys(p.byName)), maps.Keys(p.unsupported))))
}

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
	if like, found := Nearest(name, p.names()); found {
		if dash != "" {
			like = p.shown(like)
		}
		msg += ": did you mean " + like + "?"
	}
	return fmt.Errorf("%s (%s --help lists all flags)", msg, p.cmd.Name)
}

// Nearest returns the name closest to the typed one, if at most a third of the letters differ.
func Nearest(typed string, names []string) (string, bool) {
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
