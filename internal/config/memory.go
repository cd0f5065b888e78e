package config

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/routesrv/routesrv/internal/durable"
)

// MemoryLimit returns the memory limit of this process in bytes, from its cgroup and GOMEMLIMIT; 0 means no limit.
func MemoryLimit() int64 {
	limit := cgroupLimit(string(os.PathSeparator))
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 && (limit == 0 || soft < limit) {
		limit = soft
	}
	return limit
}

// maxCgroupFile limits the size of a cgroup file, which has one number or a few lines.
const maxCgroupFile = 64 << 10

// cgroupLimit returns the memory limit of the cgroup of this process and its parents; 0 means no limit. In a container the files
// of its own cgroup are at the top; elsewhere /proc/self/cgroup has its path.
func cgroupLimit(root string) int64 {
	folders := map[string]string{"": "sys/fs/cgroup", "memory": "sys/fs/cgroup/memory"}
	files := map[string]string{"": "memory.max", "memory": "memory.limit_in_bytes"}
	paths := map[string]string{"": "/", "memory": "/"}
	for line := range strings.Lines(readCgroup(filepath.Join(root, "proc/self/cgroup"))) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if _, ok := paths[controllers]; ok {
			paths[controllers] = path
		}
	}
	limit := int64(math.MaxInt64)
	for controller, folder := range folders {
		for path := filepath.Clean("/" + paths[controller]); ; path = filepath.Dir(path) {
			text := strings.TrimSpace(readCgroup(filepath.Join(root, folder, path, files[controller])))
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
			if path == "/" {
				break
			}
		}
	}
	if limit >= unlimited {
		return 0
	}
	return limit
}

// unlimited is below what cgroups version 1 reports without a limit, and above the memory of any machine.
const unlimited = 1 << 60

// readCgroup reads a file of unknown size; it returns "" on failure.
func readCgroup(path string) string {
	f, _, err := durable.Open(path, maxCgroupFile)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, maxCgroupFile)
	n, _ := f.Read(buf)
	return string(buf[:n])
}
