package poller

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/compile/rules"
)

// The reference logs the cause in the field error, beside its message, and so does the ledger.
func TestCauseOfAProblemIsLoggedAsError(t *testing.T) {
	var log strings.Builder
	l := newLedger(slog.New(slog.NewTextHandler(&log, nil)), nil)
	l.record([]rules.Problem{{Severity: rules.Error, Message: "could not fetch default filter configurations", Cause: "no such folder"}}, time.Now())
	if want := `level=ERROR msg="could not fetch default filter configurations" component=compile reason="" error="no such folder"`; !strings.Contains(log.String(), want) {
		t.Errorf("got %s, want %s in it", log.String(), want)
	}
}
