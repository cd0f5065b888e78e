// Command kubectl-routesrv is a plugin of kubectl that asks the route servers of one or many clusters: what they serve, who holds it,
// what is wrong with objects, and what the guard holds back. It finds the pods by their labels and opens port-forwards itself.
//
//	kubectl routesrv COMMAND [flags] [arguments]
//
// docs/cli.md is the guide. The exit status is 0 if all is well, 1 if something is not, and 2 if somebody did not answer.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/plugin"
	programversion "github.com/routesrv/routesrv/internal/version"
)

// version is set by the linker for a release.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // the second one ends the process at once
	status := run(ctx, os.Args[1:], cli.Streams(os.Stdin, os.Stdout, os.Stderr))
	stop()
	os.Exit(status)
}

// run is the whole program. It ends when ctx does.
func run(ctx context.Context, args []string, std cli.Stdio) int {
	program := cli.Program{Name: "kubectl routesrv", Places: plugin.New, Remote: true, Version: programversion.Text("kubectl-routesrv", version)}
	return program.Run(ctx, args, std)
}
