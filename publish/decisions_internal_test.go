package publish

import (
	"log/slog"
	"testing"
)

// TestADiskThatHangsBlocksNobody: what cannot be written is kept in memory, bounded.
func TestADiskThatHangsBlocksNobody(t *testing.T) {
	d := OpenDecisions(t.TempDir(), slog.New(slog.DiscardHandler))
	d.idle = make(chan struct{}) // a writer is active and never returns
	for range maxDecisions + 3 {
		d.Append(Decision{What: DecidedHeld})
	}
	if n := len(d.Last(2 * maxDecisions)); n != maxDecisions {
		t.Errorf("%d in memory", n)
	}
}
