package main

import (
	"os"
	"strings"

	"github.com/routesrv/routesrv/internal/cli"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/httpserve"
)

// asking returns the commands that ask the process in the same pod, over its control socket.
func asking() cli.Program {
	return cli.Program{
		Name: "dataplane-client", Beside: true, Version: config.VersionText("dataplane-client", version),
		Places: func() cli.Places {
			return &cli.Socket{Dial: httpserve.DialControl, Find: func() (string, error) {
				return config.FindState(func(i config.Instance) (string, bool) { return stateOf(i) })
			}}
		},
	}
}

// stateOf returns the state folder of a process, if it serves.
func stateOf(i config.Instance) (folder string, serves bool) {
	if len(i.Args) > 0 && !strings.HasPrefix(i.Args[0], "-") {
		return "", false
	}
	f, _, err := parse(i.Args, config.Env{Environ: i.Environ, ReadFile: os.ReadFile})
	if err != nil {
		return "", false
	}
	return f.sidecar.StateDir, true
}
