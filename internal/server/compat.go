package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
