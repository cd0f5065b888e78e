// Command routesrv is a route server for fleets of ingress proxies: it reads Ingresses and RouteGroups once, compiles them into
// one eskip routing table, and serves that table to all proxies with ETag and 304.
//
//	routesrv [flags]                 serve
//	routesrv compile [flags] PATH... print the table of manifests
//	routesrv diff [flags] A B        compare two tables
//	routesrv match [flags] URL TABLE find the route of a request
//	routesrv explain [flags] WHAT... PLACE
//	                                 explain what happened to an object
//	routesrv status|clients|problems|held|accept [flags] URL...
//	                                 ask running route servers
//	routesrv migrate [flags] FILE
//	                                 write an overlay for a Deployment of Skipper's route server
//	routesrv completion SHELL        print the completion script of a shell
//	routesrv webhook [flags]         check an Ingress or a RouteGroup before the API server stores it
//	routesrv version                 print the version
//
// A first argument "routesrv" is skipped, because manifests for Skipper's image pass the program name there. SIGHUP reads the
// source at once. The exit status is 0 after a normal end, 2 if the program could not start, and 1 if it failed later; compile,
// diff, match, explain and the commands that ask route servers document their own exit statuses.
package main

import (
	"context"

	"github.com/routesrv/routesrv/internal/config"
)

// version is set by the linker in a release build.
var version string

// program describes routesrv to package setup.
func program() config.Program { return config.Program{Name: "routesrv", Version: version} }

func main() { config.Main(run) }

// run is the whole program. It returns the exit status when ctx ends.
func run(ctx context.Context, args, environ []string, std config.Stdio) int {
	if len(args) > 0 && args[0] == "routesrv" {
		args = args[1:]
	}
	env := config.Env{Environ: environ, ReadFile: config.ReadFile(ctx), Output: std.Out}
	if len(args) > 0 {
		if asks(args[0]) {
			return runAsking(ctx, args, std)
		}
		switch args[0] {
		case "compile":
			return runCompile(ctx, args[1:], env, std)
		case "diff":
			return runDiff(ctx, args[1:], env, std)
		case "explain":
			return runExplain(ctx, args[1:], env, std)
		case "match":
			return runMatch(ctx, args[1:], env, std)
		case "migrate":
			return runMigrate(ctx, args[1:], env, std)
		case "webhook":
			return runWebhook(ctx, args[1:], env, std)
		case "version":
			program().PrintVersion(std)
			return config.ExitOK
		}
	}
	return runServe(ctx, args, env, std)
}
