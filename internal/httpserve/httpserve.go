// Package httpserve has what all HTTP listeners of the binaries share: the [Listeners] of a program, with limits on time, bodies and
// connections, an orderly shutdown and a counted error log; JSON answers; the socket on which operators change what is served; and
// the acceptance of tables that a guard holds back.
//
// It knows no paths and no state: each program has a list of endpoints with its handlers.
package httpserve

import (
	"encoding/json"
	"log"
	"net/http"
	"time"
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
