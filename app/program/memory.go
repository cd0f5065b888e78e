package program

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// MemoryLimit returns the memory limit of this process in bytes, from its cgroup and GOMEMLIMIT; 0 means no limit.
func MemoryLimit() int64 {
	limit := cgroupLimit(string(os.PathSeparator))
	if soft := debug.SetMemoryLimit(-1); soft < math.MaxInt64 && (limit == 0 || soft < limit) {
		limit = soft
	}
	return limit
}

// cgroupLimit returns the memory limit of the cgroup of this process and its parents; 0 means no limit. In a container the files of its
// own cgroup are at the top; elsewhere /proc/self/cgroup has its path. Cgroups of version 1, which Kubernetes no longer supports, count
// as no limit.
func cgroupLimit(root string) (limit int64) {
	own, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it, this is the top
	path := ""
	for line := range strings.Lines(string(own)) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			path = rest
		}
	}
	for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
		text, _ := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", path, "memory.max"))
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
		if path == "/" {
			return limit
		}
	}
}
