package programs_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/test/programs"
)

// TestProbesAreAnsweredUnderSiege: whatever more clients than fit do with their connections, on both listeners.
func TestProbesAreAnsweredUnderSiege(t *testing.T) {
	const openFiles = 300 // 172 of them are for the main listener
	for name, text := range sieges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main, support := programs.FreeAddress(t), programs.FreeAddress(t)
			p := programs.Start(t, "/bin/sh", main, support, []string{
				"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, openFiles), binary(t, "routesrv"), "--manifests=../../examples/shop",
				"-address=" + main, "-support-listener=" + support, "-wait-for-healthcheck-interval=0s",
			})
			p.Ready(t)
			besiege(t, strings.TrimPrefix(p.Support, "http://"), 100, text)
			besiege(t, strings.TrimPrefix(p.Main, "http://"), 200, text)
			probes(t, p.Support+"/health", http.StatusNoContent)
			probes(t, p.Main+"/health", http.StatusNoContent)
		})
	}
}
