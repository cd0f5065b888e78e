package program

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// MemoryLimit returns the memory limit of this process in bytes, from its container and GOMEMLIMIT; 0 means no limit.
func MemoryLimit() int64 { return memoryLimit("/sys/fs/cgroup/memory.max") }

// memoryLimit takes the file of the container's cgroup, which is at the top there.
func memoryLimit(file string) int64 {
	limit := debug.SetMemoryLimit(-1)
	text, _ := os.ReadFile(file) // without it only GOMEMLIMIT counts
	if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
		limit = min(limit, n)
	}
	return limit % math.MaxInt64 // which means none
}
