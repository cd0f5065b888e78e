package model_test

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Steps of scripts.
const (
	replacePods   = 1
	emptyServices = 2
	deleteSome    = 6
	failReads     = 9
	panicking     = 10
	accepting     = 12
	restarting    = 13
	waiting       = 14
)

// finds expects the model to find a planted mistake with a script, under the name of the guarantee, and to find nothing without
// the mistake.
func finds(t *testing.T, guarantee string, script []byte, planted mistake) {
	t.Helper()
	if v := play(t, script, mistake{}); v != nil {
		t.Errorf("without the mistake: %s: %s", v.guarantee, v.text)
	}
	switch v := play(t, script, planted); {
	case v == nil:
		t.Error("nothing is found")
	case v.guarantee != guarantee:
		t.Errorf("found is %s, want %s: %s", v.guarantee, guarantee, v.text)
	}
}

// The mistake: endpoints are frozen together with the intent, as if only tables were known.
func TestModelFindsFrozenEndpoints(t *testing.T) {
	finds(t, "Live", []byte{0, deleteSome, 2, replacePods, 0}, mistake{publisher: func(c *publish.Config) { c.Builder = nil }})
}

// The mistake: a route server that restarts forgets what it served, so the next process compares its first table with nothing.
func TestModelFindsAHoldThatARestartForgets(t *testing.T) {
	finds(t, "Guarded", []byte{0, deleteSome, 2, restarting, 0, waiting, 5}, mistake{restart: func(l *level) { _ = errors.Join(os.Remove(l.file()), os.Remove(l.file()+".kept.json")) }})
}

// The mistake: a loss in steps passes, because each table is compared only with the previous one.
func TestModelFindsASlowLoss(t *testing.T) {
	// After the window is full: delete a quarter, another, another, and the last.
	script := []byte{0, waiting, 59, waiting, 59, waiting, 59, deleteSome, 0, deleteSome, 4, deleteSome, 8}
	finds(t, "Guarded", script, mistake{publisher: func(c *publish.Config) { c.Guard.Window = time.Millisecond }})
}

// The mistake: a failed read returns a partial result.
func TestModelFindsAPartialRead(t *testing.T) {
	finds(t, "Complete", []byte{0, failReads, 7}, mistake{partial: true})
}

// The mistake: a data plane names a table that it does not have.
func TestModelFindsNamesOfOtherTables(t *testing.T) {
	finds(t, "Names", []byte{2, replacePods, 0}, mistake{request: func(r *http.Request) {
		r.Header.Set("If-None-Match", `"`+table.Digest{1}.String()+`.100"`)
	}})
}

// The mistake: an acceptance is not recorded.
func TestModelFindsAnAcceptanceWithoutARecord(t *testing.T) {
	finds(t, "Recorded", []byte{0, deleteSome, 2, accepting, 0}, mistake{publisher: func(c *publish.Config) {
		record := c.Decided
		c.Decided = func(d api.Decision) {
			if d.What != api.DecidedAccepted {
				record(d)
			}
		}
	}})
}

// An operator accepts what is held while each read panics.
func TestAcceptanceWhileReadsPanic(t *testing.T) {
	for _, script := range [][]byte{
		{0, panicking, 128 + 64 + 8 + 3*5},             // the hold begins with a panic
		{0, deleteSome, 2, panicking, 128 + 64 + 1},    // another intent is held
		{0, emptyServices, 3, panicking, 128 + 64 + 1}, // likewise
	} {
		if v := play(t, script, mistake{}); v != nil {
			t.Errorf("%v: %s: %s", script, v.guarantee, v.text)
		}
	}
}
