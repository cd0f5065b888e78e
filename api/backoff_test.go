package api_test

import (
	"math"
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
)

func TestBackoffDoublesUpToTheLimit(t *testing.T) {
	const s = time.Second
	almostOne := math.Nextafter(1, 0)
	for _, c := range []struct {
		failures       int
		interval, most time.Duration
		least, longest time.Duration
	}{
		{1, 3 * s, 15 * s, 3 * s, 6 * s},
		{2, 3 * s, 15 * s, 6 * s, 12 * s},
		{3, 3 * s, 15 * s, 7500 * time.Millisecond, 15 * s},
		{1000, 3 * s, 15 * s, 7500 * time.Millisecond, 15 * s},
		{1, 3 * s, 3 * s, 3 * s, 3 * s},
		{2, 3 * s, 4 * s, 3 * s, 4 * s},
		{math.MaxInt32, s, math.MaxInt64, math.MaxInt64 / 2, math.MaxInt64},
	} {
		if got := api.Backoff(c.failures, c.interval, c.most, 0); got != c.least {
			t.Errorf("%d failures, %v to %v: at least %v, want %v", c.failures, c.interval, c.most, got, c.least)
		}
		got := api.Backoff(c.failures, c.interval, c.most, almostOne)
		if got > c.longest || float64(c.longest-got) > 1e-6*float64(c.longest) {
			t.Errorf("%d failures, %v to %v: at most %v, want %v", c.failures, c.interval, c.most, got, c.longest)
		}
	}
}
