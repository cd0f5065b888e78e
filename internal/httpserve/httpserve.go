// Package httpserve has what all HTTP listeners of the binaries share: the [Listeners] of a program, with limits on time, bodies and
// connections, an orderly shutdown and a counted error log; JSON answers; the socket on which operators change what is served; and
// the acceptance of tables that a guard holds back.
//
// It knows no paths and no state: each program has a list of endpoints with its handlers.
package httpserve

import (
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Time limits of all listeners. Requests are small; only a full table on a slow link takes time.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = time.Minute
	writeTimeout   = 5 * time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// newServer returns a server with a time limit on each phase that a client could draw out. net/http logs to errors.
func newServer(h http.Handler, errors *ErrorLog) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: readTimeout, ReadHeaderTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(errors, "", 0),
	}
}

// WriteJSON answers with v as indented JSON, which people read, too.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

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
