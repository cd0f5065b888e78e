package config

import (
	"regexp"
	"strings"
)

// EnvPrefix begins the variables that are settings. It is not just the name of the program: Kubernetes gives every pod
// variables for every Service of its namespace, and one called "routesrv" makes ROUTESRV_PORT and the like.
const EnvPrefix = "ROUTESRV_FLAG_"

// EnvName is the variable for a flag.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// serviceLink matches what follows the prefix in the variables that Kubernetes would make for a Service whose name
// begins with "routesrv-flag". A flag by such a name wins.
var serviceLink = regexp.MustCompile(`^(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// environment reads the variables that are settings. For a flag that may be repeated, each line of the value is one.
func (p *Parser) environment(environ []string) []setting {
	names := make(map[string]string)
	for _, name := range p.names() {
		if !onlyArgument(name) {
			names[EnvName(name)] = name
		}
	}
	var settings []setting
	for _, e := range environ {
		variable, val, ok := strings.Cut(e, "=")
		if !ok || !strings.HasPrefix(variable, EnvPrefix) {
			continue
		}
		name, ok := names[variable]
		if !ok {
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

// onlyArgument reports whether a flag is a question and not a setting.
func onlyArgument(name string) bool {
	return name == "help" || name == "version" || name == "check-config"
}

// lookup returns a variable of the environment that is no setting; it is read only for a warning.
func lookup(environ []string, name string) string {
	for _, e := range environ {
		if v, val, ok := strings.Cut(e, "="); ok && v == name {
			return val
		}
	}
	return ""
}
