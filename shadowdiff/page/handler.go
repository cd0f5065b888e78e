package page

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/shadowdiff"
)

// The forms, by the name in ?format= and by media type. The first is for clients that take anything: curl, and who asks
// from a shell of a pod.
var forms = []struct {
	name, mediaType string
	write           func(*bytes.Buffer, *shadowdiff.View) error
}{
	{"text", "text/plain", func(b *bytes.Buffer, v *shadowdiff.View) error {
		return shadowdiff.WriteText(b, v, shadowdiff.TextOptions{})
	}},
	{"html", "text/html", func(b *bytes.Buffer, v *shadowdiff.View) error { return write(b, v, true) }},
	{"json", "application/json", func(b *bytes.Buffer, v *shadowdiff.View) error { return shadowdiff.WriteJSON(b, v) }},
}

// Handler serves what view returns as text, page or JSON: by the query parameter "format" (text, html, json), else by the
// Accept header, else as text. view is called once for each request, by many goroutines at once; its routes must not
// change afterwards.
func Handler(view func() shadowdiff.View) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Vary", "Accept")
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "want GET", http.StatusMethodNotAllowed)
			return
		}
		form, ok := choose(r)
		if !ok {
			http.Error(w, "format: want text, html or json", http.StatusBadRequest)
			return
		}
		v := view()
		var body bytes.Buffer
		if err := forms[form].write(&body, &v); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", forms[form].mediaType+"; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(body.Len()))
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(body.Bytes()) // the client has gone: nobody to tell
	})
}

// choose returns the index of the form that a request asks for.
func choose(r *http.Request) (form int, ok bool) {
	if name := r.URL.Query().Get("format"); name != "" {
		for i, f := range forms {
			if f.name == name {
				return i, true
			}
		}
		return 0, false
	}
	return accepted(strings.Join(r.Header.Values("Accept"), ",")), true
}

// accepted returns the form with the highest quality in an Accept header (RFC 9110 §12.5.1); of equal ones, the first in
// the order of forms. Nobody is refused: a person would rather see another form than an error.
func accepted(header string) int {
	best, quality := 0, 0.0
	for i, f := range forms {
		if q := qualityOf(header, f.mediaType); q > quality {
			best, quality = i, q
		}
	}
	return best
}

// qualityOf returns how welcome a media type is: by the most specific range that matches it.
func qualityOf(header, mediaType string) float64 {
	kind, _, _ := strings.Cut(mediaType, "/")
	specific, quality := 0, 0.0
	for item := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(item, ";")
		rank := 0
		switch strings.ToLower(strings.TrimSpace(name)) {
		case mediaType:
			rank = 3
		case kind + "/*":
			rank = 2
		case "*/*":
			rank = 1
		}
		if rank > specific {
			specific, quality = rank, qualityValue(params)
		}
	}
	return quality
}

// qualityValue reads the parameter q; 1 if there is none, 0 if it is no number from 0 to 1.
func qualityValue(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return 0
			}
			return q
		}
	}
	return 1
}
