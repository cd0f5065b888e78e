package etagcache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// fleet is two route servers with various clients, to which the events of a history happen.
type fleet struct {
	*cluster
	members []*member
	proxies []*proxy
}

func newFleet(tb testing.TB) *fleet {
	f := &fleet{cluster: newCluster(tb)}
	for range 2 {
		f.members = append(f.members, newMember(f.cluster))
	}
	for i, path := range []string{"/routes", "/routes", "/routes/z", "/routes/z"} {
		f.proxies = append(f.proxies, &proxy{cluster: f.cluster, path: path, updates: i%2 == 1, addr: fmt.Sprintf("192.0.2.%d:1", i)})
	}
	return f
}

// happen plays one event.
func (f *fleet) happen(event byte) {
	arg := int(event >> 4)
	m, kind := f.members[arg&1], arg>>1%kinds
	switch event & 15 {
	case 0, 1:
		f.write(kind, true)
	case 2:
		f.write(kind, false)
	case 3:
		f.revision++
	case 4:
		m.advance(kind, false)
	case 5:
		m.advance(kind, true)
	case 6:
		m.begin()
	case 7, 8:
		m.list()
	case 9:
		m.end()
	case 10:
		m.pollNow()
	case 11:
		switch {
		case arg < 4:
			m.held = !m.held
		case arg < 8:
			m.restart(arg < 6)
		case arg == 15:
			f.goBack()
		}
	default:
		f.proxies[arg>>1%len(f.proxies)].ask(m)
	}
}

// goBack restores etcd to half of what was written since the beginning. The API servers restart with it.
func (f *fleet) goBack() {
	f.restore(100 + kinds + (f.revision-100-kinds)/2)
	for _, m := range f.members {
		m.abort()
		for k, log := range f.log {
			m.caches[k] = cacheOfKind{len(log) - 1, f.revision}
		}
	}
}

// rest lets everything settle: no more writes, caches that have caught up, and two polls of each replica.
func (f *fleet) rest() {
	for _, m := range f.members {
		m.abort()
		m.held = false
		for k := range kinds {
			m.advance(k, true)
		}
	}
	for range 2 {
		for _, m := range f.members {
			m.pollNow()
		}
		for _, c := range f.proxies {
			for _, m := range f.members {
				c.ask(m)
			}
		}
	}
}

// check checks the end of a history against the expected outcome.
func (f *fleet) check() {
	f.tb.Helper()
	back, older := 0, 0.0
	for _, m := range f.members {
		older += m.older()
	}
	for _, c := range f.proxies {
		want := f.now()
		if c.path == "/routes/z" {
			want[2], want[3] = -1, -1
		}
		if c.holds != want {
			f.tb.Fatalf("%s (updates: %v) holds %v under %s in the end, the source has %v", c.path, c.updates, c.holds, c.etag, want)
		}
		back += c.back
	}
	if older < float64(back) || older > 0 && !f.restored {
		f.tb.Fatalf("%v answers were counted as older, %d were; restored: %v", older, back, f.restored)
	}
}

// Whatever caches, reads and clients do in any order, no client is sent to a table that is older in any kind than its own. When
// the source is quiet, all clients have the current table.
func TestNobodyIsSentBackByCachesThatLag(t *testing.T) {
	histories, events := 300, 600
	if testing.Short() {
		histories = 30
	}
	var fetched, claims int
	for seed := range histories {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		f := newFleet(t)
		for range events {
			event := byte(rng.Uint32())
			if event&15 == 11 && (rng.IntN(8) > 0 || event>>4 == 15 && seed%3 > 0) {
				event = 12 | event&0xf0 // holds, restarts and restores are rare
			}
			f.happen(event)
		}
		f.rest()
		f.check()
		for _, c := range f.proxies {
			fetched += c.fetched
		}
		for _, m := range f.members {
			for _, metrics := range m.metrics {
				claims += int(testutil.ToFloat64(metrics.Claims))
			}
		}
	}
	if fetched < 10*histories || claims < histories {
		t.Errorf("%d downloads and %d claims in %d histories: the test tests nothing", fetched, claims, histories)
	}
	t.Logf("%d downloads, %d claims", fetched, claims)
}

// FuzzOrder plays histories from the fuzzer; each byte is one event.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0x20, 0x45, 0x0a, 0x1a, 0x0c, 0x1c, 0x0d})
	f.Add([]byte{0x00, 0x06, 0x07, 0x30, 0x17, 0x09, 0x0c, 0x1c, 0x1a, 0x2c, 0x3c})
	f.Add([]byte{0x0c, 0x00, 0x05, 0x0a, 0x0c, 0xfb, 0x0a, 0x0c, 0x0a, 0x0c})
	f.Fuzz(func(t *testing.T, events []byte) {
		if len(events) > 300 {
			t.Skip("long histories find nothing that short ones do not")
		}
		fleet := newFleet(t)
		for _, event := range events {
			fleet.happen(event)
		}
		fleet.rest()
		fleet.check()
	})
}
