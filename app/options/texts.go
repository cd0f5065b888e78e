package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/poller"
)

// expression checks a regular expression.
func expression(s string) error {
	_, err := regexp.Compile(s)
	return err
}

func parsePredicates(s string) ([]*eskip.Predicate, error) {
	ps, err := eskip.ParsePredicates(s)
	if err != nil {
		return nil, fmt.Errorf("predicates %s: %w", clip(s), err)
	}
	return ps, nil
}

func parseFilters(s string) ([]*eskip.Filter, error) {
	fs, err := eskip.ParseFilters(s)
	if err != nil {
		return nil, fmt.Errorf("filters %s: %w", clip(s), err)
	}
	return fs, nil
}

// parseProxyFilters parses filters for routes. A filter that no proxy survives would make every route unpublishable, so such a
// setting is refused at startup, while the old instances still serve.
func parseProxyFilters(s string) ([]*eskip.Filter, error) {
	fs, err := parseFilters(s)
	if err != nil {
		return nil, err
	}
	if err := catalogue.Survives(fs); err != nil {
		return nil, fmt.Errorf("no proxy would survive it: %w", err)
	}
	return fs, nil
}

// change is the rule of an edit or clone flag.
type change struct {
	reg  *regexp.Regexp
	repl string
}

// parseChange parses /expression/replacement/, where the first character is the separator. rest is the text after the last
// separator, which has no meaning.
func parseChange(s string) (c change, rest string, err error) {
	if s == "" {
		return change{}, "", errors.New("want /expression/replacement/, not an empty text")
	}
	sep := string([]rune(s)[:1])
	parts := strings.Split(s, sep)
	if len(parts) != 4 {
		return change{}, "", fmt.Errorf("%s: want %sexpression%sreplacement%s, where the first character is the separator "+
			"and stands nowhere else", clip(s), sep, sep, sep)
	}
	reg, err := regexp.Compile(parts[1])
	if err != nil {
		return change{}, "", fmt.Errorf("%s: %w", clip(s), err)
	}
	return change{reg, parts[2]}, parts[3], nil
}

// annotated accepts KEY=VALUE=TEXT, cut at the first two equal signs, and adds what the text says for this annotation.
func annotated(kind string, add func(key, val, text string) error) *Value {
	given := make(map[string]bool)
	return Repeated("KEY=VALUE="+kind, func(s string) error {
		if s == "" {
			return nil
		}
		parts := strings.SplitN(s, "=", 3)
		if len(parts) != 3 || parts[0] == "" {
			return fmt.Errorf("%s: want KEY=VALUE=TEXT with the key and the value of an annotation", clip(s))
		}
		key, val := parts[0], parts[1]
		if given[key+"="+val] {
			return fmt.Errorf("annotation %s given twice", clip(key+"="+val))
		}
		given[key+"="+val] = true
		return add(key, val, parts[2])
	})
}

func annotationPredicates(dst *[]rules.AnnotationPredicates) *Value {
	return annotated("PREDICATES", func(key, val, text string) error {
		ps, err := parsePredicates(text)
		*dst = append(*dst, rules.AnnotationPredicates{Key: key, Value: val, Predicates: ps})
		return err
	})
}

func annotationFilters(dst *[]rules.AnnotationFilters) *Value {
	return annotated("FILTERS", func(key, val, text string) error {
		fs, err := parseProxyFilters(text)
		*dst = append(*dst, rules.AnnotationFilters{Key: key, Value: val, Filters: fs})
		return err
	})
}

// parseCIDRs parses networks and addresses separated by commas.
func parseCIDRs(s string) ([]string, error) {
	var nets []string
	if s == "" {
		return nil, nil
	}
	for _, n := range strings.Split(s, ",") {
		n = strings.TrimSpace(n)
		if _, err := netip.ParsePrefix(n); err != nil {
			if _, err := netip.ParseAddr(n); err != nil {
				return nil, fmt.Errorf("%s: want networks such as 10.2.0.0/16, with commas between them", clip(n))
			}
		}
		nets = append(nets, n)
	}
	return nets, nil
}

// optionalURL checks a URL for HTTP or HTTPS, if there is one. The error does not repeat the URL, because it may contain a password.
func optionalURL(s string) error {
	u, err := url.Parse(s)
	if s != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("want a URL such as https://host:port")
	}
	return nil
}

// plainURL parses a URL for HTTP or HTTPS without user, query and fragment. want says in the error what is wanted.
func plainURL(s, want string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New(want) // the text may contain a password, so leave it out
	case u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: %s", clip(u.Redacted()), want)
	}
	return u, nil
}

// labelName and labelValue match what Kubernetes allows in labels. Anything else would change the meaning of the selector built
// from them.
var (
	labelName  = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// parseSelector parses a=b,c: the label a with the value b, and the label c with any value.
func parseSelector(s string) (map[string]string, error) {
	if s == "" {
		return nil, nil
	}
	sel := make(map[string]string)
	for _, part := range strings.Split(s, ",") {
		key, val, equal := strings.Cut(strings.TrimSpace(part), "=")
		if !labelName.MatchString(key) || equal && !labelValue.MatchString(val) {
			return nil, fmt.Errorf("%s: want labels as name=value, or name alone for any value, with commas between them",
				clip(part))
		}
		if _, again := sel[key]; again {
			return nil, fmt.Errorf("label %s given twice", clip(key))
		}
		sel[key] = val
	}
	return sel, nil
}

// parseTLSVersion parses a version with or without its dot, as Skipper does.
func parseTLSVersion(s string) (uint16, error) {
	versions := map[string]uint16{"10": tls.VersionTLS10, "11": tls.VersionTLS11, "12": tls.VersionTLS12, "13": tls.VersionTLS13}
	for name, version := range versions {
		if s == name || s == name[:1]+"."+name[1:] {
			return version, nil
		}
	}
	return 0, fmt.Errorf("%s: want 1.0, 1.1, 1.2 or 1.3", clip(s))
}

// levels are the names of Skipper's log levels.
var levels = map[string]slog.Level{
	"TRACE": poller.LevelTrace, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "WARNING": slog.LevelWarn,
	"ERROR": slog.LevelError, "FATAL": LevelFatal, "PANIC": LevelPanic,
}

// parseLevel parses the name of a log level.
func parseLevel(s string) (slog.Level, error) {
	if l, ok := levels[strings.ToUpper(s)]; ok {
		return l, nil
	}
	return 0, fmt.Errorf("%s: want TRACE, DEBUG, INFO, WARN, ERROR, FATAL or PANIC", clip(s))
}
