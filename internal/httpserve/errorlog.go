package httpserve

import (
	"context"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// LogHTTPServer is the log message for errors that net/http reports itself.
const LogHTTPServer = "http server"

// ErrorLog receives the messages of net/http, which come only as text. Most are about clients that went away or do not speak
// HTTP: they are counted and logged at debug level. A panic of a handler is logged as an error, a failed accept as a warning.
type ErrorLog struct {
	log   *slog.Logger
	kinds *prometheus.CounterVec
}

// errorKinds classifies the texts of net/http; the first match counts.
var errorKinds = []struct {
	part, kind string
	level      slog.Level
}{
	{"panic serving", "panic", slog.LevelError},
	{"Accept error", "accept", slog.LevelWarn},
	{"TLS handshake error", "handshake", slog.LevelDebug},
	{"", "other", slog.LevelDebug},
}

// NewErrorLog returns an error log and registers its counter.
func NewErrorLog(log *slog.Logger, reg prometheus.Registerer) *ErrorLog {
	e := &ErrorLog{log: log, kinds: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_http_server_errors_total",
		Help: "Errors of net/http: panic (of a handler), accept, handshake (TLS) or other.",
	}, []string{"kind"})}
	for _, k := range errorKinds {
		e.kinds.WithLabelValues(k.kind)
	}
	return e
}

// Write implements [io.Writer] for a log.Logger, which calls it once for each message.
func (e *ErrorLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	for _, k := range errorKinds {
		if strings.Contains(text, k.part) {
			e.kinds.WithLabelValues(k.kind).Inc()
			e.log.Log(context.Background(), k.level, LogHTTPServer, "kind", k.kind, "error", text)
			break
		}
	}
	return len(p), nil
}
