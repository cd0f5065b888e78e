package main

import "strings"

// row is a titled section of the dashboard.
type row struct {
	title  string
	panels []panel
}

// panel is a chart or a single figure.
type panel struct {
	title   string
	says    string // tooltip of the title
	unit    string // Grafana unit
	bad     float64
	stat    bool // a single figure
	wide    bool // two panels in a row instead of three
	queries []query
}

// query is an expression with a legend.
type query struct{ expr, legend string }

// series selects a series by the dashboard's variables: name, or name{matcher}.
func series(name string) string {
	const chosen = `cluster=~"$cluster",namespace=~"$namespace",instance=~"$instance"`
	name, matchers, ok := strings.Cut(name, "{")
	if !ok {
		return name + "{" + chosen + "}"
	}
	return name + "{" + chosen + "," + matchers
}

// rate returns the rate of a counter per second.
func rate(name string) string { return "rate(" + series(name) + "[$__rate_interval])" }

// sum adds up by labels, for each cluster.
func sum(by, expr string) string { return "sum by (cluster, " + by + ") (" + expr + ")" }

// most returns the highest value among instances that report the same quantity.
func most(by, expr string) string { return "max by (cluster, " + by + ") (" + expr + ")" }

// quantile returns a quantile of a histogram.
func quantile(q, by, name string) string {
	return "histogram_quantile(" + q + ", sum by (cluster, le" + by + ") (" + rate(name+"_bucket") + "))"
}

// ofServers excludes data planes, which have the same series about the table and the source.
func ofServers(expr string) string {
	return expr + " unless on (cluster, namespace, job, instance) sidecar_mode"
}

// age returns how long ago a timestamp was, if it is not 0.
func age(name string) string { return "time() - (" + series(name) + " > 0)" }

func rows() []row {
	return []row{
		{"Now", []panel{
			{title: "Route servers", says: "Route servers and relays that are being scraped.", unit: "short", stat: true,
				queries: []query{{"count by (cluster) (" + ofServers(series("routesrv_table_routes")) + ")", "{{cluster}}"}}},
			{title: "Routes", says: "Routes in the largest table.", unit: "short", stat: true,
				queries: []query{{"max by (cluster) (" + ofServers(series("routesrv_table_routes")) + ")", "{{cluster}}"}}},
			{title: "Oldest read", says: "RoutesrvSourceStale fires at 120 s. The table is still served.", unit: "s", stat: true, bad: 120,
				queries: []query{{"max by (cluster) (" + ofServers(age("routesrv_source_last_read_timestamp_seconds")) + ")", "{{cluster}}"}}},
			{title: "Holding", says: "Route servers that keep objects or hold a suspicious table back: RoutesrvGuardHolding.", unit: "short", stat: true, bad: 1,
				queries: []query{{"sum by (cluster) (" + series("routesrv_guard_held") + ")", "{{cluster}}"}}},
			{title: "Problems", says: "Problems of objects, as counted by one route server. /problems names them.", unit: "short", stat: true,
				queries: []query{{"sum by (cluster) (max by (cluster, kind, reason) (" + series("routesrv_problems") + "))", "{{cluster}}"}}},
			{title: "Data planes", says: "Sidecars that are being scraped.", unit: "short", stat: true,
				queries: []query{{"sum by (cluster) (" + series("sidecar_mode") + ")", "{{cluster}}"}}},
		}},
		{"Table", []panel{
			{title: "Routes", says: "Routes in the table of each replica. If replicas keep differing, RoutesrvReplicasDisagree fires.", unit: "short",
				queries: []query{{ofServers(series("routesrv_table_routes")), "{{cluster}} {{instance}}"}}},
			{title: "Size", says: "Size of the full table, by encoding.", unit: "bytes",
				queries: []query{{most("encoding", ofServers(series("routesrv_table_bytes"))), "{{cluster}} {{encoding}}"}}},
			{title: "Last change", says: "Time since the table last changed.", unit: "s",
				queries: []query{{ofServers(age("routesrv_table_updated_timestamp_seconds")), "{{cluster}} {{instance}}"}}},
			{title: "Revision", says: "Highest and lowest revision of the last read. They diverge if a kind rarely changes.", unit: "none",
				queries: []query{
					{ofServers(series("routesrv_table_read_revision")), "{{cluster}} {{instance}} highest"},
					{ofServers(series("routesrv_table_complete_revision")), "{{cluster}} {{instance}} lowest"},
				}},
			{title: "From a last-known-good file", says: "1 until a read has confirmed the table from the last-known-good file.", unit: "short", bad: 1,
				queries: []query{{series("routesrv_table_stale"), "{{cluster}} {{instance}}"}}},
			{title: "Series that stay 0", says: "These must not increase. Alerts: RoutesrvDefect, RoutesrvPollBroken.", unit: "short", bad: 0.001,
				queries: []query{
					{"increase(" + series(`routesrv_http_server_errors_total{kind="panic"}`) + "[$__rate_interval])", "{{instance}} handler panics"},
					{"increase(" + series(`routesrv_poll_failures_total{reason="panic"}`) + "[$__rate_interval])", "{{instance}} read panics"},
					{"increase(" + series("routesrv_older_tables_served_total") + "[$__rate_interval])", "{{instance}} older tables served"},
					{"increase(" + series(`dataplane_deltas_total{result="failed"}`) + "[$__rate_interval])", "{{instance}} failed deltas"},
				}},
		}},
		{"Source", []panel{
			{title: "Age of the last read", says: "RoutesrvSourceStale fires at 120 s.", unit: "s", bad: 120,
				queries: []query{{ofServers(age("routesrv_source_last_read_timestamp_seconds")), "{{cluster}} {{instance}}"}}},
			{title: "Reads", says: "Reads by result.", unit: "ops",
				queries: []query{{sum("result", rate("routesrv_polls_total")), "{{cluster}} {{result}}"}}},
			{title: "Failed reads", says: "routesrv_source_read_errors_total has the kind and the reason.", unit: "ops", bad: 0.001,
				queries: []query{{sum("reason", rate("routesrv_poll_failures_total")), "{{cluster}} {{reason}}"}}},
			{title: "Lists", says: "Mean time from requesting a list to its last object.", unit: "s",
				queries: []query{{sum("kind", rate("routesrv_source_list_duration_seconds_sum")) + " / " + sum("kind", rate("routesrv_source_list_duration_seconds_count")), "{{cluster}} {{kind}}"}}},
			{title: "Objects", says: "Objects in the last complete list.", unit: "short",
				queries: []query{{most("kind", series("routesrv_source_list_objects")), "{{cluster}} {{kind}}"}}},
			{title: "Objects that change", says: "Objects decoded because they were new or had changed.", unit: "ops",
				queries: []query{{sum("kind", rate("routesrv_source_decoded_objects_total")), "{{cluster}} {{kind}}"}}},
		}},
		{"Guard", []panel{
			{title: "Held", says: "1 while a table is held back or objects are kept. See /guard/held of the support listener.", unit: "short", bad: 1,
				queries: []query{
					{series("routesrv_guard_held"), "{{cluster}} {{instance}}"}, {series("dataplane_guard_held"), "{{cluster}} {{instance}} fetched"},
					{series("sidecar_switch_held"), "{{cluster}} {{instance}} switch"},
				}},
			{title: "Kept objects", says: "Objects that are served at an earlier version than the newest. /status names them.", unit: "short", bad: 1,
				queries: []query{{most("kind", series("routesrv_kept_objects")), "{{cluster}} {{kind}}"}}},
			{title: "Holds started", says: "Holds by reason.", unit: "short",
				queries: []query{{sum("reason", "increase("+series("routesrv_guard_holds_total")+"[$__rate_interval])"), "{{cluster}} {{reason}}"}}},
		}},
		{"Problems", []panel{
			{title: "By kind and reason", says: "Problems as counted by one route server. would_crash_proxy is urgent.", unit: "short", wide: true,
				queries: []query{{most("kind, reason", series("routesrv_problems")), "{{cluster}} {{kind}} {{reason}}"}}},
			{title: "By namespace", says: "Namespaces with the most problems. Needs --problem-namespaces.", unit: "short", wide: true,
				// Unless honorLabels is set, Prometheus stores the namespace of an object as exported_namespace, apart from the
				// pod's namespace.
				queries: []query{{"sum by (cluster, exported_namespace) (max by (cluster, exported_namespace, reason) (" + series("routesrv_namespace_problems") + "))", "{{cluster}} {{exported_namespace}}"}}},
		}},
		{"From a change to its publication", []panel{
			{title: "Read, compile, publish", says: "99th percentile. A change waits for the next read before that (-source-poll-timeout).", unit: "s",
				queries: []query{{quantile("0.99", ", phase", "routesrv_poll_phase_duration_seconds"), "{{cluster}} {{phase}}"}}},
			{title: "Encoding", says: "99th percentile of the time to encode the new parts of a table. It is part of publish.", unit: "s",
				queries: []query{{quantile("0.99", "", "routesrv_table_encode_duration_seconds"), "{{cluster}}"}}},
			{title: "Publications", says: "Reads that changed the table.", unit: "ops",
				queries: []query{{sum("instance", rate(`routesrv_polls_total{result="changed"}`)), "{{cluster}} {{instance}}"}}},
		}},
		{"Serving", []panel{
			{title: "Answers", says: "Answers of /routes by status: 200 full table, 226 delta, 304 unchanged, 404 no table yet.", unit: "reqps",
				queries: []query{{sum("code", rate("routesrv_table_responses_total")), "{{cluster}} {{code}}"}}},
			{title: "Bytes sent", says: "Bytes of bodies by encoding, and of streams.", unit: "Bps",
				queries: []query{{sum("encoding", rate("routesrv_table_sent_bytes_total")), "{{cluster}} {{encoding}}"}, {"sum by (cluster) (" + rate("routesrv_stream_sent_bytes_total") + ")", "{{cluster}} streams"}}},
			{title: "Deltas and full tables", says: "Deltas and full tables sent in answers and on streams.", unit: "ops",
				queries: []query{
					{"sum by (cluster) (" + rate(`routesrv_table_responses_total{code="226"}`) + ")", "{{cluster}} deltas"},
					{"sum by (cluster) (" + rate(`routesrv_table_responses_total{code="200"}`) + ")", "{{cluster}} full tables, and streams started"},
					{"sum by (cluster) (" + rate(`routesrv_stream_events_total{event="delta"}`) + ")", "{{cluster}} deltas on streams"},
					{"sum by (cluster) (" + rate(`routesrv_stream_events_total{event="table"}`) + ")", "{{cluster}} full tables on streams"},
				}},
			{title: "Streams", says: "Clients that follow the table.", unit: "short",
				queries: []query{{series("routesrv_streams"), "{{cluster}} {{instance}}"}}},
			{title: "Dropped and refused streams", says: "Streams dropped, and streams refused because the limit was reached.", unit: "ops",
				queries: []query{{"sum by (cluster) (" + rate("routesrv_streams_dropped_total") + ")", "{{cluster}} dropped"}, {"sum by (cluster) (" + rate("routesrv_streams_refused_total") + ")", "{{cluster}} refused"}}},
			{title: "Incomplete bodies", says: "Bodies that broke off, or were cut because their reader stalled.", unit: "ops",
				queries: []query{{"sum by (cluster) (" + rate("routesrv_broken_bodies_total") + ")", "{{cluster}} broken"}}},
			{title: "Connections", says: "Connections by listener, with the limit.", unit: "short",
				queries: []query{{sum("listener", series("routesrv_connections")), "{{cluster}} {{listener}}"}, {"min by (cluster, listener) (" + series("routesrv_connections_limit") + ")", "{{cluster}} {{listener}} limit"}}},
			{title: "Clients ahead", says: "Requests that name a table that may be newer than the replica's.", unit: "ops",
				queries: []query{{"sum by (cluster) (" + rate("routesrv_newer_table_claims_total") + ")", "{{cluster}}"}}},
			{title: "Listener errors", says: "Failed TLS handshakes, panics and other errors.", unit: "ops",
				queries: []query{{sum("kind", rate("routesrv_http_server_errors_total")), "{{cluster}} {{kind}}"}}},
		}},
		{"Fleet", []panel{
			{title: "Clients", says: "Known clients by state. Each replica counts the clients that it has seen. /clients names them.", unit: "short",
				queries: []query{{sum("state", series("routesrv_clients")), "{{cluster}} {{state}}"}}},
			{title: "Behind", says: "How long more than 1 % of the live clients have been without the newest table.", unit: "s",
				queries: []query{{series("routesrv_fleet_behind_seconds"), "{{cluster}} {{instance}}"}}},
			{title: "From publication to the fleet", says: "Median time until a share of the live clients held a table: 0.5, 0.99 or 1.", unit: "s",
				queries: []query{{quantile("0.5", ", share", "routesrv_fleet_publish_seconds"), "{{cluster}} {{share}}"}}},
		}},
		{"Data planes", []panel{
			{title: "Modes", says: "Data planes by the mode in force.", unit: "short",
				queries: []query{{sum("mode", series("sidecar_mode")), "{{cluster}} {{mode}}"}}},
			{title: "Origin of the served table", says: "last_known_good: from the last-known-good file. self: computed.", unit: "short",
				queries: []query{{sum("origin", series("sidecar_origin")), "{{cluster}} {{origin}}"}}},
			{title: "Age of the source", says: "Time since the read of the cluster behind the applied table: median and oldest.", unit: "s", bad: 300,
				queries: []query{
					{"quantile by (cluster) (0.5, " + age("dataplane_source_last_read_timestamp_seconds") + ")", "{{cluster}} median"},
					{"max by (cluster) (" + age("dataplane_source_last_read_timestamp_seconds") + ")", "{{cluster}} oldest"},
				}},
			{title: "Fetches", says: "Exchanges with route servers, by result.", unit: "ops",
				queries: []query{{sum("result", rate("dataplane_fetches_total")), "{{cluster}} {{result}}"}}},
			{title: "Stream or poll", says: "Data planes by the transport in use.", unit: "short",
				queries: []query{{sum("transport", series("dataplane_transport")), "{{cluster}} {{transport}}"}}},
			{title: "Fallback and failovers", says: "Data planes that compute their table because no route server answers, and switches to another route server.", unit: "short",
				queries: []query{{"sum by (cluster) (" + series("sidecar_fallback") + ")", "{{cluster}} fallback"}, {"sum by (cluster) (increase(" + series("dataplane_failovers_total") + "[$__rate_interval]))", "{{cluster}} failovers"}}},
			{title: "Differences in shadow", says: "Routes that differ for longer than skew explains, in mode Pre.", unit: "short", bad: 1,
				queries: []query{{most("kind", series("shadow_diff_routes")), "{{cluster}} {{kind}}"}}},
			{title: "Failed file writes", says: "Failed writes of the last-known-good file and the routes file.", unit: "ops", bad: 0.001,
				queries: []query{{sum("file", rate(`dataplane_file_writes_total{result="error"}`)), "{{cluster}} {{file}}"}}},
			{title: "Exchanges", says: "99th percentile of the duration of an exchange, including verification.", unit: "s",
				queries: []query{{quantile("0.99", "", "dataplane_fetch_duration_seconds"), "{{cluster}}"}}},
		}},
		{"Process", []panel{
			{title: "Memory", says: "Resident memory.", unit: "bytes",
				queries: []query{{series("process_resident_memory_bytes") + " and on (cluster, namespace, job, instance) routesrv_table_routes", "{{cluster}} {{instance}}"}}},
			{title: "CPU", says: "CPU time, in cores.", unit: "short",
				queries: []query{{rate("process_cpu_seconds_total") + " and on (cluster, namespace, job, instance) routesrv_table_routes", "{{cluster}} {{instance}}"}}},
			{title: "Goroutines and open files", says: "Steady growth of either is a leak.", unit: "short",
				queries: []query{
					{series("go_goroutines") + " and on (cluster, namespace, job, instance) routesrv_table_routes", "{{cluster}} {{instance}} goroutines"},
					{series("process_open_fds") + " and on (cluster, namespace, job, instance) routesrv_table_routes", "{{cluster}} {{instance}} files"},
				}},
			{title: "Certificates", says: "Time until certificates expire. RoutesrvCertificateExpiring fires a week before.", unit: "s",
				queries: []query{{"min by (cluster, side, use) (" + series("routesrv_certificate_expiry_timestamp_seconds") + ") - time()", "{{cluster}} {{side}} {{use}}"}}},
			{title: "Last-known-good file", says: "Writes of the last-known-good file by result.", unit: "ops",
				queries: []query{{sum("result", rate("routesrv_file_writes_total")), "{{cluster}} {{result}}"}}},
			{title: "Traces", says: "Spans by result. Needs --otlp-endpoint.", unit: "ops",
				queries: []query{{sum("result", rate("routesrv_trace_spans_total")), "{{cluster}} {{result}}"}}},
		}},
	}
}
