package program

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimitIsThatOfTheContainer(t *testing.T) {
	for text, want := range map[string]int64{"1073741824\n": 1 << 30, "max\n": 0, "": 0} {
		file := filepath.Join(t.TempDir(), "memory.max")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := memoryLimit(file); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := memoryLimit(filepath.Join(t.TempDir(), "none")); got != 0 {
		t.Errorf("without a cgroup: %d", got)
	}
}
