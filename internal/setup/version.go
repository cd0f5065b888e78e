package setup

import "github.com/routesrv/routesrv/internal/version"

// VersionText is [version.Text].
func VersionText(program, linked string) string { return version.Text(program, linked) }

// VersionName is [version.Name].
func VersionName(linked string) string { return version.Name(linked) }
