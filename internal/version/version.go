// Package version says which version a program is of.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Text is what a program prints of its version. linked is what the linker was given for a release.
func Text(program, linked string) string {
	return fmt.Sprintf("%s %s %s %s/%s", program, Name(linked), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Name is the release, else what the build knows of the sources.
func Name(linked string) string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}
