package program

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimitIsThatOfTheCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no cgroup":            {nil, 0},
		"container, version 2": {map[string]string{"sys/fs/cgroup/memory.max": "1073741824\n", "proc/self/cgroup": "0::/\n"}, 1 << 30},
		"without limit":        {map[string]string{"sys/fs/cgroup/memory.max": "max\n", "proc/self/cgroup": "0::/\n"}, 0},
		"below the top":        {map[string]string{"sys/fs/cgroup/a/b/memory.max": "1000\n", "proc/self/cgroup": "0::/a/b\n"}, 1000},
		"limit of the one above": {map[string]string{
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "500\n", "proc/self/cgroup": "0::/a/b\n"}, 500},
		"path of another name space": {map[string]string{"sys/fs/cgroup/memory.max": "700\n", "proc/self/cgroup": "0::/../../x\n"}, 700},
		"no number":                  {map[string]string{"sys/fs/cgroup/memory.max": "lots\n"}, 0},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
