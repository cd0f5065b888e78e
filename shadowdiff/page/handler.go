package page

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/shadowdiff"
)

// Form is a form in which a comparison is served.
type Form int

// The forms. The first one is for clients that accept anything, such as curl in the shell of a pod.
const (
	Text Form = iota
	HTML
	JSON
)

// forms has the value of ?format= and the media type of each form.
var forms = [...]struct{ name, mediaType string }{
	Text: {"text", "text/plain"}, HTML: {"html", "text/html"}, JSON: {"json", "application/json"},
}

// Handler serves the result of view as text, page or JSON: by the query parameter "format" (text, html, json), else by the first of these forms in the
// Accept header, else as text. view is called once for each request, concurrently; its routes must not change afterwards.
func Handler(view func() shadowdiff.View) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, ok := Negotiate(w, r)
		if !ok {
			return
		}
		v := view()
		body, err := Render(form, &v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		Send(w, form, body)
	})
}

// Negotiate returns the form that a request asks for, by the rules of [Handler]. If it returns false, it has refused the request, because
// no form has the name that it asks for.
func Negotiate(w http.ResponseWriter, r *http.Request) (f Form, ok bool) {
	h := w.Header()
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	if f, ok = choose(r); !ok {
		http.Error(w, "format: want text, html or json", http.StatusBadRequest)
	}
	return f, ok
}

// Render renders a view in a form. A page has links to the other forms.
func Render(f Form, v *shadowdiff.View) ([]byte, error) {
	var body bytes.Buffer
	var err error
	switch f {
	case HTML:
		err = write(&body, v, true)
	case JSON:
		err = shadowdiff.WriteJSON(&body, v)
	default:
		err = shadowdiff.WriteText(&body, v, false)
	}
	return body.Bytes(), err
}

// Send answers with a form rendered by [Render].
func Send(w http.ResponseWriter, f Form, body []byte) {
	h := w.Header()
	h.Set("Content-Type", forms[f].mediaType+"; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body) // ignore clients that are gone
}

// choose returns the form that a request asks for: by name, or the first one that it accepts.
func choose(r *http.Request) (f Form, ok bool) {
	name := r.URL.Query().Get("format")
	for f, form := range forms {
		if form.name == name {
			return Form(f), true
		}
	}
	for accepted := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		mediaType, _, _ := strings.Cut(accepted, ";")
		for f, form := range forms {
			if strings.EqualFold(strings.TrimSpace(mediaType), form.mediaType) && name == "" {
				return Form(f), true
			}
		}
	}
	return Text, name == ""
}
