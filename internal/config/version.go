package config

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// VersionText returns the version line of a program. linked is the version set by the linker in a release build.
func VersionText(program, linked string) string {
	return fmt.Sprintf("%s %s %s %s/%s", program, VersionName(linked), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// VersionName returns the release, or else what the build information says about the sources.
func VersionName(linked string) string {
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
