package config

import (
	"io"
	"slices"
	"strings"
)

// Group is a group of flags in help and documents.
type Group string

// The groups of flags of the route server.
const (
	GroupGeneral     Group = "General"
	GroupSource      Group = "Source"
	GroupUpstream    Group = "Upstream"
	GroupPolling     Group = "Polling"
	GroupSelection   Group = "Selection"
	GroupGenerated   Group = "Generated routes"
	GroupConversion  Group = "Conversion"
	GroupAnnotations Group = "Annotations"
	GroupEastWest    Group = "East-west"
	GroupProcessing  Group = "Table processing"
	GroupGuard       Group = "Guard"
	GroupListen      Group = "Listeners and shutdown"
	GroupTLS         Group = "TLS and protection"
	GroupShards      Group = "Shards"
	GroupEvents      Group = "Events"
	GroupLogging     Group = "Logging"
	GroupTracing     Group = "Traces"
	GroupState       Group = "State folder"
)

// groups returns these groups in the order of the help, each with a sentence. Other groups follow in the order of their
// definition.
func groups() []groupDoc {
	return []groupDoc{
		{GroupGeneral, "For every command."},
		{GroupSource, "Where objects are read: an API server or files."},
		{GroupUpstream, "Other route servers: the upstream of a relay, and the other replicas."},
		{GroupPolling, "How often the source is read."},
		{GroupSelection, "Which objects are served."},
		{GroupGenerated, "Routes without an object."},
		{GroupConversion, "How Ingresses, RouteGroups and their backends become routes."},
		{GroupAnnotations, "Predicates and filters by annotation."},
		{GroupEastWest, "Routes for hosts that only clients inside the cluster may use."},
		{GroupProcessing, "Changes to the finished routes."},
		{GroupGuard, "Which new tables are suspicious, and how long the guard holds back what they change."},
		{GroupListen, "Where the server listens, and how it stops."},
		{GroupTLS, "Who may use the main listener."},
		{GroupShards, "Addresses of the stores for rate limits that proxies share."},
		{GroupEvents, "Problems as Kubernetes Events, where application teams look."},
		{GroupLogging, "Lines go to standard error."},
		{GroupTracing, "How tables come and go, for a collector of OpenTelemetry."},
		{GroupState, "What survives a restart."},
	}
}

type groupDoc struct {
	name     Group
	sentence string
}

// FlagDoc documents one flag.
type FlagDoc struct {
	Group   Group
	Name    string   // without dashes
	Short   string   // its one-letter form; empty for none
	Type    string   // bool, string, int, duration, list, …
	Default string   // as it would be typed; empty if the default is empty
	Usage   string   // sentences
	Own     bool     // not one of Skipper's
	Repeat  bool     // may be given more than once, with effect
	Ask     bool     // of an asking command
	Words   []string // the only possible values; nil for any
}

// UnsupportedDoc documents one flag of Skipper without effect here.
type UnsupportedDoc struct {
	Name    string // without dashes
	Bool    bool
	Refused bool   // setting it is an error, not a warning
	Reason  string // why, or what to do instead
}

// Flags documents the flags of the route server, by group.
func Flags() []FlagDoc { return routeServerParser(new(RouteServer)).Flags() }

// UnsupportedFlags documents the flags of Skipper that the route server does not have, sorted by name.
func UnsupportedFlags() []UnsupportedDoc {
	var docs []UnsupportedDoc
	for _, f := range unsupportedFlags() {
		docs = append(docs, UnsupportedDoc{Name: f.name, Bool: f.boolean, Refused: f.instead != "", Reason: f.why()})
	}
	slices.SortFunc(docs, func(a, b UnsupportedDoc) int { return strings.Compare(a.Name, b.Name) })
	return docs
}

// Help prints the help of the route server.
func Help(w io.Writer) error { return routeServerParser(new(RouteServer)).Help(w) }

// Flags documents the flags of the command, by group.
func (p *Parser) Flags() []FlagDoc {
	var docs []FlagDoc
	for _, g := range p.groups() {
		for _, o := range p.flags {
			if o.group == g.name {
				docs = append(docs, FlagDoc{
					Group: g.name, Name: o.name, Short: o.short, Type: o.value.kind, Default: o.value.def, Usage: o.usage,
					Own: o.own, Repeat: o.value.repeat, Ask: o.ask, Words: o.value.words,
				})
			}
		}
	}
	return docs
}

// groups returns the groups that have flags, in order.
func (p *Parser) groups() []groupDoc {
	used := make(map[Group]bool)
	for _, o := range p.flags {
		used[o.group] = true
	}
	all := slices.DeleteFunc(groups(), func(g groupDoc) bool { return !used[g.name] })
	for _, g := range all {
		delete(used, g.name)
	}
	for _, o := range p.flags {
		if used[o.group] {
			all = append(all, groupDoc{name: o.group})
			delete(used, o.group)
		}
	}
	return all
}

// envDoc documents one environment variable.
type envDoc struct{ name, usage string }

// environmentDocs documents the environment variables, including those that packages using the configuration read.
func environmentDocs() []envDoc {
	return []envDoc{
		{EnvPrefix + "…", "Any flag: the name in capitals, with underscores for dashes, as in " +
			EnvName("source-poll-timeout") + "=3000. For a flag that may be repeated, each line of the value counts. An unknown " +
			"name is an error. The prefix is not just ROUTESRV_, because Kubernetes gives pods variables such as " +
			"ROUTESRV_PORT if there is a Service called routesrv."},
		{"KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT", "Address of the API with -kubernetes-in-cluster. Kubernetes sets them."},
		{"KUBECONFIG", "Not read: name the file with --kubeconfig."},
		{"HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "Proxy for the connection to the API."},
		{"SSL_CERT_FILE, SSL_CERT_DIR", "CAs of the system, instead of the usual files."},
		{"GOGC, GOMEMLIMIT, GOMAXPROCS", "Garbage collection, memory and processors of the Go runtime."},
	}
}

// askingText says where the settings of asking commands come from.
const askingText = "Each flag has a variable: ROUTESRV_ and its name in capitals, as in ROUTESRV_NAMESPACE. The command line overrides it."

// settingsText says where settings come from.
const settingsText = "A value comes from the command line, else from the environment, else from the file of -config-file, else " +
	"it is the default. Write a flag as -name=value or -name value, with one dash or two, and a switch (bool) as -name or " +
	"-name=false."

// unsupportedText explains how other flags of Skipper are handled.
const unsupportedText = "Other flags of Skipper are accepted, so that the arguments of a Deployment work unchanged. Flags " +
	"without effect here are accepted with a warning that says why. Flags for features that do not exist here are an error " +
	"that says what to do instead."

// Option returns the flag as it is typed.
func (d FlagDoc) Option() string { return dashes(d.Name, d.Own) + d.Name }

// dashes returns the dashes of a name: one for Skipper's flags and for single letters, two for this project's flags.
func dashes(name string, own bool) string {
	if own && len(name) > 1 {
		return "--"
	}
	return "-"
}
