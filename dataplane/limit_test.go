package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/dataplane"
)

// TestLimitFollowsFromTheMemory: a table has a quarter of it, or one and a half times the size of the last one; the error has the
// limit and what to do.
func TestLimitFollowsFromTheMemory(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.StateDir = ""
	w.cfg.Guard.MaxLoss = 1
	w.cfg.Memory = 40 << 20
	c := w.client()
	sized := func(revision uint64, kib int) {
		var doc strings.Builder
		for i := range kib / 100 {
			fmt.Fprintf(&doc, "r%d: Path(\"/%s\") -> <shunt>;\n", i, strings.Repeat("x", 100<<10))
		}
		w.servers[0].set(parseTable(t, doc.String(), revision))
	}
	sized(1, 9000)
	mustPoll(t, c)
	sized(2, 15000)
	failPoll(t, c, dataplane.ReasonTooLarge)
	if text := c.Status().Servers[0].LastError; !strings.Contains(text, "--guard=max-bytes") {
		t.Errorf("error %s, want what to do", text)
	}
	sized(3, 13000)
	mustPoll(t, c)
	sized(4, 19000)
	mustPoll(t, c)
	w.cfg.MaxBytes = 10 << 20
	failPoll(t, w.client(), dataplane.ReasonTooLarge)
}
