// Package httpserve has what all HTTP listeners of the binaries have in common: limits of time and of connections, an error log
// that can be counted, an end with a deadline, answers in JSON, and the acceptance of tables that a guard holds back.
//
// It knows no paths and no state: which handler answers what is in the lists of endpoints of those who listen.
package httpserve

import (
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"net/http"
	"time"
)

// Time limits of all listeners. Requests are small; a full table on a slow link is what takes time.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = time.Minute
	writeTimeout   = 5 * time.Minute
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// New returns a server with limits for everything that a client could draw out. What net/http itself has to say goes to
// errors.
func New(h http.Handler, errors *ErrorLog) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: readTimeout, ReadHeaderTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(errors, "", 0),
	}
}

// Shutdown lets the requests of a listener end until ctx does, and cuts what has not ended by then.
func Shutdown(ctx context.Context, srv *http.Server, name string, log *slog.Logger) {
	err := srv.Shutdown(ctx)
	if err == nil {
		return
	}
	log.Warn("requests did not end in time, cutting them (--shutdown-timeout)", "listener", name, "error", err)
	if err := srv.Close(); err != nil {
		log.Debug("close listener", "listener", name, "error", err)
	}
}

// WriteJSON answers with v, indented, as people read it, too.
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
