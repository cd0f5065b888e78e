package dataplane

import "testing"

func TestLimitFollowsFromTheLastTableAndTheMemory(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ last, memory, want int64 }{
		"nothing is known":             {0, 0, defaultMaxBytes},
		"first table, much memory":     {0, 64 << 30, defaultMaxBytes},
		"first table, 1 GiB":           {0, 1 << 30, 256 * mib},
		"a small table":                {mib, 0, 64 * mib},
		"a small table, small machine": {mib, 128 * mib, 32 * mib},
		"a large table":                {100 * mib, 0, 400 * mib},
		"a large table, 1 GiB":         {100 * mib, 1 << 30, 256 * mib},
		"larger than its share":        {100 * mib, 200 * mib, 150 * mib},
	} {
		if got := derivedLimit(c.last, c.memory); got != c.want {
			t.Errorf("%s: %d MiB, want %d", name, got/mib, c.want/mib)
		}
	}
}
