package config

// ParseRouteServer reads the configuration of the route server from its arguments, without the name of the program, and
// from env. The warnings are to be logged, also if there is an error.
//
// The error is [ErrHelp] after the help was printed to env.Output, [ErrVersion] if the version is asked for, and else
// joins an [*Error] for each thing that is wrong.
func ParseRouteServer(args []string, env Env) (*RouteServer, []Warning, error) {
	return nil, nil, ErrHelp
}
