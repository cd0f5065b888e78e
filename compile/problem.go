package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/kube"
)

// Severity says how much a problem matters. The zero value is [Info].
type Severity uint8

// The severities.
const (
	Info    Severity = iota // worth knowing; nothing was lost that was asked for
	Warning                 // something will not do what its author meant
	Error                   // an object or one of its routes was left out, or has lost a part
)

var severities = []string{"info", "warning", "error"}

// String is "info", "warning" or "error".
func (s Severity) String() string { return severities[s] }

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reason is a stable code for a kind of problem, fit for a metric label.
type Reason string

// The reasons.
const (
	Undecodable       Reason = "undecodable"        // the object does not have the shape of its kind
	InvalidObject     Reason = "invalid_object"     // incomplete, or refused by validation: the object gives no route
	InvalidAnnotation Reason = "invalid_annotation" // an annotation was ignored or replaced by a default
	RuleWithoutHTTP   Reason = "rule_without_http"  // a rule that says nothing
	MissingBackend    Reason = "missing_backend"    // a path entry without backend
	ServiceNotFound   Reason = "service_not_found"  // a backend names a service that is not there
	PortNotFound      Reason = "port_not_found"     // a backend names a port that its service does not have
	InvalidService    Reason = "invalid_service"    // a service without metadata or spec
	BackendRefused    Reason = "backend_refused"    // a backend of a kind or an address that is not allowed
	MultiplePaths     Reason = "multiple_paths"     // a custom route with more than one path predicate
	DefaultFilters    Reason = "default_filters"    // a default filter file or its folder cannot be used
	DuplicateID       Reason = "duplicate_id"       // two different routes have one id: the later is left out
	NotParsable       Reason = "not_parsable"       // the printed route does not parse back: it would poison the table
	WouldCrashProxy   Reason = "would_crash_proxy"  // the route would end the process of every proxy that gets it
	Shadows           Reason = "shadows"            // a route that matches what a route of an older object matches
	InvalidExpression Reason = "invalid_expression" // a host or path that proxies cannot match: they drop the route
	NullEntry         Reason = "null_entry"         // a null in a list, which is ignored
	ProcessingFailed  Reason = "processing_failed"  // an edit or clone rule made something that does not parse
	TLSSecret         Reason = "tls_secret"         // spec.tls and its secret do not fit
	TLSCertificate    Reason = "tls_certificate"    // a certificate was accepted
	EastWestEnabled   Reason = "east_west"          // companions of default backends were added
	ExternalNames     Reason = "external_names_off" // an external name that the options do not enable
)

// Problem is one finding about one object: mostly a route that was left out.
type Problem struct {
	Owner    kube.Ref `json:"owner"`
	Route    string   `json:"route,omitempty"` // id of the route, if it is about one
	Reason   Reason   `json:"reason"`
	Severity Severity `json:"severity"`
	// Message is the text that the reference logs, where it has one.
	Message string `json:"message"`
	// Cause is what the reference logs beside its message, in the field error.
	Cause string `json:"cause,omitempty"`
	// Plain marks a message that the reference logs without naming the object.
	Plain bool `json:"-"`
}

// String names the owner before the message: for people and for the compile command.
func (p Problem) String() string {
	s := fmt.Sprintf("%s: %s: %s", p.Severity, p.Owner, p.Message)
	if p.Cause != "" {
		s += ": " + p.Cause
	}
	return s
}

// sortProblems orders by owner; the problems of one owner stay in the order in which they were found.
func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int { return a.Owner.Compare(b.Owner) })
}

// findings collects the problems of one object. The same finding is kept once, as the reference logs it once per
// object and load.
type findings struct {
	owner kube.Ref
	list  []Problem
}

func (f *findings) add(p Problem) {
	p.Owner = f.owner
	if !slices.Contains(f.list, p) {
		f.list = append(f.list, p)
	}
}

func (f *findings) errorf(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Error, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) infof(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Info, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) warnf(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Warning, Message: fmt.Sprintf(format, args...)})
}

// plainf adds an error that the reference logs without naming the object.
func (f *findings) plainf(r Reason, format string, args ...any) {
	f.add(Problem{Reason: r, Severity: Error, Message: fmt.Sprintf(format, args...), Plain: true})
}

// joinErrors is errors.Join for texts: one per line.
func joinErrors(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}
