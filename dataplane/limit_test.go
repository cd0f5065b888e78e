//go:build !race

package dataplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/dataplane"
)

// TestTableThatGrowsAtOnceIsTakenByANewProcess: compared with a small table 80 MiB are suspicious, and the error says what to do.
// A new process has no table to compare with.
func TestTableThatGrowsAtOnceIsTakenByANewProcess(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.StateDir = ""
	w.cfg.Guard.MaxLoss = 1
	w.cfg.Timeout = 10 * time.Minute // this test is not about time
	c := w.client()
	small := newTable(t, 1, "a", "b")
	w.servers[0].set(small)
	mustPoll(t, c)

	var doc strings.Builder
	for i := range 800 {
		fmt.Fprintf(&doc, "r%d: Path(\"/%s\") -> <shunt>;\n", i, strings.Repeat("x", 100<<10))
	}
	large := parseTable(t, doc.String(), 2)
	w.servers[0].set(large)
	failPoll(t, c, dataplane.ReasonTooLarge)
	holds(t, c, small)
	if err := c.Poll(context.Background()); err == nil || !strings.Contains(err.Error(), "--guard=max-bytes") ||
		!strings.Contains(err.Error(), fmt.Sprint(64<<20)) {
		t.Errorf("error %v, want the limit and the flag", err)
	}
	again := w.client()
	mustPoll(t, again)
	holds(t, again, large)
	w.cfg.MaxBytes = 100 << 20
	explicit := w.client()
	w.servers[0].set(small)
	mustPoll(t, explicit)
	w.servers[0].set(large)
	mustPoll(t, explicit)
	holds(t, explicit, large)
}
