package publish

import (
	"log/slog"
	"testing"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/internal/durable"
)

// TestADiskThatHangsBlocksNobody: what cannot be written is kept in memory, bounded.
func TestADiskThatHangsBlocksNobody(t *testing.T) {
	d := OpenDecisions(t.TempDir(), slog.New(slog.DiscardHandler))
	hangs := make(chan struct{})
	defer close(hangs)
	d.writer = durable.NewWriter(func() { <-hangs })
	for range maxDecisions + 3 {
		d.Append(api.Decision{What: api.DecidedHeld})
	}
	if n := len(d.Last(2 * maxDecisions)); n != maxDecisions {
		t.Errorf("%d in memory", n)
	}
}
