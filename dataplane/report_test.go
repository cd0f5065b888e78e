package dataplane_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
)

// TestReportsAreSentToWhoTakesThem: the server in use gets the reports, and its error is returned; a server that accepts none
// gets no reports for five minutes.
func TestReportsAreSentToWhoTakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		c := w.client()
		server := w.servers[0]
		send := func(status int) error {
			t.Helper()
			server.status(status)
			return c.Report(t.Context(), []byte("{}"))
		}
		if err := send(http.StatusNoContent); err != nil {
			t.Errorf("204: %v", err)
		}
		if r := server.last(t); r.Method != http.MethodPost || r.URL.Path != "/clients" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the report is %s %s, %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
		}
		if err := send(http.StatusInternalServerError); err == nil || errors.Is(err, dataplane.ErrNoReports) {
			t.Errorf("500: %v", err)
		}
		if err := send(http.StatusNotFound); !errors.Is(err, dataplane.ErrNoReports) {
			t.Errorf("404: %v", err)
		}
		before := server.count()
		time.Sleep(5*time.Minute - time.Second)
		if err := send(http.StatusNoContent); !errors.Is(err, dataplane.ErrNoReports) || server.count() != before {
			t.Errorf("within five minutes of a 404: %v, and %d more requests", err, server.count()-before)
		}
		time.Sleep(time.Second)
		if err := send(http.StatusNoContent); err != nil || server.count() != before+1 {
			t.Errorf("after five minutes: %v, and %d more requests", err, server.count()-before)
		}
	})
}
