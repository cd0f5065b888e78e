package httpserve

import (
	"context"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// LogHTTPServer is the message under which net/http's own findings are logged.
const LogHTTPServer = "http server"

// ErrorLog takes what net/http has to say, which it can only say as text. Most of it is about clients that went away
// or speak something else: that is counted, and logged at debug level. A handler that panicked is for now.
type ErrorLog struct {
	log   *slog.Logger
	kinds *prometheus.CounterVec
}

// errorKinds tells the texts of net/http apart; the first that fits counts.
var errorKinds = []struct {
	part, kind string
	level      slog.Level
}{
	{"panic serving", "panic", slog.LevelError},
	{"Accept error", "accept", slog.LevelWarn},
	{"TLS handshake error", "handshake", slog.LevelDebug},
	{"", "other", slog.LevelDebug},
}

// NewErrorLog makes an error log, and registers the series that counts.
func NewErrorLog(log *slog.Logger, reg prometheus.Registerer) *ErrorLog {
	e := &ErrorLog{log: log, kinds: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "routesrv_http_server_errors_total",
		Help: "Errors outside of request handling: panic (of a handler), accept, handshake (of TLS), other.",
	}, []string{"kind"})}
	for _, k := range errorKinds {
		e.kinds.WithLabelValues(k.kind)
	}
	reg.MustRegister(e.kinds)
	return e
}

// Write implements [io.Writer] for a log.Logger, which calls it once per message.
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
