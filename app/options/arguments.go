package options

import (
	"errors"
	"regexp"
	"strings"
)

// arguments splits the command line into settings and positional arguments. Unlike pflag, it accepts long names with one dash, as
// Skipper does, whose flags use package flag. As with Skipper, a switch never takes the next argument as its value.
func (p *Parser) arguments(args []string) (settings []setting, positional []string) {
	unknown := false // the previous argument was a flag of unknown kind
	after := ""      // the previous switch without a value
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return settings, p.positional(positional, args[i+1:], "")
		}
		if len(arg) < 2 || arg[0] != '-' {
			if !unknown {
				positional = p.positional(positional, args[i:i+1], after)
			}
			unknown, after = false, ""
			continue
		}
		unknown, after = false, ""
		name, val, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if name == "" || name[0] == '-' {
			p.failf("", "bad flag syntax %s: want -name, -name=value or -name value", clip(name))
			continue
		}
		if name, val, hasValue = p.long(name, val, hasValue, arg[1] != '-'); name == "h" {
			name = "help"
		}
		boolean, ok := p.known(name)
		switch {
		case !ok:
			p.fail("", p.unknown("flag", "-", name))
			unknown = !hasValue // then the next argument is more likely its value than a positional argument
			continue
		case boolean && !hasValue:
			val, after = "true", name
		case !hasValue && i+1 == len(args):
			p.fail(name, errors.New("needs a value"))
			continue
		case !hasValue:
			i++
			val = args[i]
		}
		settings = append(settings, setting{name: name, value: val, origin: fromArguments})
	}
	return settings, positional
}

// long returns the name of a flag whose one-letter form was given, also with its value attached after one dash, as in -ojson.
func (p *Parser) long(name, val string, hasValue, single bool) (string, string, bool) {
	if long, ok := p.short[name]; ok {
		return long, val, hasValue
	}
	if _, known := p.known(name); !known && single && !hasValue && len(name) > 1 {
		if long, ok := p.short[name[:1]]; ok && !p.byName[long].value.boolean {
			return long, name[1:], true
		}
	}
	return name, val, hasValue
}

// positional appends arguments that are not flags, or reports the first if the command accepts none. After a switch, the likely
// mistake is that its value was given as a separate argument.
func (p *Parser) positional(to, args []string, after string) []string {
	if p.cmd.MaxArgs != 0 || len(args) == 0 {
		return append(to, args...)
	}
	if after != "" {
		if _, err := parseBool(args[0]); err == nil {
			p.failf(after, "is a switch and takes its value with =: write %s=%s", p.shown(after), args[0])
			return to
		}
	}
	p.failf("", "unexpected argument %s: %s takes flags only", clip(args[0]), p.cmd.Name)
	return to
}

// EnvPrefix is the prefix of variables that are settings. It is longer than the name of the program because Kubernetes gives
// every pod variables for each Service of its namespace: a Service called "routesrv" creates ROUTESRV_PORT and others.
const EnvPrefix = "ROUTESRV_FLAG_"

// EnvName returns the variable for a flag.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// askName returns the variable for a flag of an asking command.
func askName(flag string) string {
	return "ROUTESRV_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// serviceLink matches what follows the prefix in the variables that Kubernetes creates for a Service whose name begins with
// "routesrv-flag". A flag of the same name takes precedence.
var serviceLink = regexp.MustCompile(`^(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// environment reads the variables that are settings. For a repeatable flag, each line of the value is one setting.
func (p *Parser) environment(environ []string) []setting {
	names := make(map[string]string)
	for _, name := range p.names() {
		switch o := p.byName[name]; {
		case onlyArgument(name):
		case o != nil:
			names[o.env] = name
		default:
			names[EnvName(name)] = name
		}
	}
	var settings []setting
	for _, e := range environ {
		variable, val, ok := strings.Cut(e, "=")
		name, known := names[variable]
		if o := p.byName[name]; !ok || !known && !strings.HasPrefix(variable, EnvPrefix) || o != nil && o.Ask && strings.Contains(val, "://") {
			continue // the last is of a Service called routesrv-..., too: no such flag has a URL
		}
		if !known {
			// A command that asks may run in the pod of a program whose settings are in the environment.
			if !p.cmd.Asking && !serviceLink.MatchString(variable[len(EnvPrefix):]) {
				like := strings.ToLower(strings.ReplaceAll(variable[len(EnvPrefix):], "_", "-"))
				p.errs = append(p.errs, &Error{Where: printable(variable), Err: p.unknown("flag", "-", like)})
			}
			continue
		}
		vals := []string{val}
		if o := p.byName[name]; o != nil && o.value.repeat {
			vals = strings.Split(strings.TrimRight(val, "\n"), "\n")
		}
		for _, v := range vals {
			settings = append(settings, setting{name: name, value: v, origin: fromEnvironment, where: variable})
		}
	}
	return settings
}

// onlyArgument reports whether a flag is allowed on the command line only, because it is a request such as --help and not a
// setting.
func onlyArgument(name string) bool {
	return name == "help" || name == "version" || name == "check-config"
}

// lookup returns an environment variable that is not a setting. Its value is used only for a warning.
func lookup(environ []string, name string) string {
	for _, e := range environ {
		if v, val, ok := strings.Cut(e, "="); ok && v == name {
			return val
		}
	}
	return ""
}
