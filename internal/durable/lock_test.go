package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/routesrv/routesrv/internal/durable"
)

func TestLockExcludesOthers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	unlock, err := durable.Lock(folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Lock(folder); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second lock: error %v", err)
	}
	unlock()
	unlock, err = durable.Lock(folder)
	if err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
	unlock()
}

// TestLockOfAnUnusableFolder: files in such a folder fail later, with a message about each. It prevents no start.
func TestLockOfAnUnusableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", file, filepath.Join(file, "x")} {
		unlock, err := durable.Lock(folder)
		if err != nil {
			t.Errorf("%q: %v", folder, err)
			continue
		}
		unlock()
	}
}
