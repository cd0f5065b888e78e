// Command routesrv is a route server for fleets of ingress proxies: it reads Ingresses and RouteGroups once, compiles them
// to one eskip routing table, and serves that to all proxies behind ETag and 304.
//
//	routesrv [flags]                 serve
//	routesrv compile [flags] PATH... print the table of manifests
//	routesrv diff [flags] A B        compare two tables
//	routesrv match [flags] URL TABLE find the route of a request
//	routesrv version                 print the version
//
// A first argument "routesrv" is skipped, because manifests of Skipper's image have the name of the program there. SIGHUP reads the
// source at once. The exit status is 0 after a normal end, 2 if the program could not start, and 1 if it failed later; compile,
// diff and match have their own, see there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/routesrv/routesrv/config"
	"github.com/routesrv/routesrv/setup"
)

// version is set by the linker for a release.
var version string

// Exit statuses.
const (
	exitOK       = 0
	exitFailed   = 1 // for compile: there are problems; for diff: there are differences; for match: no route
	exitUnusable = 2 // the program cannot run as it was called
)

// stdio are the standard streams of the process.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// The second signal ends the process at once: whoever sends it does not want to wait for the draining.
	context.AfterFunc(ctx, stop)
	status := run(ctx, os.Args[1:], os.Environ(), stdio{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(status)
}

// run is the whole program. It ends when ctx does.
func run(ctx context.Context, args, environ []string, std stdio) int {
	if len(args) > 0 && args[0] == "routesrv" {
		args = args[1:]
	}
	env := config.Env{Environ: environ, ReadFile: setup.ReadFile(ctx), Output: std.out}
	if len(args) > 0 {
		switch args[0] {
		case "compile":
			return runCompile(ctx, args[1:], env, std)
		case "diff":
			return runDiff(ctx, args[1:], env, std)
		case "match":
			return runMatch(ctx, args[1:], env, std)
		case "version":
			fmt.Fprintln(std.out, setup.VersionText("routesrv", version))
			return exitOK
		}
	}
	return runServe(ctx, args, env, std)
}

// configured reports what is wrong with a configuration. If it cannot be used it gives the exit status.
func configured(warnings []config.Warning, err error, std stdio) (status int, ok bool) {
	switch {
	case err == nil:
		return exitOK, true
	case errors.Is(err, config.ErrHelp):
		return exitOK, false
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(std.out, setup.VersionText("routesrv", version))
		return exitOK, false
	case errors.Is(err, config.ErrChecked):
		printWarnings(warnings, std)
		fmt.Fprintln(std.out, "the settings can be used")
		return exitOK, false
	}
	printWarnings(warnings, std)
	fmt.Fprintln(std.err, "routesrv:", err)
	return exitUnusable, false
}

func printWarnings(warnings []config.Warning, std stdio) {
	for _, w := range warnings {
		fmt.Fprintln(std.err, "routesrv: warning:", w)
	}
}
