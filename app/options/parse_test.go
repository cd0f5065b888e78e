package options_test

import (
	"github.com/spf13/cobra"

	"github.com/routesrv/routesrv/app/options"
)

// parseArgs parses the arguments of the route server as the program does.
func parseArgs(args []string, env options.Env) (*options.RouteServer, []*options.Error, error) {
	return parseWith(&cobra.Command{Use: "routesrv"}, options.RouteServerFlags, args, env)
}

func parseWith[T any](cmd *cobra.Command, declare func(*cobra.Command, *T) *options.Flags, args []string, env options.Env) (*T, []*options.Error, error) {
	var c T
	flags := declare(cmd, &c)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return flags.Resolve(args, env) }
	_, err := options.SetArgs(cmd, args)
	if err == nil {
		err = cmd.Execute()
	}
	if err != nil {
		return nil, flags.Warnings(), err
	}
	return &c, flags.Warnings(), nil
}

func serverFlags() *options.Flags {
	return options.RouteServerFlags(&cobra.Command{Use: "routesrv"}, new(options.RouteServer))
}

func allFlags() []*options.Flag { return serverFlags().All() }

func ignoredFlags() []*options.Flag { return serverFlags().Ignored() }
