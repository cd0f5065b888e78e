package rules

import "slices"

// Reason is a stable code for a kind of problem, suitable for a metric label.
type Reason string

// The reasons. [Reasons] explains each of them.
const (
	Undecodable       Reason = "undecodable"
	InvalidObject     Reason = "invalid_object"
	InvalidAnnotation Reason = "invalid_annotation"
	RuleWithoutHTTP   Reason = "rule_without_http"
	MissingBackend    Reason = "missing_backend"
	ServiceNotFound   Reason = "service_not_found"
	PortNotFound      Reason = "port_not_found"
	PortDiffers       Reason = "port_differs"
	NoEndpoints       Reason = "no_endpoints"
	InvalidService    Reason = "invalid_service"
	BackendRefused    Reason = "backend_refused"
	ExternalNames     Reason = "external_names_off"
	ZeroWeight        Reason = "zero_weight"
	NotSelected       Reason = "not_selected"
	MultiplePaths     Reason = "multiple_paths"
	DefaultFilters    Reason = "default_filters"
	DuplicateID       Reason = "duplicate_id"
	Shadows           Reason = "shadows"
	NotParsable       Reason = "not_parsable"
	WouldCrashProxy   Reason = "would_crash_proxy"
	FilterRefused     Reason = "filter_refused"
	RunsAtLoad        Reason = "runs_at_load"
	WouldReject       Reason = "proxy_would_reject"
	InvalidExpression Reason = "invalid_expression"
	NullEntry         Reason = "null_entry"
	ProcessingFailed  Reason = "processing_failed"
	EastWestEnabled   Reason = "east_west"
	TooLarge          Reason = "too_large"
	InternalError     Reason = "internal_error"
	Kept              Reason = "kept"     // of package publish, not of this one
	Takeover          Reason = "takeover" // of package takeover, likewise
	Soaking           Reason = "soaking"  // of the canary, likewise
	Halted            Reason = "halted"
	Promoted          Reason = "promoted"
)

// ReasonInfo documents a reason. The texts are plain English, for application teams.
type ReasonInfo struct {
	Reason Reason
	// Severity is the highest severity of problems with this reason.
	Severity Severity
	// Means is what is wrong: a clause without a full stop.
	Means string
	// Do tells the team what to do: a sentence, empty if there is nothing to do.
	Do string
	// Elsewhere means that the problem can appear and disappear without a change of the object: because of other objects or pods.
	Elsewhere bool
}

// reasons must not be changed.
var reasons = []ReasonInfo{
	{Undecodable, Error, "a field of the object has a type that its kind does not allow, so nothing of it is served",
		"Correct the field that the message names.", false},
	{InvalidObject, Error, "the object is not valid, so nothing of it is served",
		"Correct what the message names and apply the object again.", false},
	{InvalidAnnotation, Error, "an annotation is not valid, so it is ignored or a default is used instead",
		"Correct the annotation that the message names.", false},
	{RuleWithoutHTTP, Info, "a rule of the Ingress has no http section, so it makes no route",
		"Add paths to the rule, or remove it.", false},
	{MissingBackend, Error, "a path has no backend, so it makes no route", "Name a Service and a port for the path.", false},
	{NullEntry, Warning, "a list of the object has an empty entry (null), which is ignored", "Remove the entry, or fill it in.", false},
	{MultiplePaths, Error, "a route in the annotation has a path in addition to the path of the rule, so it is left out",
		"Remove one of the two paths.", false},
	{BackendRefused, Error, "a backend has a kind or an address that is not allowed here, so its routes are left out",
		"Use a Service of type ClusterIP, or ask the operators of the ingress to allow the address.", false},
	{ExternalNames, Info, "a backend is a Service of type ExternalName, which this ingress does not allow, so its routes are left out",
		"Use a Service of type ClusterIP, or ask the operators of the ingress to switch external names on.", false},
	{InvalidExpression, Warning, "a host or path is an expression that proxies cannot match, so they ignore its routes",
		"Correct the host or path; a wildcard host such as *.example.org is not supported, and brackets have to come in pairs.", false},
	{WouldReject, Warning, "proxies do not accept a filter, predicate or backend, so they ignore the routes that have it",
		"Correct the name or the arguments. If a custom build of your proxies knows it, ask their operators to name it with --filters or --predicates.", false},
	{WouldCrashProxy, Error, "a filter has arguments that would end, block or exhaust every proxy, so its route is left out",
		"Correct the argument that the message names.", false},
	{FilterRefused, Error, "the operators of this ingress do not allow a filter, so its route is left out",
		"Remove the filter, or ask the operators to allow it (--refuse-filters).", false},
	{RunsAtLoad, Warning, "a filter runs code or asks the network each time a proxy loads its routes; if that hangs, the proxy serves old routes",
		"Use a filter that works without it if there is one, and keep the script or the server that it asks fast and available.", false},
	{NotParsable, Error, "a route cannot be written in a form that proxies can read, so it is left out",
		"Look for quotes, control characters or a second Method in the part that the message names.", false},
	{TooLarge, Error, "the object makes more routes, or longer ones, than one object may have, so nothing of it is served",
		"Split it into several objects, or shorten the filters and predicates that all its routes repeat.", false},
	{ZeroWeight, Info, "a backend has the weight 0, so it gets no traffic",
		"Give it a weight above 0 if it is meant to get traffic.", false},
	{NotSelected, Info, "this ingress does not serve the class of the object, so nothing of it is served",
		"Correct the class, or remove it: an object without a class is always served.", false},
	{ServiceNotFound, Error, "a backend names a Service that does not exist, so its routes are left out",
		"Create the Service in the namespace of the object, or correct its name.", true},
	{PortNotFound, Error, "a backend names a port that its Service does not have",
		"Name a port of the Service, by number or by name.", true},
	{PortDiffers, Warning, "the pods of a Service have different numbers for a port, and proxies use one for all",
		"Finish the rollout. To move a port without errors, let the new pods listen on both numbers until it is finished.", true},
	{NoEndpoints, Warning, "a Service has no ready pod, so requests are answered with 502",
		"Compare the selector of the Service with the labels of the pods, and look at the readiness of the pods.", true},
	{DuplicateID, Error, "another object has a route with the same id, so this one is left out",
		"Change the name, host or path in this object: the other route is older.", true},
	{Shadows, Warning, "another object has a route for the same requests, and proxies take one of the two at random",
		"Remove the route from this object, or give it another host or path: the other object is older.", true},
	{InvalidService, Error, "a Service has no metadata or no spec, so backends cannot refer to it", "Correct the Service.", false},
	{DefaultFilters, Error, "the default filters, which the operators of the ingress maintain, are not valid", "Tell the operators of the ingress.", true},
	{ProcessingFailed, Error, "a rule with which the operators of the ingress change routes failed for this route", "Tell the operators of the ingress.", true},
	{InternalError, Error, "routesrv has a defect and fails on the object, so nothing of it is served",
		"Tell the operators of the ingress.", true},
	{Kept, Warning, "the object is served as it was, and its newest version waits: too much would be lost at once, a real proxy does not survive it, or it takes requests of others",
		"If the change is intended, ask the operators of the ingress to accept it; otherwise undo it.", true},
	{Takeover, Warning, "a change of one object took requests of another, in the last hour",
		"If that is not intended, undo the change, or give the routes that lost other hosts or more specific paths.", true},
	{Soaking, Info, "a change of the object is served to the canary, and to all proxies after the soak time", "", true},
	{Promoted, Info, "a change of the object has soaked on the canary and is served to all proxies", "", true},
	{Halted, Warning, "a change of the object was halted on the canary, because it did harm there or an operator said so, so no proxy is served it",
		"Correct the change: its next version soaks again. If the harm has another cause, ask the operators of the ingress to accept it.", true},
	{EastWestEnabled, Info, "routes for traffic inside the cluster were added", "", true},
}

// Reasons returns all reasons, starting with faults of the object itself. The caller owns the slice.
func Reasons() []ReasonInfo { return slices.Clone(reasons) }

// Info returns the documentation of the reason.
func (r Reason) Info() ReasonInfo {
	for _, info := range reasons {
		if info.Reason == r {
			return info
		}
	}
	return ReasonInfo{Reason: r, Means: string(r)}
}
