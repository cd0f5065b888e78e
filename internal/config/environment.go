package config

import (
	"regexp"
	"strings"
)

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
		if o := p.byName[name]; !ok || !known && !strings.HasPrefix(variable, EnvPrefix) || o != nil && o.ask && strings.Contains(val, "://") {
			continue // the last is of a Service called routesrv-..., too: no such flag has a URL
		}
		if !known {
			if !serviceLink.MatchString(variable[len(EnvPrefix):]) {
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
