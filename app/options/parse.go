package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/routesrv/routesrv/catalogue"
	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/poller"
)

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%s: must be true or false", clip(s))
	}
	return b, nil
}

// address checks the address of a listener.
func address(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil || port == "" {
		return fmt.Errorf("%s: must be HOST:PORT or :PORT", clip(s))
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > 65535) {
		return fmt.Errorf("%s: the port must be from 0 to 65535", clip(s))
	}
	return nil
}

// share parses a share above zero, as 0.5 or 50%.
func share(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f > 0 && f <= 1) { // written this way to reject NaN
		return 0, fmt.Errorf("%s: must be in (0, 1], e.g. 0.5 or 50%%; 1 disables the rule", clip(s))
	}
	return f, nil
}

// regexpText checks a regular expression.
func regexpText(s string) error {
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

// parseProxyFilters parses filters for routes. It rejects those that no proxy survives: every route would be unpublishable.
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

// parseCIDRs parses networks and addresses separated by commas.
func parseCIDRs(s string) (nets []string, err error) {
	if s == "" {
		return nil, nil
	}
	for n := range strings.SplitSeq(s, ",") {
		n = strings.TrimSpace(n)
		_, noPrefix := netip.ParsePrefix(n)
		if _, err := netip.ParseAddr(n); err != nil && noPrefix != nil {
			return nil, fmt.Errorf("%s: must be networks such as 10.2.0.0/16, separated by commas", clip(n))
		}
		nets = append(nets, n)
	}
	return nets, nil
}

// parseURL parses a URL for HTTP or HTTPS; empty means none. The error does not repeat the text, which may contain a password.
func parseURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("must be a URL such as https://host:port")
	}
	return u, nil
}

// checkURL is parseURL for texts.
func checkURL(s string) error {
	_, err := parseURL(s)
	return err
}

// parseSelector parses a=b,c: the label a with the value b, and the label c with any value.
func parseSelector(s string) (map[string]string, error) {
	wanted, err := labels.ParseToRequirements(s)
	sel := make(map[string]string)
	for _, r := range wanted {
		value, _ := r.Values().PopAny()
		_, again := sel[r.Key()]
		switch op := r.Operator(); {
		case again:
			return nil, fmt.Errorf("label %s given twice", clip(r.Key()))
		case op != selection.Exists && (op != selection.Equals || value == ""):
			err = errors.New("another form")
		}
		sel[r.Key()] = value
	}
	if err != nil {
		return nil, fmt.Errorf("%s: must be labels as name=value, or name alone for any value, separated by commas", clip(s))
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
	return 0, fmt.Errorf("%s: must be 1.0, 1.1, 1.2 or 1.3", clip(s))
}

// Log levels in addition to those of slog and poller.LevelTrace, for the names of Skipper that slog does not have.
const (
	LevelFatal = slog.LevelError + 4
	LevelPanic = slog.LevelError + 8
)

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
	return 0, fmt.Errorf("%s: must be TRACE, DEBUG, INFO, WARN, ERROR, FATAL or PANIC", clip(s))
}
