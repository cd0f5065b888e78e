package config

import "strings"

// unsupportedFlag is a flag of Skipper that the route server does not have.
type unsupportedFlag struct {
	name    string
	boolean bool
	reason  string  // why it has no effect here; follows a colon
	instead string  // if not empty, setting the flag is an error, and this says what to do
	quiet   *string // a value that requests the existing behaviour; nil if there is none
}

// why says why the flag has no effect, or what to do instead.
func (f unsupportedFlag) why() string {
	if f.instead != "" {
		return f.instead
	}
	return f.reason
}

// unsupportedFlags returns the flags of Skipper that are accepted and not used, by name.
func unsupportedFlags() map[string]unsupportedFlag {
	flags := make(map[string]unsupportedFlag)
	for _, b := range unsupportedBlocks() {
		for i, names := range []string{b.switches, b.values} {
			for _, name := range strings.Fields(names) {
				flags[name] = unsupportedFlag{name: name, boolean: i == 0, reason: b.reason}
			}
		}
	}
	for _, f := range specialFlags() {
		flags[f.name] = f
	}
	return flags
}

// noTracer says why no flag of Skipper's tracers has an effect.
const noTracer = "its traces are OpenTelemetry and go where --otlp-endpoint says"

// webhook says what replaces Skipper's validation webhook.
const webhook = "it validates objects in a process of its own: see routesrv webhook --help"

// specialFlags are flags with an individual text, some with a value that needs no warning.
func specialFlags() []unsupportedFlag {
	empty, noop := "", "noop"
	return []unsupportedFlag{
		{
			name: "kubernetes-status-from-service", quiet: &empty,
			instead: "this route server only reads, so the status of Ingresses would silently become stale: let a dedicated " +
				"writer set the status, such as the controller of the load balancer, or keep one replica of Skipper's route " +
				"server with this flag for that purpose only; then remove the flag here",
		},
		{name: "kubernetes-enable-tls", boolean: true, reason: "it reads no Secrets, as Skipper's route server does not"},
		{
			name: "tls-client-auth",
			reason: "its listener asks for client certificates with -enable-mtls and -mtls-authn-ca, " +
				"as that of Skipper's route server",
		},
		{name: "opentracing", quiet: &noop, reason: noTracer},
		{name: "open-telemetry", quiet: &empty, reason: noTracer},
		{
			name: "oauth2-tokeninfo-url", quiet: &empty,
			reason: "it would only serve filters of -route-server-filters that ask a token service, which are refused",
		},
		{
			name: "wait-first-route-load", boolean: true,
			reason: "it listens at once, and answers 404 and is not ready until it has a table",
		},
		{name: "debug-listener", quiet: &empty, reason: "it has no such listener; see /status on -support-listener"},
		{name: "tls-key-log-file", quiet: &empty, reason: "it never writes the keys of connections to a file"},
		{name: "validation-webhook-enabled", boolean: true, reason: webhook},
		{name: "validation-webhook-address", reason: webhook},
		{name: "validation-webhook-cert-file", reason: webhook},
		{name: "validation-webhook-key-file", reason: webhook},
		{name: "kubernetes-ingress-v1", boolean: true, reason: "it always reads Ingresses of networking.k8s.io/v1"},
		{name: "application-log-prefix", reason: "its log lines are structured and have no prefix"},
		{name: "application-log", reason: "it logs to standard error"},
		{name: "normalize-host", boolean: true, reason: "the proxies match hosts; set it there, as they run without -kubernetes"},
		{
			name:   "suppress-route-update-logs",
			reason: "it logs single routes at level DEBUG only", boolean: true,
		},
	}
}

// unsupportedBlock groups flags that have no effect for the same reason.
type unsupportedBlock struct {
	reason   string
	switches string
	values   string
}

// unsupportedBlocks lists the flags of Skipper that only proxies use. Whether a flag is a switch or takes a value determines how
// the following arguments are parsed.
func unsupportedBlocks() []unsupportedBlock {
	return append(proxyBlocks(), supportBlocks()...)
}

func proxyBlocks() []unsupportedBlock {
	return []unsupportedBlock{
		{
			reason: "it is for proxies, which handle the requests; set it there",
			switches: `dev-mode disable-http-keepalives enable-advanced-validation enable-breakers enable-connection-metrics
				enable-copy-stream-pool enable-dualstack-backend enable-h2c-server enable-lua enable-open-policy-agent
				enable-open-policy-agent-async-decision-logging enable-open-policy-agent-custom-control-loop
				enable-open-policy-agent-data-preprocessing-optimization enable-open-policy-agent-preloading
				enable-open-policy-agent-print-tracing enable-proxy-protocol enable-ratelimits enable-tcp-queue
				exclude-insecure-cipher-suites experimental-upgrade experimental-upgrade-audit ignore-trailing-slash insecure
				oauth2-grant-insecure proxy-preserve-host remove-hop-headers rfc-patch-path validate-query validate-query-log`,
			values: `backend-flush-interval breaker client-tls-cert client-tls-cert-refresh-interval client-tls-key
				close-idle-conns-period cluster-ratelimit-max-group-shards compress-encodings credentials-paths
				credentials-update-interval dataclient-plugin default-http-status disabled-filters
				expect-continue-timeout-backend expected-bytes-per-request filter-plugin forwarded-headers
				forwarded-headers-exclude-cidrs idle-conns-num idle-timeout-server insecure-address keepalive-backend
				keepalive-requests-server keepalive-server lb-healthcheck-interval load-balancer-health-check-interval
				lua-modules lua-sources max-audit-body max-content-length max-header-bytes max-idle-connection-backend
				max-loopbacks max-matcher-buffer-size max-tcp-listener-concurrency max-tcp-listener-queue multi-plugin
				oauth-credentials-dir oauth-scope oauth-url oauth2-access-token-header-name oauth2-auth-url
				oauth2-auth-url-parameters oauth2-client-id oauth2-client-id-file oauth2-client-secret
				oauth2-client-secret-file oauth2-grant-tokeninfo-keys oauth2-revoke-token-url oauth2-secret-file
				oauth2-token-cookie-name oauth2-token-cookie-remove-subdomains oauth2-token-url oauth2-tokeninfo-cache-size
				oauth2-tokeninfo-cache-ttl oauth2-tokeninfo-subject-key oauth2-tokeninfo-timeout
				oauth2-tokenintrospect-timeout oidc-cookie-remove-subdomains oidc-cookie-validity
				oidc-distributed-claims-timeout oidc-secrets-file open-policy-agent-cleaner-interval
				open-policy-agent-config-template open-policy-agent-control-loop-interval
				open-policy-agent-control-loop-max-jitter open-policy-agent-envoy-metadata
				open-policy-agent-max-memory-body-parsing open-policy-agent-max-request-body-size
				open-policy-agent-request-body-buffer-size open-policy-agent-startup-timeout passive-health-check plugindir
				predicate-plugin proxy-allow-cidrs proxy-deny-cidrs proxy-skip-cidrs ratelimits read-header-timeout-server
				read-timeout-server refuse-payload response-header-timeout-backend status-checks timeout-backend
				tls-timeout-backend upgrade-dial-timeout webhook-timeout write-timeout-server`,
		},
		{
			reason: "it is no member of the swarm; it only lists the addresses of the services that " +
				"-kubernetes-redis-service-name and -kubernetes-valkey-service-name name",
			switches: `enable-swarm`,
			values: `swarm-label-selector-key swarm-label-selector-value swarm-namespace swarm-port swarm-max-msg-buffer
				swarm-leave-timeout swarm-static-self swarm-static-other swarm-redis-urls swarm-redis-remote
				swarm-redis-username swarm-redis-password swarm-redis-hash-algorithm swarm-redis-dial-timeout
				swarm-redis-read-timeout swarm-redis-write-timeout swarm-redis-pool-timeout swarm-redis-min-conns
				swarm-redis-max-conns swarm-redis-min-idle-conns swarm-redis-max-idle-conns swarm-redis-heartbeat-frequency
				swarm-redis-update-interval swarm-valkey-urls swarm-valkey-remote swarm-valkey-username swarm-valkey-password
				swarm-valkey-hash-algorithm swarm-valkey-conn-write-timeout swarm-valkey-conn-lifetime
				swarm-valkey-dial-timeout swarm-valkey-update-interval swarm-valkey-conn-timeout swarm-valkey-keepalive`,
		},
	}
}

func supportBlocks() []unsupportedBlock {
	return []unsupportedBlock{
		{
			reason:   "the objects come from Kubernetes or --manifests alone, as with Skipper's route server",
			switches: `etcd-insecure`,
			values: `routes-file routes-urls inline-routes ensure-dataclients etcd-urls etcd-prefix etcd-timeout
				etcd-oauth-token etcd-username etcd-password innkeeper-url innkeeper-auth-token innkeeper-pre-route-filters
				innkeeper-post-route-filters`,
		},
		{
			reason: "it has one set of metrics, for Prometheus, under /metrics on -support-listener",
			switches: `enable-prometheus-metrics enable-prometheus-start-label debug-gc-metrics runtime-metrics
				serve-route-metrics serve-route-counter serve-host-metrics serve-host-counter serve-method-metric
				serve-status-code-metric backend-host-metrics all-filters-metrics
				combined-response-metrics route-response-metrics route-backend-error-counters route-stream-error-counters
				route-backend-metrics enable-route-lifo-metrics enable-route-fifo-metrics route-creation-metrics metrics-exp-decay-sample disable-metrics-compat
				backend-zone-metrics disable-metrics-compression enable-prometheus-native-histograms
				proxy-request-metrics proxy-response-metrics`,
			values: `metrics-listener metrics-prefix metrics-flavour histogram-metric-buckets
				prometheus-native-histogram-bucket-factor request-size-buckets response-size-buckets`,
		},
		{
			reason:   "the proxies count requests by their API",
			switches: `enable-api-usage-monitoring`,
			values: `api-usage-monitoring-realm-keys api-usage-monitoring-client-keys
				api-usage-monitoring-realms-tracking-pattern api-usage-monitoring-default-client-tracking-pattern`,
		},
		{
			reason:   "it writes no access log; /metrics on -support-listener counts requests",
			switches: `access-log-disabled access-log-json-enabled access-log-strip-query`,
			values:   `access-log`,
		},
		{
			reason: noTracer,
			switches: `opentracing-disable-filter-spans opentracing-log-filter-lifecycle-events
				opentracing-log-stream-events opentracing-backend-name-tag opentracing-client-trace-by-tag`,
			values: `opentracing-initial-span opentracing-excluded-proxy-tags`,
		},
	}
}
