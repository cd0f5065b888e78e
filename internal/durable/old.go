package durable

import (
	"io/fs"
	"strings"
	"time"
)

// oldAfter is how long an earlier version took for a write at most. A younger file may be in use by a process of that
// version that ends while this one starts.
const oldAfter = time.Minute

// isOldTemporary reports whether a file is one that an earlier version left: ".<name><digits>", with nobody writing it.
func isOldTemporary(e fs.DirEntry, name string) bool {
	digits, ok := strings.CutPrefix(e.Name(), "."+name)
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || !e.Type().IsRegular() {
		return false
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > oldAfter
}
