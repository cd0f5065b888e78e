// Package model_test runs a cluster, a route server, a relay and a data plane with disks that fail, and compares what clients are served
// with a model that does not know how a publish.Publisher works.
package model_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/test/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a cluster, a route server that reads it, a relay of that route server and a data plane behind the relay. Each has a
// disk, and each can fail. The model knows what the cluster had at each read and what clients of the three were served. It does
// not know how a Publisher works.
type model struct {
	t       *testing.T
	mu      sync.Mutex // see handOver
	world   *world
	network *loopback.Network
	levels  [3]*level
	parsed  map[string]*seen // served tables by digest
	trace   []string
	planted mistake
	wrong   *violation // the first

	generated, polling bool
	panics             string // where the route server panics; empty for nowhere
	rechecks           [3]func()
	own                bool // the route server has served a complete read since it started
	reads              int  // complete reads that were checked
	restores           int  // how often the source was restored
	cut                int  // samples for which the network will be down
}

// violation is a guarantee that did not hold.
type violation struct{ guarantee, text string }

// mistake is what a planted defect changes.
type mistake struct {
	publisher func(*publish.Config) // of the route server
	partial   bool                  // a failed read returns half of the cluster
	request   func(*http.Request)   // of the data plane
	restart   func(*level)          // after a process stops, before the next one starts
}

func (m *model) violates(guarantee, format string, args ...any) {
	if m.wrong == nil {
		m.wrong = &violation{guarantee, fmt.Sprintf(format, args...) + "\nafter\n" + strings.Join(m.trace, "\n")}
	}
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// newModel starts all parts. The bits of options are settings of operators.
func newModel(t *testing.T, options byte, planted mistake) *model {
	m := &model{t: t, world: newWorld(), network: &loopback.Network{}, parsed: make(map[string]*seen), planted: planted,
		generated: options&1 == 0, polling: options&2 != 0}
	m.world.partial = planted.partial
	for i := range m.levels {
		m.levels[i] = &level{name: levelNames[i], home: filepath.Join(t.TempDir(), "state"), served: make(map[string]time.Time), watch: watchman{maxLoss: 0.5}}
		m.levels[i].away = m.levels[i].home + ".away"
		if err := os.Mkdir(m.levels[i].home, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m.levels[relayed].watch.maxLoss = 1
	w := &m.levels[root].watch
	w.manual = options&8 != 0
	if options&16 != 0 {
		w.maxRoutes = 46
	}
	m.note("generated routes %v, polling %v, manual %v, ceiling %d", m.generated, m.polling, w.manual, w.maxRoutes)
	for i := range m.levels {
		m.begin(i, nil)
	}
	m.pass(6)
	return m
}

func (m *model) end() {
	for _, l := range m.levels {
		m.network.Set(l.name, nil)
		m.network.Cut(l.name)
	}
	for _, l := range m.levels {
		l.stop()
	}
	m.network.Wait()
}

// pass lets time pass, and checks all levels once a second.
func (m *model) pass(seconds int) {
	for range seconds {
		if m.cut > 0 {
			if m.cut--; m.cut == 0 {
				m.connect(true)
			}
		}
		m.handOver()
		time.Sleep(sampling)
		synctest.Wait()
		m.handOver()
		m.sample()
		if m.wrong != nil {
			return
		}
	}
}

// handOver is where the processes and the script take turns. The script touches what both use only while no time passes; the
// processes touch it under mu.
func (m *model) handOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
}

func (m *model) sample() {
	for i := range m.levels {
		m.sampleLevel(i)
	}
}

// sampleLevel reads a level, and compares what it serves with what the oracle knows.
func (m *model) sampleLevel(i int) {
	l := m.levels[i]
	before := l.watch.now
	m.look(l)
	if l.now != nil {
		l.served[l.now.digest] = time.Now()
		m.guarded(l)
	}
	m.looksAtFile(l)
	if i == root {
		m.liveRoot(l, before)
	} else {
		m.liveBehind(l, m.levels[i-1])
	}
}

func (m *model) guarded(l *level) {
	decision := ""
	if w := l.watch.now; w == nil || w.digest != l.now.digest {
		decision = l.newDecision(l.now.digest)
	}
	switch released, why := l.watch.sees(l.now, decision == api.DecidedAccepted); {
	case why != "" && !released:
		m.violates("Guarded", "the %s: %s", l.name, why)
	case released && decision == "":
		m.violates("Recorded", "the %s released %s without a record: %s", l.name, l.now.digest, why)
	case decision != "":
		l.watch.restart(l.now) // also if the oracle was more generous than the guard
	}
}

// liveRoot compares what the route server serves after a read with that read.
func (m *model) liveRoot(l *level, before *seen) {
	fresh := len(m.world.reads) > m.reads
	m.reads = len(m.world.reads)
	switch {
	case !fresh || m.panics != "":
		return
	case l.now == nil:
		l.watch.shows(false)
		return
	}
	read := m.world.newest()
	has, want := contentOf(l.now), read.content.served()
	whole := has == want
	l.watch.shows(whole)
	if m.own = m.own || whole; !m.own {
		return
	}
	empty := 0
	for i, a := range read.addresses {
		if a == "" && (read.versions[i] != 0 || has.versions[i] != 0) {
			empty++
		}
	}
	for i, version := range has.versions {
		switch now, is := read.addresses[i], has.addresses[i]; {
		case version == 0 || is == now:
		case now != "":
			m.violates("Live", "the root sends requests for %s to %q, its pod is %s\n%s", name(i), is, now, l)
		case empty < 20:
			m.violates("Live", "the root sends requests for %s to %s, which is gone, and only %d services are empty\n%s", name(i), is, empty, l)
		}
	}
	grows := l.watch.maxRoutes > 0 && want.count() > 40
	if before != nil && losesNothing(contentOf(before), want) && !grows && !whole {
		m.violates("Live", "the root serves another table than the last read, which lacks nothing\n%s", l)
	}
}

// liveBehind compares what a level serves with the level above.
func (m *model) liveBehind(l, above *level) {
	if l.now == nil || above.now == nil {
		l.late = 0
		return
	}
	same := l.now.digest == above.now.digest
	l.watch.shows(same)
	if same || m.cut > 0 || m.restores > 0 || !losesNothing(contentOf(l.now), contentOf(above.now)) {
		l.late = 0
		return
	}
	if l.late++; l.late > 12 {
		m.violates("Live", "the table of the %s does not come to the %s, although it lacks nothing\n%s\n%s", above.name, l.name, above, l)
	}
}

// settle repairs everything, and then checks that all levels have the contents of the cluster.
func (m *model) settle() {
	for _, l := range m.levels {
		if l.gone {
			m.disk(l)
		}
	}
	m.step(3, 0)
	m.step(8, 0)
	m.pass(90)
	for _, l := range m.levels {
		if m.wrong == nil && l.publisher.Holding().Held {
			m.acceptAt(l, 0)
		}
		m.pass(20)
	}
	if m.wrong != nil {
		return
	}
	for _, l := range m.levels {
		if l.now == nil || contentOf(l.now) != m.world.content {
			m.violates("Convergent", "%s", l)
		}
	}
}

// play runs a script and returns the first guarantee that did not hold. The first byte of the script has the options.
func play(t *testing.T, script []byte, planted mistake) (wrong *violation) {
	synctest.Test(t, func(t *testing.T) {
		options := byte(0)
		if len(script) > 0 {
			options, script = script[0], script[1:]
		}
		m := newModel(t, options, planted)
		defer m.end()
		for i := 0; i+1 < len(script) && i < 160 && m.wrong == nil; i += 2 {
			m.step(script[i], script[i+1])
		}
		if m.wrong == nil {
			m.settle()
		}
		wrong = m.wrong
	})
	return wrong
}

// FuzzPublish runs the model with any script.
func FuzzPublish(f *testing.F) {
	f.Add([]byte{0, 6, 1, 0, 3, 1, 1, 12, 0, 0, 7})
	f.Add([]byte{2, 2, 0, 0, 5, 14, 20, 3, 0})
	f.Add([]byte{1, 6, 3, 13, 0, 14, 50, 12, 0, 13, 9})
	f.Add([]byte{4, 7, 0, 10, 1, 9, 5, 12, 3, 12, 1, 11, 2, 13, 2})
	f.Add([]byte{24, 8, 0, 15, 8, 6, 2, 14, 59, 15, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		if v := play(t, script, mistake{}); v != nil {
			t.Errorf("%s: %s", v.guarantee, v.text)
		}
	})
}
