package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

// TestProbesAreAnsweredUnderSiege: whatever more clients than fit do with their connections, on both listeners.
func TestProbesAreAnsweredUnderSiege(t *testing.T) {
	for name, text := range programs.Sieges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "300", "--manifests="+shop) // 172 of them are for the main listener
			p.ready()
			programs.Besiege(t, strings.TrimPrefix(p.support, "http://"), 100, text)
			programs.Besiege(t, strings.TrimPrefix(p.main, "http://"), 200, text)
			programs.Probes(t, p.support+"/health", http.StatusNoContent)
			programs.Probes(t, p.main+"/health", http.StatusNoContent)
		})
	}
}
