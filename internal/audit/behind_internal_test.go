package audit

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestADiskThatHangsBlocksNobody: entries beyond the limit are kept only in memory.
func TestADiskThatHangsBlocksNobody(t *testing.T) {
	var failed []error
	l := Open(filepath.Join(t.TempDir(), "decisions.jsonl"), func(err error) { failed = append(failed, err) })
	l.idle = make(chan struct{}) // a writer is active and never returns
	for range maxPending + 3 {
		l.Append(Entry{What: Held})
	}
	if len(failed) != 3 || !errors.Is(failed[0], ErrBehind) || len(l.pending) != maxPending || len(l.Last(1000)) != maxKept {
		t.Errorf("%d errors %v, %d wait, %d in memory", len(failed), failed, len(l.pending), len(l.Last(1000)))
	}
}
