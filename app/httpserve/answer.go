package httpserve

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/shadowdiff"
)

// WriteAnswer writes an answer as text, or as JSON if the parameter format or the Accept header asks for it.
func WriteAnswer(w http.ResponseWriter, r *http.Request, status int, asJSON, asText func(io.Writer) error) {
	var body bytes.Buffer
	write, media := asText, "text/plain; charset=utf-8"
	if wantsJSON(r) {
		write, media = asJSON, "application/json"
	}
	if err := write(&body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // ignore clients that have disconnected
}

func wantsJSON(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "json":
		return true
	case "text":
		return false
	}
	return strings.Contains(strings.ToLower(r.Header.Get("Accept")), "application/json")
}

// WriteComparison writes a comparison like [WriteAnswer]. Its JSON form may be part of a document.
func WriteComparison(w http.ResponseWriter, r *http.Request, v *shadowdiff.Comparison, document func(json.RawMessage) any) {
	WriteAnswer(w, r, http.StatusOK, func(w io.Writer) error {
		if document == nil {
			return shadowdiff.WriteJSON(w, v)
		}
		var b bytes.Buffer
		if err := shadowdiff.WriteJSON(&b, v); err != nil {
			return err
		}
		return shadowdiff.WriteJSONValue(w, document(b.Bytes()))
	}, func(w io.Writer) error { return shadowdiff.WriteText(w, v) })
}
