// Command kubectl-routesrv is a kubectl plugin that queries the route servers of one or more clusters. It finds the pods by their labels
// and opens port-forwards itself. docs/debug/commands.md is the guide.
package main

import (
	"context"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/forward"
	"github.com/routesrv/routesrv/app/program"
)

// version is set by the linker in a release build.
var version string

func main() {
	forward.SilenceClient()
	program.Main(run)
}

// run is the whole program. It returns the exit status when ctx ends.
func run(ctx context.Context, args, environ []string, std program.Stdio) int {
	p := cli.Program{Name: "kubectl routesrv", Places: forward.NewPlaces, Remote: true, Version: version, Env: program.Env(environ)}
	return p.Run(ctx, args, std)
}
