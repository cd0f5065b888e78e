// Package httpserve has what all HTTP listeners of the binaries have in common: the two [Listeners] of a program, with limits of
// time and of connections, an end in order, and an error log that can be counted; answers in JSON; and the acceptance of tables
// that a guard holds back.
//
// It knows no paths and no state: which handler answers what is in the lists of endpoints of those who listen.
package httpserve

import (
	"encoding/json"
	"log"
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

// newServer returns a server with limits for everything that a client could draw out. What net/http itself logs goes to
// errors.
func newServer(h http.Handler, errors *ErrorLog) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: readTimeout, ReadHeaderTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: log.New(errors, "", 0),
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
