package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release.
var version string

func versionText() string {
	return fmt.Sprintf("dataplane-client %s %s %s/%s", versionName(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionName is the release, else what the build knows of the sources.
func versionName() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return "devel-" + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "devel"
}
