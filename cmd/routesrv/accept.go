package main

import (
	"os"
	"strings"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// inPod returns the route server in the same pod, for commands that change something.
func inPod() cli.Places {
	return &cli.Socket{Dial: httpserve.DialControl, Find: func() (string, error) {
		return config.FindState(func(i config.Instance) (string, bool) { return stateOf(i) })
	}}
}

// stateOf returns the state folder of a process, if it is a route server and not another command. It reads the process's flags,
// environment and configuration file.
func stateOf(i config.Instance) (folder string, serves bool) {
	args := i.Args
	if len(args) > 0 && args[0] == "routesrv" {
		args = args[1:]
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return "", false
	}
	cfg, _, err := config.ParseRouteServer(args, config.Env{Environ: i.Environ, ReadFile: os.ReadFile})
	if err != nil {
		return "", false
	}
	return cfg.StateDir, true
}
