package config

// Likeness says how a flag of Skipper's route server works here.
type Likeness string

// The values of Likeness.
const (
	Same      Likeness = "same"
	Better    Likeness = "better"    // the same, and more
	Different Likeness = "different" // a value or use of the reference does not work here, or works differently
	Missing   Likeness = "not there" // accepted with a warning, without effect
	Refused   Likeness = "refused"   // an error at startup
)

// ComparedFlag describes one flag of Skipper's route server for an operator who migrates a Deployment.
type ComparedFlag struct {
	Group    Group
	Name     string // without dashes
	Default  string // as it would be typed; empty if the default is empty, or if the flag has no effect here
	Likeness Likeness
	Note     string // what differs; empty if nothing differs
}

// groupUnsupported is the group of the flags that have no effect here.
const groupUnsupported Group = "Not here"

// unsupportedThatCount lists the flags without effect here that Skipper's route server does read. All other unsupported flags
// have no effect there either.
var unsupportedThatCount = []string{
	"kubernetes-status-from-service",
	"oauth2-tokeninfo-url", "oauth2-tokeninfo-timeout", "oauth2-tokeninfo-cache-size", "oauth2-tokeninfo-cache-ttl",
	"opentracing", "open-telemetry",
}

// notes lists the differences by flag. A flag without a note works the same. A single value that is handled differently, such as
// an empty one, deserves a note; a different error text does not.
func notes() map[string]ComparedFlag {
	tls := ComparedFlag{Likeness: Better, Note: "changed files are read again, without a restart"}
	filters := ComparedFlag{Likeness: Better, Note: "a filter that no proxy survives is an error at the start"}
	shard := ComparedFlag{Likeness: Different, Note: "the start does not wait for the first read; the endpoint answers 503 " +
		"until then"}
	return map[string]ComparedFlag{
		"config-file": {Likeness: Better, Note: "errors name file and line; single settings can also come from the environment"},
		"kubernetes":  {Likeness: Better, Note: "`--manifests` can replace it, for a trial without a cluster"},
		"kubernetes-url": {Likeness: Better,
			Note: "every request has a deadline, `--timing=request-timeout`; `--kubeconfig` can replace it"},
		"enable-kubernetes-endpointslices": {Likeness: Better,
			Note: "the slices have their own label selector, `--kubernetes-label-selector=endpointslices:…`"},
		"source-poll-timeout": {Likeness: Better,
			Note: "after a failed read the delay grows, with jitter, up to `--timing=max-backoff`"},
		"default-filters-dir":     {Likeness: Better, Note: "a file that cannot be read causes a warning with its name"},
		"default-filters-prepend": filters, "default-filters-append": filters,
		"kubernetes-annotation-filters-append": filters, "kubernetes-east-west-range-annotation-filters-append": filters,
		"support-listener": {Likeness: Different,
			Note: "empty turns the listener off; it has more endpoints, see [endpoints](#endpoint-by-endpoint)"},
		"wait-for-healthcheck-interval": {Likeness: Better,
			Note: "SIGINT is handled like SIGTERM, and requests then have until `--timing=shutdown` to end"},
		"memory-profile-rate": {Likeness: Better, Note: "works; the reference accepts it and ignores it"},
		"enable-mtls":         {Likeness: Better, Note: "`--enable-tls` serves TLS without asking for client certificates"},
		"tls-cert":            tls, "tls-key": tls, "mtls-authn-ca": tls,
		"route-server-filters": {Likeness: Different,
			Note: "`status`, `inlineContent`, `setResponseHeader`, `appendResponseHeader`, `dropResponseHeader`, `mtlsAuthn` and `mtlsCN`; any other filter is an error at the start"},
		"kubernetes-redis-service-namespace": shard, "kubernetes-redis-service-name": shard,
		"kubernetes-valkey-service-namespace": shard, "kubernetes-valkey-service-name": shard,
		"application-log-level": {Likeness: Different,
			Note: "a line has `time`, `level`, `msg` and the fields of its message, the level in capitals"},
		"application-log-json-enabled": {Likeness: Different, Note: "the same fields as a JSON object"},
	}
}

// ComparedFlags returns all flags that Skipper's route server reads, in the groups of the help, with flags without effect last.
func ComparedFlags() []ComparedFlag {
	var all []ComparedFlag
	differ := notes()
	for _, f := range Flags() {
		if f.Own || f.Name == "help" || f.Name == "version" {
			continue
		}
		c, ok := differ[f.Name]
		if !ok {
			c.Likeness = Same
		}
		c.Group, c.Name, c.Default = f.Group, f.Name, f.Default
		all = append(all, c)
	}
	unsupported := unsupportedFlags()
	for _, name := range unsupportedThatCount {
		f := unsupported[name]
		c := ComparedFlag{Group: groupUnsupported, Name: name, Likeness: Missing, Note: f.reason}
		if f.instead != "" {
			c.Likeness, c.Note = Refused, f.instead
		}
		all = append(all, c)
	}
	return all
}
