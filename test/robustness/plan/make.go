package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Size is the size of a run.
type Size struct {
	Storm    time.Duration
	Servers  int // every other one watches
	Relays   int
	Sidecars int // each with a poller behind it
	Pollers  int // ask servers and relays
	Deltas   int
	Streams  int
	// Every is the average time between the starts of two faults.
	Every time.Duration
	// Lasting are processes that are never killed, so that their resource usage can be followed over time.
	Lasting []string
}

// clientZones are the zones that clients request; empty means the full table.
var clientZones = []string{"", "", "", "eu-1a", "eu-1b"}

// New returns the plan for a seed.
func New(seed uint64, s Size) *Plan {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := &Plan{
		Seed: seed, Storm: s.Storm, Patience: 90 * time.Second, Interval: 250 * time.Millisecond, Asking: 40 * time.Millisecond,
		Timeout: 3 * time.Second, Hold: 3 * time.Second, Window: 5 * time.Second, MaxLoss: 0.5, Rate: 60, Apps: 72, Mass: 6 * time.Second,
	}
	p.members(rng, s)
	if s.Every > 0 {
		p.weather(rng, s)
	}
	p.operators(rng)
	return p
}

// Soak returns the plan of a long run with a large table: three servers, of which one polls, a relay, two sidecars and 300
// clients. What takes seconds in other runs takes minutes here, and most clients keep no texts.
func Soak(seed uint64, storm time.Duration, scale float64) *Plan {
	p := New(seed, Size{
		Storm: storm, Servers: 3, Relays: 1, Sidecars: 2, Pollers: 58, Deltas: 40, Streams: 200, Every: 3 * time.Second,
		Lasting: []string{"s1", "s2", "r1", "d1"},
	})
	p.Scale = scale
	p.Interval, p.Asking, p.Timeout, p.Patience = 3*time.Second, 3*time.Second, 30*time.Second, 5*time.Minute
	p.Hold, p.Window, p.Rate, p.Mass = 10*time.Second, 30*time.Second, 20, 0
	for i, m := range p.Members {
		p.Members[i].Zone = ""
		switch m.Kind {
		case history.Server:
			p.Members[i].Transport = "watch"
			if m.Name == "s1" {
				p.Members[i].Transport = "poll"
			}
		case history.Sidecar:
			p.Members[i].Mode = "Exec" // computing a table costs as much as a server
		case history.Poller, history.Delta, history.Stream:
			p.Members[i].Light = m.Name != "p1" && m.Name != "c1"
		}
	}
	p.Steps = nil
	return p
}

func (p *Plan) members(rng *rand.Rand, s Size) {
	var servers, sources []string
	for i := range max(1, s.Servers) {
		m := history.Member{Name: fmt.Sprintf("s%d", i+1), Kind: history.Server, Transport: []string{"poll", "watch"}[i%2]}
		p.Members = append(p.Members, m)
		servers = append(servers, m.Name)
	}
	sources = slices.Clone(servers)
	for i := range s.Relays {
		m := history.Member{
			Name: fmt.Sprintf("r%d", i+1), Kind: history.Relay, Upstreams: shuffled(rng, servers), Transport: []string{"auto", "poll"}[i%2],
		}
		p.Members = append(p.Members, m)
		sources = append(sources, m.Name)
	}
	for i := range s.Sidecars {
		m := history.Member{
			Name: fmt.Sprintf("d%d", i+1), Kind: history.Sidecar, Upstreams: shuffled(rng, sources)[:1+rng.IntN(len(sources))],
			Mode: []string{"Exec", "Pre", "False", "Exec"}[i%4], Transport: []string{"auto", "poll", "stream", "poll"}[i%4],
			Zone: clientZones[rng.IntN(len(clientZones))],
		}
		if m.Mode != "Exec" {
			m.Zone = "" // a computed table has all zones
		}
		p.Members = append(p.Members, m)
		p.Members = append(p.Members, history.Member{Name: "p-" + m.Name, Kind: history.Poller, Upstreams: []string{m.Name}})
	}
	client := func(kind, prefix string, n int) {
		for i := range n {
			p.Members = append(p.Members, history.Member{
				Name: fmt.Sprintf("%s%d", prefix, i+1), Kind: kind, Upstreams: shuffled(rng, sources), Zone: clientZones[rng.IntN(len(clientZones))],
			})
		}
	}
	client(history.Poller, "p", s.Pollers)
	client(history.Delta, "c", s.Deltas)
	client(history.Stream, "e", s.Streams)
}

func shuffled(rng *rand.Rand, in []string) []string {
	out := slices.Clone(in)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// operators adds the actions of operators: they sometimes accept held tables, and switch modes.
func (p *Plan) operators(rng *rand.Rand) {
	for at := 2 * time.Second; at < p.Storm; at += time.Duration(1+rng.IntN(4)) * time.Second {
		m := p.Members[rng.IntN(len(p.Members))]
		switch m.Kind {
		case history.Server, history.Relay:
			p.Steps = append(p.Steps, Step{At: at, Name: Accept, Member: m.Name})
		case history.Sidecar:
			if rng.IntN(2) == 0 {
				p.Steps = append(p.Steps, Step{At: at, Name: Accept, Member: m.Name})
			} else if m.Zone == "" {
				mode := []string{"False", "Pre", "Exec", "Exec!", "Exec:50%!"}[rng.IntN(5)]
				p.Steps = append(p.Steps, Step{At: at, Name: Mode, Member: m.Name, Mode: mode})
			}
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
}
