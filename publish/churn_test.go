package publish_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/table"
)

// TestChurn measures, over ten minutes with one added or removed endpoint a second, how many tables a proxy that polls every three seconds
// has to load, and how long a removed endpoint stays in its table. docs/operate/sizing.md has the figures.
func TestChurn(t *testing.T) {
	const pods = 40
	patterns := []struct {
		name string
		// step returns how many endpoints are added and removed in this second.
		step        func(second int) (come, gone int)
		least, most float64 // tables per minute without and with the budget
	}{
		{"services scale out", func(int) (int, int) { return 1, 0 }, 19, 2.1},
		{"rolling deployments, a quarter of the pods at a time", wave, 4, 4},
		{"rolling deployments, 5 pods at a time", func(s int) (int, int) {
			if s%10 < 5 {
				return 1, 0
			}
			return 0, 1
		}, 19, 14},
		{"rolling deployments, a pod at a time", func(s int) (int, int) { return (s + 1) % 2, s % 2 }, 19, 20},
	}
	for _, p := range patterns {
		for _, budgeted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &shown{}
				read := s.Begin
				if budgeted {
					read = budgetOf(t, s, nil).Begin
				}
				var state []string
				goneAt := map[string]time.Time{}
				next, longest := 0, time.Duration(0)
				for ; next < pods; next++ {
					state = append(state, fmt.Sprintf("10.0.%d.%d", next/250, next%250+1))
				}
				for second := range 600 {
					come, gone := p.step(second)
					for range come {
						state = append(state, fmt.Sprintf("10.0.%d.%d", next/250, next%250+1))
						next++
					}
					for range gone {
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
				if budgeted && rate > p.most || !budgeted && rate < p.least {
					t.Errorf("%s, with a budget: %v: %.1f tables a minute", p.name, budgeted, rate)
				}
				if longest > 3*time.Second {
					t.Errorf("%s: an endpoint that is gone stayed for %v", p.name, longest)
				}
			})
		}
	}
}

// wave is a Deployment of 30 pods with the defaults of Kubernetes (maxSurge and maxUnavailable 25 %), which rolls once a minute: 7 old pods
// end at once, and 15 new ones start. They get ready half a minute later, within three seconds of each other, and each replaces an old one.
// The last 15 do the same for the 8 old pods that are left.
func wave(second int) (come, gone int) {
	switch second % 60 {
	case 30, 31, 32:
		return 5, 5
	case 0:
		if second == 0 {
			return 0, 0 // the first wave has nothing before it
		}
		return 5, 5
	case 1:
		return 5, 3
	case 2:
		return 5, 0
	case 3:
		return 0, 7
	}
	return 0, 0
}
