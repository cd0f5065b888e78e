package options

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// ErrChecked is returned if only a check of the settings was requested and they are valid.
var ErrChecked = errors.New("only a check of the settings requested")

// Env holds the sources of settings other than the arguments.
type Env struct {
	// Environ holds the environment variables in the form of os.Environ.
	Environ []string
	// ReadFile reads the configuration file, like os.ReadFile.
	ReadFile func(name string) ([]byte, error)
}

// origin is where a setting comes from; a higher origin takes precedence.
type origin int

const (
	fromFile origin = iota
	fromEnvironment
	fromArguments
)

// setting is one value for one flag, in text form.
type setting struct {
	flag   *Flag
	value  string
	origin origin
	where  string // as in Error
}

// Resolve applies and checks the settings of all places after the command line was parsed. args are the positional arguments.
func (f *Flags) Resolve(args []string, env Env) error {
	f.environ, f.args = env.Environ, args
	f.environment()
	f.readFile(env.ReadFile)
	f.apply()
	// On top of an invalid value, a check of combinations would report a follow-up error that helps no operator.
	if len(f.errs) == 0 {
		for _, check := range f.checks {
			check()
		}
	}
	if err := joined(f.errs); err != nil || !f.checkOnly {
		return err
	}
	return ErrChecked
}

// joined joins errors; one error stays as it is.
func joined(errs []error) error {
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// inForce returns the settings that count, in the order in which they count: for a flag of the reference that may be repeated, and for
// one that takes several settings, the values of all origins, the highest one last; for all other flags only the highest.
func (f *Flags) inForce() (all []setting) {
	highest := make(map[*Flag]origin)
	for _, s := range f.settings {
		highest[s.flag] = max(highest[s.flag], s.origin)
	}
	adds := func(s setting) bool {
		v := s.flag.value
		return s.origin < highest[s.flag] && s.flag.Ignored == "" && v.repeat && (!s.flag.Own || v.settings != nil)
	}
	for _, s := range f.settings {
		// The reference reads the arguments, the file, and the arguments again. For these flags all three count.
		twice := s.flag.Name == "edit-route" || s.flag.Name == "clone-route" || s.flag.Name == allowedExternalName
		if twice && s.origin == highest[s.flag] && s.origin > fromFile && s.flag.file {
			all = append(all, s)
		}
	}
	for _, from := range []origin{fromFile, fromEnvironment, fromArguments} {
		for _, s := range f.settings {
			if s.origin == from && (from == highest[s.flag] || adds(s)) {
				all = append(all, s)
			}
		}
	}
	return all
}

// apply sets the values that count.
func (f *Flags) apply() {
	for _, s := range f.inForce() {
		before := s.flag.values
		s.flag.values, s.flag.where = append(before, s.value), s.where
		if s.flag.Ignored != "" {
			f.ignore(s, len(before) > 0)
			continue
		}
		if len(before) > 0 && !s.flag.value.repeat && before[len(before)-1] != s.value {
			f.warn(s.flag.Name, "given more than once: the last value counts")
		}
		if err := s.flag.value.set(s.value); err != nil {
			f.fail(s.flag.Name, err)
		}
	}
}

// ignore handles a flag of Skipper that the route server does not have.
func (f *Flags) ignore(s setting, again bool) {
	if s.flag.value.kind == "bool" {
		if _, err := parseBool(s.value); err != nil {
			f.fail(s.flag.Name, err)
			return
		}
	}
	switch {
	case again || s.flag.quiet != nil && *s.flag.quiet == s.value:
	case s.flag.Refused:
		f.failf(s.flag.Name, "not supported: %s", s.flag.Ignored)
	default:
		f.warn(s.flag.Name, "has no effect on a route server: %s", s.flag.Ignored)
	}
}

// EnvPrefix is the prefix of variables that are settings. A Service called "routesrv" gives pods ROUTESRV_PORT and others.
const EnvPrefix = "ROUTESRV_FLAG_"

// EnvName returns the variable for a setting.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// serviceLink matches what follows the prefix in the variables of a Service whose name begins with "routesrv-flag".
var serviceLink = regexp.MustCompile(`^(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// environment reads the variables that are settings, or flags of a command. For a repeatable flag, each line is one setting.
func (f *Flags) environment() {
	names := make(map[string]*Flag)
	queries := false // servers; such a command may run in the pod of a program whose settings are in the environment
	for _, flag := range f.all {
		switch {
		case flag.group.command:
			queries = true
			names["ROUTESRV_"+strings.TrimPrefix(EnvName(flag.Name), EnvPrefix)] = flag
		case !onlyArgument(flag.Name):
			names[EnvName(flag.Name)] = flag
		}
	}
	for _, e := range f.environ {
		variable, val, _ := strings.Cut(e, "=")
		flag := names[variable]
		rest, setting := strings.CutPrefix(variable, EnvPrefix)
		switch {
		case flag == nil && setting && !queries && !serviceLink.MatchString(rest):
			like := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
			f.errs = append(f.errs, &Error{Where: printable(variable), Err: unknown(f.FlagSet, "flag -", like)})
		case flag == nil:
		case flag.group.command && strings.Contains(val, "://"): // of a Service called routesrv-…: no such flag has a URL
		case flag.value.repeat:
			for one := range strings.SplitSeq(strings.TrimRight(val, "\n"), "\n") {
				f.give(flag, one, fromEnvironment, variable)
			}
		default:
			f.give(flag, val, fromEnvironment, variable)
		}
	}
}

// give records a setting.
func (f *Flags) give(flag *Flag, value string, from origin, where string) {
	f.settings = append(f.settings, setting{flag, value, from, where})
	flag.file = flag.file || from == fromFile
}

// onlyArgument reports whether a flag is allowed on the command line only, because it is a request and not a setting.
func onlyArgument(name string) bool {
	return name == "help" || name == "version" || name == "check-config"
}

// lookup returns an environment variable that is not a setting.
func (f *Flags) lookup(name string) string {
	for _, e := range f.environ {
		if v, val, _ := strings.Cut(e, "="); v == name {
			return val
		}
	}
	return ""
}
