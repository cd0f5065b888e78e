package httpserve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/routesrv/routesrv/app/httpserve"
)

// TestFormOfAnAnswer: the parameter decides, then the Accept header; people with curl or a browser get text.
func TestFormOfAnAnswer(t *testing.T) {
	says := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	for _, c := range []struct{ query, accept, want string }{
		{"", "", "text"},
		{"", "*/*", "text"},
		{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text"}, // a browser
		{"", "application/json", "json"},
		{"", "APPLICATION/JSON ; Q=1", "json"},
		{"?format=json", "text/plain", "json"},
		{"?format=text", "application/json", "text"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/"+c.query, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		httpserve.WriteAnswer(w, r, http.StatusOK, says("json"), says("text"))
		if got := w.Body.String(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	w := httptest.NewRecorder()
	fails := func(io.Writer) error { return io.ErrClosedPipe }
	httpserve.WriteAnswer(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusOK, fails, fails)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("an answer that cannot be written: %d", w.Code)
	}
}
