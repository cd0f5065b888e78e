// Package httpserve is shared by all HTTP listeners of the binaries. It has the [Listeners] of a program, with limits on time,
// bodies and connections, an orderly shutdown and a counted error log; JSON answers; the socket on which operators change what is
// served; and the acceptance of tables that a guard holds back.
//
// It knows no paths and no state: each program has a list of endpoints with its handlers.
package httpserve

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	_ "net/http/pprof" // registers its handlers
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/internal/series"
)

// Time limits of all listeners. Requests are small; only a full table on a slow link takes time.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = time.Minute
	writeTimeout   = 5 * time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

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

// ErrorLog receives the messages of net/http, which come only as text. Most are about clients that went away or do not speak
// HTTP: they are counted and logged at debug level. A panic of a handler is logged as an error, a failed accept as a warning.
type ErrorLog struct {
	log   *slog.Logger
	kinds *prometheus.CounterVec
}

// NewErrorLog returns an error log and registers its counter.
func NewErrorLog(log *slog.Logger, reg prometheus.Registerer) *ErrorLog {
	return &ErrorLog{log: log, kinds: series.In(reg).Counters("routesrv_http_server_errors_total",
		"Errors of net/http: panic (of a handler), accept, handshake (TLS) or other.", "kind", "panic", "accept", "handshake", "other")}
}

// Write implements [io.Writer] for a log.Logger, which calls it once for each message.
func (e *ErrorLog) Write(p []byte) (int, error) {
	text, kind, level := strings.TrimSpace(string(p)), "other", slog.LevelDebug
	switch {
	case strings.Contains(text, "panic serving"):
		kind, level = "panic", slog.LevelError
	case strings.Contains(text, "Accept error"):
		kind, level = "accept", slog.LevelWarn
	case strings.Contains(text, "TLS handshake error"):
		kind = "handshake"
	}
	e.kinds.WithLabelValues(kind).Inc()
	e.log.Log(context.Background(), level, "http server", "kind", kind, "error", text)
	return len(p), nil
}

// Names of the listeners, as the reference documents spell them.
const (
	MainListener    = "main"
	SupportListener = "support"
	ControlListener = "control" // the socket in the state folder: see [ListenControl]
)

// Endpoint is one path that a listener answers; docs/reference/endpoints.md is generated from the same list.
type Endpoint struct {
	// Listener is [MainListener], [SupportListener] or [ControlListener].
	Listener string
	// Path is a pattern of [http.ServeMux]: {x} stands for one segment, a trailing slash for everything below.
	Path string
	// Methods lists the allowed methods, HEAD in addition to GET; others get 405. nil allows all.
	Methods []string
	// Does describes the answer: one sentence in Markdown without a full stop.
	Does string
	// Condition is when the endpoint exists, as in "with `-enable-profile`"; empty means always. It is only for the documentation.
	Condition string
	// ChecksMethods is set for a handler that answers wrong methods itself. Otherwise [Mux] does that.
	ChecksMethods bool
	// MaxBody is the limit of a request's body in bytes; 0 accepts none. With it, Path must have no wildcards.
	MaxBody int64
	Handler http.Handler
}

// Mux returns a mux that answers the endpoints of one listener. It panics if two conflict or one is incomplete.
func Mux(listener string, endpoints []Endpoint) *http.ServeMux {
	mux := http.NewServeMux()
	for _, e := range endpoints {
		if e.Listener != listener {
			continue
		}
		if e.Does == "" || strings.HasSuffix(e.Does, ".") {
			panic("httpserve: endpoint " + e.Path + " has no sentence, or one with a full stop")
		}
		if e.Methods == nil || e.ChecksMethods {
			mux.Handle(e.Path, e.Handler)
			continue
		}
		for _, m := range e.Methods {
			if m != http.MethodHead { // GET includes HEAD
				mux.Handle(m+" "+e.Path, e.Handler)
			}
		}
	}
	return mux
}

// Probes returns /livez, which answers 204 as long as the process answers, and /readyz, which answers as the handler ready.
func Probes(ready http.Handler) []Endpoint {
	get := []string{http.MethodGet, http.MethodHead}
	return []Endpoint{
		{Path: "/livez", Methods: get, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
			Does: "liveness probe: 204, with or without a table"},
		{Path: "/readyz", Methods: get, Handler: ready, Does: "readiness probe: as `/health`"},
	}
}

// Profiles returns the endpoint of package net/http/pprof, which registers its handlers with [http.DefaultServeMux], for a support
// listener with -enable-profile.
func Profiles() Endpoint {
	return Endpoint{
		Path: "/debug/pprof/", Methods: []string{http.MethodGet, http.MethodHead}, ChecksMethods: true, Handler: http.DefaultServeMux,
		Condition: "with `-enable-profile`",
		Does:      "the list of profiles; `cmdline`, `profile` (CPU, for `seconds=`), `symbol`, `trace` (for `seconds=`) and others below it",
	}
}
