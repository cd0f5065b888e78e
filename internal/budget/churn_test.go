package budget_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/table"
)

// TestChurn measures, over ten minutes in which one endpoint is added or removed every second, how many tables a proxy that polls
// every three seconds has to load, and how long a removed endpoint stays in its table. docs/performance.md has the figures.
func TestChurn(t *testing.T) {
	const pods = 20
	patterns := []struct {
		name string
		// step reports whether an endpoint is added in this second; otherwise one is removed.
		step func(second int) (comes bool)
		most float64 // tables per minute with the budget
	}{
		{"services scale out", func(int) bool { return true }, 2.1},
		{"rolling deployments, 5 pods at a time", func(s int) bool { return s%10 < 5 }, 14},
		{"rolling deployments, a pod at a time", func(s int) bool { return s%2 == 0 }, 20},
	}
	for _, p := range patterns {
		for _, budgeted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{}
				read := s.Begin
				if budgeted {
					read = start(t, s, nil).Begin
				}
				var state []string
				goneAt := map[string]time.Time{}
				next, longest := 0, time.Duration(0)
				for ; next < pods; next++ {
					state = append(state, fmt.Sprintf("10.0.%d.%d", next/250, next%250+1))
				}
				for second := range 600 {
					if p.step(second) {
						state = append(state, fmt.Sprintf("10.0.%d.%d", next/250, next%250+1))
						next++
					} else {
						goneAt[state[0]] = time.Now()
						state = state[1:]
					}
					if second%3 == 0 {
						list := slices.Sorted(slices.Values(state))
						line := "a:"
						for _, e := range list {
							line += " " + e
						}
						read()(routes(t, line), table.Read{})
						synctest.Wait()
						text := string(s.served().Text())
						for e, at := range goneAt {
							if !slices.Contains(list, e) && !strings.Contains(text, `"http://`+e+`"`) {
								longest = max(longest, time.Since(at))
								delete(goneAt, e)
							}
						}
					}
					time.Sleep(time.Second)
				}
				if len(goneAt) > 3 {
					t.Errorf("%s: %d endpoints that are gone are still served", p.name, len(goneAt))
				}
				rate := float64(s.count()) / 10
				t.Logf("%s, with a budget: %v: %.1f tables a minute, an endpoint that is gone stays for %v at most", p.name, budgeted, rate, longest)
				if budgeted && rate > p.most || !budgeted && rate < 19 {
					t.Errorf("%s, with a budget: %v: %.1f tables a minute", p.name, budgeted, rate)
				}
				if longest > 3*time.Second {
					t.Errorf("%s: an endpoint that is gone stayed for %v", p.name, longest)
				}
			})
		}
	}
}
