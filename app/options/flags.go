// Package options declares the flags of the programs and translates them into the Config values of the packages that the programs
// are made of. Those packages know no flags.
//
// The flags have the names, defaults and forms of Skipper's flags, so that the arguments of an existing Deployment of its route
// server work unchanged. A setting comes from the command line, else from the environment (ROUTESRV_FLAG_ and the name in capitals),
// else from the YAML file that -config-file names. The repeatable flags of Skipper, and flags with several settings, add up.
//
// Nothing is silently ignored. A flag of Skipper without effect on a route server causes a warning with the reason. An unknown flag,
// or one that requests a different table or a protection that this server does not have, causes an [Error] that explains what to
// do instead. Messages never contain the values of flags that are not used here: some are passwords.
package options

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/routesrv/routesrv/catalogue"
)

// Flags are the flags of one command. Declare them with Add in groups, then call Resolve once the command line is parsed.
type Flags struct {
	*pflag.FlagSet
	cmd    *cobra.Command
	all    []*Flag // in the order of declaration
	group  group   // of the flags that are declared next
	hidden bool    // so are the flags that are declared next
	checks []func()

	configFile string
	checkOnly  bool

	// Filled by parsing and by Resolve.
	settings []setting
	environ  []string
	args     []string // positional
	warnings []*Error
	errs     []error
}

// group is a group of flags in help.
type group struct {
	name, about string
	objects     bool // about objects, so that the flags have no effect on a relay
	command     bool // of a command that queries servers: they are no settings, and their variables have another prefix
}

// Flag is a flag of a command, a [pflag.Value]. Parsing the command line only records texts, which [Flags.Resolve] applies.
type Flag struct {
	Name  string // without dashes
	Usage string // sentences
	Own   bool   // not one of Skipper's

	Ignored string // why a flag of Skipper has no effect here, or what to do instead; empty for a flag that is used
	Refused bool   // setting it is an error, not a warning

	flags *Flags
	group group
	value *Value
	quiet *string // a value of an ignored flag that requests the existing behaviour; nil if there is none
	arg   *string // the last value on the command line

	values []string // that count
	where  string   // of the last one, as in Error
	file   bool     // the file has some
}

// New returns the flags of a command, without any.
func New(cmd *cobra.Command) *Flags {
	f := &Flags{FlagSet: cmd.Flags(), cmd: cmd}
	f.SortFlags = false
	return f
}

// Group begins a group of flags. about completes its name in help.
func (f *Flags) Group(name, about string) { f.group = group{name: name, about: about} }

// objects begins a group of flags that have no effect on a relay.
func (f *Flags) objects(name, about string) { f.group = group{name: name, about: about, objects: true} }

// CommandGroup begins a group of flags of a command that queries servers.
func (f *Flags) CommandGroup(name string) { f.group = group{name: name, command: true} }

// Add declares a flag. Its name has one dash for a flag of Skipper, two for our own, and a one-letter form before a comma, as in
// "-o,--output". A flag of a command that queries servers hides a setting of the server with the same name.
func (f *Flags) Add(name string, v *Value, usage string) {
	short, long, found := strings.Cut(name, ",")
	if !found {
		short, long = "", name
	}
	flag := &Flag{Name: strings.TrimLeft(long, "-"), Usage: usage, Own: strings.HasPrefix(long, "--"), flags: f, group: f.group, value: v}
	if f.hidden && f.Lookup(flag.Name) != nil {
		return
	}
	for _, s := range v.settings {
		flag.Usage += " " + s.Name
		if s.Value.def != "" && s.Value.kind != "bool" {
			flag.Usage += "=" + s.Value.def
		}
		flag.Usage += ": " + s.Usage
	}
	f.add(flag, strings.Trim(short, "-"))
}

func (f *Flags) add(flag *Flag, short string) {
	p := f.VarPF(flag, flag.Name, short, flag.Usage)
	p.Hidden = f.hidden || flag.Ignored != ""
	if flag.value.kind == "bool" {
		p.NoOptDefVal = "true"
	}
	if words := flag.value.words; words != nil {
		f.Complete(flag.Name, func() []string { return words })
	}
	f.all = append(f.all, flag)
}

// Complete declares the values that shells suggest for a flag.
func (f *Flags) Complete(name string, values func() []string) {
	_ = f.cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	}) // the flag exists
}

// flag returns the flag of a name; nil if there is none.
func (f *Flags) flag(name string) *Flag { return flagOf(f.Lookup(name)) }

// flagOf returns the flag that a pflag.Flag belongs to; nil for one of cobra's.
func flagOf(p *pflag.Flag) *Flag {
	if p == nil {
		return nil
	}
	flag, _ := p.Value.(*Flag)
	return flag
}

// All returns the flags that the command uses, in the order of the help.
func (f *Flags) All() []*Flag {
	return slices.DeleteFunc(slices.Clone(f.all), func(one *Flag) bool { return one.Ignored != "" })
}

// Option returns the flag as it is typed.
func (f *Flag) Option() string {
	if f.Own {
		return "--" + f.Name
	}
	return "-" + f.Name
}

// Group returns the name of the flag's group.
func (f *Flag) Group() string { return f.group.name }

// Type implements [pflag.Value] with the kind of the value: bool, string, int, duration, list and so on.
func (f *Flag) Type() string { return f.value.kind }

// String implements [pflag.Value]: it returns the last text of the command line, or the default.
func (f *Flag) String() string {
	if f.arg != nil {
		return *f.arg
	}
	return f.value.def
}

// Set implements [pflag.Value] and never fails.
func (f *Flag) Set(text string) error {
	f.arg = &text
	f.flags.give(f, text, fromArguments, "")
	return nil
}

// Default returns the default as it would be typed.
func (f *Flag) Default() string { return f.value.def }

// Given reports whether a flag was given anywhere.
func (f *Flags) Given(name string) bool { return len(f.flag(name).values) > 0 }

// Value returns the last value that was given for a flag, as it was written; empty if there is none.
func (f *Flags) Value(name string) string {
	if values := f.flag(name).values; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// changed reports whether the flag was set to a value other than its default.
func (f *Flags) changed(name string) bool {
	return f.Given(name) && f.Value(name) != f.flag(name).value.def
}

// Check adds a function that verifies combinations after all values are set and each is valid alone. It reports with failf and warn.
func (f *Flags) Check(check func()) { f.checks = append(f.checks, check) }

// fail records an error at the place where the flag was set. An empty name means no particular flag.
func (f *Flags) fail(name string, err error) { f.errs = append(f.errs, f.at(name, err)) }

func (f *Flags) failf(name, format string, args ...any) { f.fail(name, fmt.Errorf(format, args...)) }

func (f *Flags) warn(name, format string, args ...any) {
	w := f.at(name, fmt.Errorf(format, args...))
	if !slices.ContainsFunc(f.warnings, func(o *Error) bool { return o.Error() == w.Error() }) {
		f.warnings = append(f.warnings, w)
	}
}

func (f *Flags) at(name string, err error) *Error {
	if flag := f.flag(name); flag != nil {
		return &Error{Flag: flag.Option(), Where: flag.where, Err: err}
	}
	return &Error{Err: err}
}

// Warnings returns the notices about a configuration, which a program must show even with an error.
func (f *Flags) Warnings() []*Error { return f.warnings }

// Error is one mistake in the arguments or the configuration, or a warning about a valid one.
type Error struct {
	Flag  string // with the dashes that help shows; empty if the error is not about a flag
	Where string // variable, or file and line; empty for the command line
	Err   error
}

// Error returns the message as one line, place first.
func (e *Error) Error() string {
	text := e.Err.Error()
	for _, place := range []string{e.Flag, e.Where} {
		if place != "" {
			text = place + ": " + text
		}
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usagef returns an error in the arguments.
func Usagef(format string, args ...any) error { return &Error{Err: fmt.Errorf(format, args...)} }

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
func unknown(flags *pflag.FlagSet, what, name string) error {
	msg := "unknown " + what + printable(name)
	typed := strings.ToLower(strings.Trim(strings.ReplaceAll(name, "_", "-"), "-"))
	like, least := "", max(1, len(typed)/3)+1 // at most a third of the letters may differ
	if len(typed) <= maxShown {
		flags.VisitAll(func(p *pflag.Flag) {
			if d := catalogue.Distance(typed, p.Name); d < least {
				like, least = p.Name, d
				if flag := flagOf(p); flag != nil && strings.HasSuffix(what, "-") {
					like = flag.Option()
				}
			}
		})
	}
	if like != "" {
		msg += ": did you mean " + like + "?"
	}
	return fmt.Errorf("%s", msg)
}

// SetArgs sets the arguments of a program, in the form of package flag, and its help. It returns the command that they name.
func SetArgs(root *cobra.Command, args []string) (cmd *cobra.Command, err error) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { help(cmd, cmd.OutOrStdout()) })
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		help(cmd, cmd.OutOrStderr())
		return nil
	})
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // the last word is incomplete
		n := max(1, len(args)-1)
		words, _, err := normalize(root, args[1:n])
		if err != nil { // such as a flag whose value is the last word
			words = args[1:n]
		}
		root.SetArgs(slices.Concat(args[:1], words, args[n:]))
		return root, nil
	}
	args, cmd, err = normalize(root, args)
	root.SetArgs(args)
	return cmd, err
}

// normalize turns the arguments of a program into those of pflag: package flag, which Skipper uses, also takes one dash for long names.
// A value may look like a flag or a command. All unknown flags are reported at once.
func normalize(cmd *cobra.Command, args []string) (out []string, named *cobra.Command, err error) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	flags := cmd.Flags()
	var bad []error
	for i := 0; i < len(args); i++ {
		arg := args[i]
		typed := strings.TrimLeft(arg, "-")
		name, _, attached := strings.Cut(typed, "=")
		flag, value := flags.Lookup(name), i+1 < len(args) && !attached
		switch {
		case arg == "--":
			return append(out, args[i:]...), cmd, joined(bad)
		case len(arg) < 2 || arg[0] != '-':
			if out = append(out, arg); !cmd.HasSubCommands() {
				continue
			}
			rest := args[i+1:]
			if sub, _, _ := cmd.Find(args[i : i+1]); sub != cmd && len(bad) == 0 {
				rest, cmd, err = normalize(sub, rest)
			}
			return append(out, rest...), cmd, joined(append(bad, err))
		case name == "help" || arg == "-h":
			return append(out, "--help"), cmd, nil // whatever else is wrong
		case flag == nil && flags.ShorthandLookup(arg[1:2]) != nil: // as in -ojson
			if out = append(out, arg); len(arg) == 2 && value && flags.ShorthandLookup(name).NoOptDefVal == "" {
				i++
				out = append(out, args[i])
			}
		case flag == nil:
			bad = append(bad, &Error{Err: unknown(flags, "flag -", name)})
			if value && !strings.HasPrefix(args[i+1], "-") {
				i++ // more likely its value than a command
			}
		case value && flag.NoOptDefVal == "":
			i++
			out = append(out, "--"+name+"="+args[i])
		default:
			out = append(out, "--"+typed)
		}
	}
	return out, cmd, joined(bad)
}

// settingsHelp describes the forms and places of settings.
const settingsHelp = `A value comes from the command line, else from the environment (ROUTESRV_FLAG_ and the name in
capitals, as in ROUTESRV_FLAG_SOURCE_POLL_TIMEOUT=3000; a repeatable flag takes one value per line),
else from the file of -config-file; repeatable flags of Skipper, and settings, add up. Other flags
of Skipper are accepted, with a warning that says why they have no effect.

Also read: KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, HTTPS_PROXY, HTTP_PROXY, NO_PROXY,
SSL_CERT_FILE, SSL_CERT_DIR, GOGC, GOMEMLIMIT and GOMAXPROCS; not KUBECONFIG.
`

// commandHelp describes the variables of commands that query servers.
const commandHelp = `Each flag has a variable, such as ROUTESRV_NAMESPACE; the command line overrides it.
`

// help prints the description of a command, and its flags in groups.
func help(cmd *cobra.Command, w io.Writer) {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(cmd.Short+"\n\n"+cmd.Long) + "\n\nUsage:\n")
	if cmd.Runnable() {
		b.WriteString("  " + cmd.UseLine() + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags] [arguments]\n\nCommands\n", cmd.CommandPath())
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
	if cmd.Example != "" {
		b.WriteString("\nExamples\n" + strings.TrimRight(cmd.Example, "\n") + "\n")
	}
	var last group
	flags := new(pflag.FlagSet)
	end := func() {
		if flags.HasFlags() {
			b.WriteString("\n" + strings.TrimSuffix(last.name+" ("+last.about+")", " ()") + "\n" + flags.FlagUsagesWrapped(helpWidth))
		}
	}
	cmd.Flags().VisitAll(func(p *pflag.Flag) {
		flag := flagOf(p)
		if p.Hidden || flag == nil {
			return
		}
		if flag.group != last {
			end()
			last, flags = flag.group, new(pflag.FlagSet)
			flags.SortFlags = false
		}
		flags.AddFlag(p)
	})
	end()
	switch {
	case last.command:
		b.WriteString("\n" + commandHelp)
	case last.name != "":
		b.WriteString("\n" + settingsHelp)
	}
	_, _ = io.WriteString(w, b.String()) // cobra has no way to report it
}

// helpWidth is the maximum length of the lines about flags, in characters.
const helpWidth = 100
