package robustness

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// leaky returns the record of a process that is sampled each second for ten minutes, is killed in the middle of the second
// minute, and uses that much more memory and that many more descriptors each minute.
func leaky(memory uint64, descriptors int) *history.History {
	rng := rand.New(rand.NewPCG(1, 1))
	h := &history.History{Run: history.Run{Calm: 10 * time.Minute, Members: []history.Member{{Name: "s1", Kind: history.Server}}}}
	h.Events = []history.Event{{Member: "s1", Name: "started"}, {At: 90 * time.Second, Member: "s1", Name: "started"}}
	for at := time.Duration(0); at < 11*time.Minute; at += time.Second {
		s := history.Sample{At: at, Member: "s1", RSS: 500<<20 + rng.Uint64N(200<<20), Goroutines: 50 + rng.IntN(40), Descriptors: 100, Disk: 1 << 20}
		s.RSS += memory * uint64(at/time.Second) / 60
		s.Descriptors += descriptors * int(at/time.Second) / 60
		if at > 10*time.Minute {
			s.RSS = 1 << 40 // samples after the storm do not count
		}
		h.Samples = append(h.Samples, s)
	}
	return h
}

func TestTrendsTellALeakFromNoise(t *testing.T) {
	for name, c := range map[string]struct {
		memory      uint64
		descriptors int
		want        []string
	}{
		"flat":        {0, 0, nil},
		"memory":      {20 << 20, 0, []string{"memory"}},
		"descriptors": {0, 10, []string{"descriptors"}},
	} {
		all, growing := Growth(leaky(c.memory, c.descriptors), 30*time.Second, 5*time.Minute)
		if len(all) != 4 || len(growing) != len(c.want) || len(growing) > 0 && !strings.Contains(growing[0], c.want[0]) {
			t.Errorf("%s: growing %q of %q", name, growing, all)
		}
	}
}
