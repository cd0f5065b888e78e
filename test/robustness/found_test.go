package robustness

// Files found_*_test.go have a short test for each bug of the product that running it revealed. Each represents a class of bugs:
// TestGuaranteesHold includes its faults and inputs.

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/test/robustness/history"
	"github.com/routesrv/routesrv/test/robustness/validate"
)

// play runs a scenario, and validates the record against the guarantees.
func play(t *testing.T, s Scenario) *history.History {
	t.Helper()
	t.Parallel()
	folder, err := os.MkdirTemp("", "routesrv-found-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs of the processes are kept in %s", folder)
		} else if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	s.Name = t.Name()
	h, err := s.Run(t.Context(), binaries, folder, "")
	if err != nil {
		t.Error(err)
	}
	if h == nil {
		t.FailNow()
	}
	for i, v := range validate.All(h) {
		if i < 10 {
			t.Error(v)
		}
	}
	return h
}

// tables calls f for each table that a client accepted, in order.
func tables(h *history.History, client string, f func(a history.Answer, text string)) {
	for _, a := range h.Answers {
		if a.Outcome == history.Applied && (client == "" || a.Client == client) {
			f(a, h.Tables[a.Digest])
		}
	}
}

func server(name, transport string) history.Member {
	return history.Member{Name: name, Kind: history.Server, Transport: transport}
}

func poller(name string, upstreams ...string) history.Member {
	return history.Member{Name: name, Kind: history.Poller, Upstreams: upstreams}
}

// requests counts the pairs of host and path that routes with this text answer.
func requests(t *testing.T, table, text string) int {
	t.Helper()
	routes, err := eskip.Parse(table)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(map[string]bool)
	for _, r := range routes {
		if !strings.Contains(r.String(), text) {
			continue
		}
		paths := []string{r.Path}
		for _, p := range r.Predicates {
			if strings.HasPrefix(p.Name, "Path") {
				paths = append(paths, fmt.Sprint(p.Args...))
			}
		}
		answered[fmt.Sprint(r.HostRegexps, paths)] = true
	}
	return len(answered)
}
