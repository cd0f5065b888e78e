package server

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/fleet"
)

// mainHandler returns the handler of the main listener, which serves proxies.
func (s *Server) mainHandler() (http.Handler, error) {
	filters, err := newRequestFilters(s.cfg.RequestFilters)
	if err != nil {
		return nil, err
	}
	mux := httpserve.Mux(httpserve.MainListener, s.endpoints)
	filtered := filters.wrap(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" { // only this exact path is never filtered
			mux.ServeHTTP(w, r)
			return
		}
		filtered.ServeHTTP(w, r)
	}), nil
}

// mainEndpoints returns the endpoints of the main listener.
func (s *Server) mainEndpoints() []httpserve.Endpoint {
	compat := newCompat(s)
	s.registry.MustRegister(compat)
	tables := s.cache.Handler()
	routes := compat.observe(tables)
	get := []string{http.MethodGet, http.MethodHead}
	all := []httpserve.Endpoint{
		{Path: "/routes", Methods: get, ChecksMethods: true, Handler: routes,
			Does: "the table: eskip, one route per line, sorted by id; 404 before the first table"},
		{Path: "/routes/{zone}", Methods: get, ChecksMethods: true, Handler: routes,
			Does: "the table for proxies of one zone: a route with at least three endpoints there has only those; an unknown " +
				"zone gets the full table"},
		{Path: api.PathClients, Methods: []string{http.MethodPost}, MaxBody: fleet.MaxReport, Handler: http.HandlerFunc(s.serveReport),
			Does: "takes the [report](../debug/fleet.md#reports) of a client, at most 4 KiB: 204; 400 if it is not valid, 503 at the limit of clients"},
		{Path: api.PathKept, Methods: get, Handler: http.HandlerFunc(s.serveKept),
			Does: "for starting replicas: the kept objects; 404 on a relay"},
		{Path: api.PathKeptNames, Methods: get, Handler: http.HandlerFunc(s.serveKeptNames),
			Does: "for other replicas: what the guard keeps, by name"},
		{Path: api.PathKeptHistory, Methods: get, Handler: http.HandlerFunc(s.serveKeptHistory),
			Does: "for starting replicas: the [history](../operate/steering.md), at most 64 MiB"},
		{Path: "/health", Handler: http.HandlerFunc(s.health), Does: "503 before the first table, then always 204"},
	}
	if s.cfg.MaxStreams > 0 {
		all = append(all, httpserve.Endpoint{
			// A stream is long-lived: in the series of the reference it would count as one very slow response.
			Path: "/routes/watch", Methods: []string{http.MethodGet}, ChecksMethods: true, Handler: tables,
			Does:      "the table and its changes, as [events](protocol.md#streams); `zone=` for the table of a zone",
			Condition: "unless `--max-streams` is 0",
		})
	}
	all = append(all, s.canaryEndpoints(routes, tables)...)
	for _, kind := range []struct {
		name    string
		shard   Shard
		observe func(int64)
	}{
		{"redis", s.cfg.Redis, compat.redisEndpoints.Store},
		{"valkey", s.cfg.Valkey, compat.valkeyEndpoints.Store},
	} {
		if !kind.shard.Configured() {
			continue
		}
		s.log.Info("Use endpoints " + kind.shard.Namespace + "/" + kind.shard.Name + " to fetch updated " + kind.name + " shards")
		all = append(all, httpserve.Endpoint{
			Path: "/swarm/" + kind.name + "/shards", Methods: []string{http.MethodGet}, ChecksMethods: true,
			Handler:   s.shards(kind.shard, kind.observe),
			Does:      "the addresses of the service: `{\"endpoints\":[{\"address\":\"10.2.5.7:6379\"}]}`; 503 before the first read",
			Condition: "with `-kubernetes-" + kind.name + "-service-namespace` and `-kubernetes-" + kind.name + "-service-name`",
		})
	}
	for i := range all {
		all[i].Listener = httpserve.MainListener
	}
	return all
}

// health answers whether the server has a table. Once it does, the answer stays positive.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.cache.Current() == nil {
		http.Error(w, "routes were not initialized yet", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// shards answers with the addresses of a service from the last successful read. Before the first read it answers 503.
func (s *Server) shards(shard Shard, observe func(int64)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		addresses, ok := s.compiler.Addresses(shard.Namespace, shard.Name)
		if !ok {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "the cluster has not been read yet", http.StatusServiceUnavailable)
			return
		}
		list := api.Shards{Endpoints: make([]api.ShardEndpoint, 0, len(addresses))}
		for _, a := range addresses {
			list.Endpoints = append(list.Endpoints, api.ShardEndpoint{Address: net.JoinHostPort(a, strconv.Itoa(shard.Port))})
		}
		observe(int64(len(addresses)))
		body, err := json.Marshal(list)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
	})
}

// compat shows the series of the reference under their names, so that existing dashboards keep working.
type compat struct {
	server          *Server
	redisEndpoints  atomic.Int64
	valkeyEndpoints atomic.Int64
	responses       *prometheus.CounterVec
	combined        prometheus.Histogram
	duration        *prometheus.HistogramVec
	gauges          *prometheus.Desc
	totals          *prometheus.Desc
}

func newCompat(s *Server) *compat {
	c := &compat{
		server: s,
		responses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "routesrv_custom_total", Help: "Responses by status, failed and empty loads.",
		}, []string{"key"}),
		combined: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "routesrv_backend_combined_duration_seconds", Help: "Serving time of /routes.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "routesrv_backend_duration_seconds", Help: "Serving time of /routes.",
		}, []string{"route", "host", "zone"}),
		gauges: prometheus.NewDesc("routesrv_custom_gauges", "Gauges of the reference.", []string{"key"}, nil),
		totals: prometheus.NewDesc("routesrv_custom_total",
			"Responses by status, failed and empty loads.", []string{"key"}, nil),
	}
	return c
}

// observe counts and times the answers of the handler.
func (c *compat) observe(next http.Handler) http.Handler {
	// The reference spells the label value like this.
	duration := c.duration.WithLabelValues("routersv", "", "")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(rec, r)
		took := time.Since(start).Seconds()
		c.responses.WithLabelValues(strconv.Itoa(rec.status)).Inc()
		c.combined.Observe(took)
		duration.Observe(took)
	})
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Describe implements [prometheus.Collector].
func (c *compat) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.gauges
	ch <- c.totals
	c.combined.Describe(ch)
	c.duration.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (c *compat) Collect(ch chan<- prometheus.Metric) {
	c.responses.Collect(ch)
	c.combined.Collect(ch)
	c.duration.Collect(ch)
	status := c.server.tables.Status()
	total := func(key string, n uint64) {
		ch <- prometheus.MustNewConstMetric(c.totals, prometheus.CounterValue, float64(n), key)
	}
	gauge := func(key string, v float64) {
		ch <- prometheus.MustNewConstMetric(c.gauges, prometheus.GaugeValue, v, key)
	}
	timestamp := func(key string, t time.Time) {
		if !t.IsZero() {
			gauge(key, float64(t.UnixNano())/1e9)
		}
	}
	total("routes.fetch_errors", status.FailedTotal)
	total("routes.empty", status.EmptyTotal)
	timestamp("polling_started_timestamp", status.Started)
	timestamp("routes.initialized_timestamp", status.Initialized)
	timestamp("routes.updated_timestamp", status.Updated)
	if t := c.server.cache.Current(); t != nil {
		gauge("routes.total", float64(t.Len()))
		gauge("routes.byte", float64(t.Bytes()))
	}
	if c.server.cfg.Redis.Configured() {
		gauge("redis_endpoints", float64(c.redisEndpoints.Load()))
	}
	if c.server.cfg.Valkey.Configured() {
		gauge("valkey_endpoints", float64(c.valkeyEndpoints.Load()))
	}
}
