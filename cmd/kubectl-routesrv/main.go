// Command kubectl-routesrv is a kubectl plugin that asks the route servers of one or more clusters what they serve, which clients
// hold it, which objects have problems, and what the guard holds back. It finds the pods by their labels and opens port-forwards
// itself.
//
//	kubectl routesrv COMMAND [flags] [arguments]
//
// docs/debug/commands.md is the guide. The exit status is 0 if all is well, 1 if something is wrong, and 2 if a server did not answer.
package main

import (
	"context"

	"github.com/routesrv/routesrv/app/cli"
	"github.com/routesrv/routesrv/app/forward"
	"github.com/routesrv/routesrv/app/options"
)

// version is set by the linker in a release build.
var version string

func main() {
	forward.SilenceClient()
	options.Main(run)
}

// run is the whole program. It returns the exit status when ctx ends.
func run(ctx context.Context, args, environ []string, std options.Stdio) int {
	program := cli.Program{
		Name: "kubectl routesrv", Places: forward.NewPlaces, Remote: true, Version: options.VersionText("kubectl-routesrv", version),
		Env: options.Env{Environ: environ, ReadFile: options.ReadFile(ctx)},
	}
	return program.Run(ctx, args, std)
}
