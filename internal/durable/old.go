package durable

import (
	"io/fs"
	"strings"
	"time"
)

// oldAfter is the longest time that an earlier version took for a write. A younger file may be in use by a process of that
// version that ends while this one starts.
const oldAfter = time.Minute

// isOldTemporary reports whether a file is a leftover of an earlier version, ".<name><digits>", that no process is writing.
func isOldTemporary(e fs.DirEntry, name string) bool {
	digits, ok := strings.CutPrefix(e.Name(), "."+name)
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.Type().IsRegular() {
		return false
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > oldAfter
}
