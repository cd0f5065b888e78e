package main

import (
	"testing"

	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/server"
)

// TestDefaultsOfFlagsAreThoseOfTheServer: package config and package server cannot share their defaults, and a program that
// embeds the server gets the same defaults as a program with flags.
func TestDefaultsOfFlagsAreThoseOfTheServer(t *testing.T) {
	c, _, err := config.ParseRouteServer([]string{"-kubernetes"}, config.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen.Address != server.DefaultAddress || c.Listen.MaxConnections != server.DefaultMaxConnections ||
		c.Listen.ShutdownTimeout != server.DefaultShutdownTimeout {
		t.Errorf("defaults of flags %+v, want %q, %d connections, %v", c.Listen, server.DefaultAddress, server.DefaultMaxConnections,
			server.DefaultShutdownTimeout)
	}
}
