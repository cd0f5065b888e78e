package httpserve

import (
	"bytes"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestPanicOfAHandlerIsAnErrorInTheLog(t *testing.T) {
	var text bytes.Buffer
	e := NewErrorLog(slog.New(slog.NewTextHandler(&text, nil)), prometheus.NewRegistry())
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("at 3 a.m.") }))
	srv.Config.ErrorLog = log.New(e, "", 0)
	srv.Start()
	resp, err := srv.Client().Get(srv.URL)
	if err == nil {
		resp.Body.Close()
		t.Error("a request whose handler panicked has an answer")
	}
	srv.Close()
	if got := testutil.ToFloat64(e.kinds.WithLabelValues("panic")); got != 1 {
		t.Errorf("%v panics counted, want 1", got)
	}
	if got := text.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "at 3 a.m.") {
		t.Errorf("log %q", got)
	}
}
