package dataplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestReportsAreSentToWhoTakesThem: the server in use gets the reports, and its error is returned.
func TestReportsAreSentToWhoTakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		c := w.client()
		server := w.servers[0]
		send := func(status int) error {
			t.Helper()
			server.status(status)
			_, err := c.Report(t.Context(), []byte("{}"))
			return err
		}
		if err := send(http.StatusNoContent); err != nil {
			t.Errorf("204: %v", err)
		}
		if r := server.last(t); r.Method != http.MethodPost || r.URL.Path != "/clients" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the report is %s %s, %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
		}
		for _, status := range []int{http.StatusInternalServerError, http.StatusNotFound} {
			if err := send(status); err == nil || !strings.Contains(err.Error(), fmt.Sprint("status ", status)) {
				t.Errorf("%d: %v", status, err)
			}
		}
	})
}
