package httpserve

import (
	"net/http"
	"net/http/pprof"
)

// Profiles returns the endpoints of package net/http/pprof below /debug/pprof/, for a support listener with -enable-profile.
func Profiles() []Endpoint {
	var all []Endpoint
	for _, p := range []struct {
		name, does string
		handler    http.HandlerFunc
	}{
		{"", "the list of profiles, and each by its name", pprof.Index},
		{"cmdline", "the command line, with NUL bytes between the arguments", pprof.Cmdline},
		{"profile", "a CPU profile, for `seconds=` (30)", pprof.Profile},
		{"symbol", "function names by address", pprof.Symbol},
		{"trace", "a runtime trace, for `seconds=` (1)", pprof.Trace},
	} {
		all = append(all, Endpoint{
			Path: "/debug/pprof/" + p.name, Handler: p.handler, Does: p.does, Condition: "with `-enable-profile`",
		})
	}
	return all
}
