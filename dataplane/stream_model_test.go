package dataplane_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// streamModel is a data plane that follows two route servers over streams, deltas and polls, all of which misbehave, together
// with a naive notion of what may happen: it knows which tables were ever published, and not how the client works.
type streamModel struct {
	t        *testing.T
	s        *stage
	c        *dataplane.Client
	stop     func()
	trace    []string
	revision uint64
	ever     map[table.Digest]*table.Table

	mu       sync.Mutex // the client calls back concurrently
	served   servedLog  // by this process
	fine     time.Time  // when the applied table was last confirmed, or applied
	accepted bool
	bad      string // what a callback has found
}

func newStreamModel(t *testing.T, follow dataplane.UpdateMode) *streamModel {
	m := &streamModel{t: t, s: newStage(t, 2), ever: make(map[table.Digest]*table.Table), revision: 100}
	m.s.cfg.UpdateMode = follow
	m.s.cfg.MaxBytes = 20_000
	m.s.cfg.Guard.Hold = modelHold
	m.s.publish = func(tab *table.Table, _ api.Applied) { m.published(tab) }
	m.s.confirm = func(api.Applied) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.fine = time.Now()
	}
	m.publish(0, 0x7f)
	m.s.origins[1].set(m.s.origins[0].currentLocked())
	m.start()
	return m
}

func (m *streamModel) start() {
	held := m.c != nil && m.c.Status().Held != nil
	m.c = m.s.client()
	m.c.Boot()
	m.mu.Lock()
	if m.served = nil; !held { // a hold that is resumed keeps its end
		m.fine = time.Now()
	}
	if cur := m.c.Current(); cur != nil {
		m.served.add(cur, m.fine)
	}
	m.mu.Unlock()
	m.stop = m.s.run(m.c)
}

func (m *streamModel) failf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

func (m *streamModel) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// published checks the guard: more than half of the routes may be removed only if nothing else was seen for the time of a hold.
func (m *streamModel) published(tab *table.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fine := m.fine
	m.fine = time.Now()
	if wrong := m.served.add(tab, fine); wrong != "" && !m.accepted {
		m.bad = wrong
	}
}

// publish gives a server a new table with a selection of seven routes.
func (m *streamModel) publish(i int, choice byte) {
	var ids []string
	for bit := range 7 {
		if choice&(1<<bit) != 0 {
			ids = append(ids, string(rune('a'+bit)))
		}
	}
	m.revision++
	tab := newTable(m.t, m.revision, ids...)
	m.ever[tab.Digest()] = tab
	m.s.origins[i].set(tab)
	m.note("server %d has %v at %d", i, ids, m.revision)
}

// step does one thing and checks that everything is as allowed.
func (m *streamModel) step(op, arg byte) {
	o := m.s.origins[arg&1]
	host := string(rune('a' + arg&1))
	switch op % 10 {
	case 0, 1, 2:
		m.publish(int(arg&1), arg>>1)
	case 3:
		m.note("the other server has what server %d has", arg&1)
		o.mu.Lock()
		cur := o.currentLocked()
		o.mu.Unlock()
		m.s.origins[1-arg&1].set(cur)
	case 4:
		m.note("%d s pass", arg)
		time.Sleep(time.Duration(arg) * time.Second)
	case 5:
		fate := []string{"cut", "end", "mute", "comments", ""}[arg>>1%5]
		m.note("streams of server %d: %q", arg&1, fate)
		o.doom(fate)
	case 6:
		m.distort(o, arg>>1)
	case 7:
		m.misanswer(o, host, arg>>1)
	case 8:
		m.note("restart")
		m.stop()
		m.start()
	case 9:
		m.odd(o, arg)
	}
	synctest.Wait()
	m.check()
}

// distort makes a server send wrong data over streams.
func (m *streamModel) distort(o *origin, kind byte) {
	m.note("events are distorted: %d", kind%10)
	var last []frame
	o.change(func() {
		o.distort = func(frames []frame) []frame {
			out := m.distorted(kind, slices.Clone(frames), last)
			last = frames
			return out
		}
		if kind%10 == 9 {
			o.distort = nil
		}
	})
}

func (m *streamModel) distorted(kind byte, frames, last []frame) []frame {
	first := &frames[0]
	switch kind % 10 {
	case 0: // a wrong delta
		first.data = strings.Replace(first.data, "10.0.0.1", "192.0.2.1", 1)
	case 1: // another base
		first.data = strings.Replace(first.data, `"base":"`, `"base":"0`, 1)
	case 2: // another order
		slices.Reverse(frames)
	case 3: // one frame is missing
		return frames[:len(frames)-1]
	case 4: // earlier frames again
		return append(last, frames...)
	case 5: // half of a frame
		first.data = first.data[:len(first.data)/2]
	case 6: // another name
		first.id = `"` + strings.Repeat("0", 64) + `"`
	case 7: // too large
		first.data += strings.Repeat(" ", 30_000)
	case 8: // to be fetched
		if first.name == "delta" {
			first.name, first.data = "fetch", ""
		}
	}
	return frames
}

// misanswer makes a server answer requests badly, or not at all.
func (m *streamModel) misanswer(o *origin, host string, kind byte) {
	m.note("server %s answers badly: %d", host, kind%10)
	o.change(func() {
		o.get, o.watch, o.noStreams, o.noDeltas, o.slow = nil, nil, false, false, 0
		switch kind % 10 {
		case 0:
			o.watch = answer(http.StatusTooManyRequests, "Retry-After: 7")
		case 1:
			o.watch = answer(http.StatusNotFound, "Retry-After: 7")
		case 2:
			o.watch, o.get = answer(http.StatusInternalServerError), answer(http.StatusInternalServerError)
		case 3:
			o.watch, o.get = hang, hang
		case 4:
			o.noStreams = true
		case 5:
			o.noDeltas = true
		case 6:
			o.slow = 20 * time.Second
		case 7: // wrong deltas to polls
			o.noStreams, o.get = true, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("A-IM") != "" {
					sendDelta(w, o.currentLocked(), r.Header.Get("If-None-Match"), `{"base":"`+sum("x")+`"}`)
					return
				}
				serveTable(w, r, o.currentLocked(), "")
			}
		}
	})
	m.s.network.Set(host, o)
	if kind%10 == 8 {
		m.s.network.Set(host, nil)
	}
}

func (m *streamModel) odd(o *origin, arg byte) {
	switch arg >> 1 % 4 {
	case 0:
		m.mu.Lock()
		m.accepted = true
		m.mu.Unlock()
		if held := m.c.Status().Held; held != nil {
			_, err := m.c.Accept(publish.Acceptance{Digest: held.Digest}) // which may be another one by now
			m.note("accept: %v", err)
		}
		m.mu.Lock()
		m.accepted = false
		m.mu.Unlock()
	case 1:
		m.note("recheck")
		m.c.Recheck()
	case 2:
		m.note("a server forgets")
		o.change(func() { o.history = o.history[len(o.history)-1:] })
	case 3:
		m.revision -= min(m.revision-1, 50)
		m.note("the cluster was restored")
		m.publish(int(arg&1), arg|0x0f)
	}
}

// check checks the invariants.
func (m *streamModel) check() {
	m.mu.Lock()
	bad := m.bad
	m.mu.Unlock()
	if bad != "" {
		m.failf("%s", bad)
	}
	cur := m.c.Current()
	if cur == nil {
		m.failf("the table is gone")
	}
	if was, ok := m.ever[cur.Digest()]; !ok || string(was.Text()) != string(cur.Text()) {
		m.failf("no server has ever had\n%s", cur.Text())
	}
	if onDisk := m.file(); m.ever[onDisk.Digest()] == nil { // it may lag by the time between two writes
		m.failf("no server has ever had the table of the file\n%s", onDisk.Text())
	}
}

// file returns the table of the last-known-good file.
func (m *streamModel) file() *table.Table {
	data, err := os.ReadFile(fileOf(m.s.cfg))
	if err != nil {
		m.failf("%v", err)
	}
	onDisk, _, err := table.ReadFile(bytes.NewReader(data))
	if err != nil {
		m.failf("%v, the file has\n%s", err, data)
	}
	return onDisk
}

// heal repairs everything: then the client has what the servers have, and follows them.
func (m *streamModel) heal() {
	for i, o := range m.s.origins {
		o.doom("")
		m.distort(o, 9)
		m.misanswer(o, string(rune('a'+i)), 9)
	}
	m.publish(0, 0x7f)
	m.s.origins[1].set(m.s.origins[0].currentLocked())
	after(12 * time.Minute) // the longest rest, a hold, and a preferred server that has to prove itself
	m.check()
	holds(m.t, m.c, m.s.origins[0].currentLocked())
	if onDisk := m.file(); onDisk.Digest() != m.c.Current().Digest() {
		m.failf("the file has\n%s\nand the client\n%s", onDisk.Text(), m.c.Current().Text())
	}
	m.publish(0, 0x3f)
	m.s.origins[1].set(m.s.origins[0].currentLocked())
	if m.s.cfg.UpdateMode == dataplane.Poll {
		time.Sleep(5 * time.Second)
	} else if m.s.origins[0].connected() != 1 || m.s.origins[1].connected() != 0 {
		m.failf("%d and %d streams; %+v", m.s.origins[0].connected(), m.s.origins[1].connected(), m.c.Status())
	}
	synctest.Wait()
	holds(m.t, m.c, m.s.origins[0].currentLocked())
}

func runStreamModel(t *testing.T, script []byte) {
	synctest.Test(t, func(t *testing.T) {
		follow := dataplane.Auto
		if len(script) > 0 {
			follow = []dataplane.UpdateMode{dataplane.Auto, dataplane.Stream, dataplane.Poll}[script[0]%3]
		}
		m := newStreamModel(t, follow)
		defer func() { m.stop() }()
		synctest.Wait()
		for i := 1; i+1 < len(script) && i < 200; i += 2 {
			m.step(script[i], script[i+1])
		}
		m.heal()
	})
}

// FuzzStreamModel runs the model with any script.
func FuzzStreamModel(f *testing.F) {
	f.Add([]byte{0, 0, 0x7e, 6, 0, 0, 0x3e, 4, 3, 5, 0, 4, 60})
	f.Add([]byte{1, 0, 0x7e, 7, 6, 0, 0x3e, 4, 30, 8, 0})
	f.Add([]byte{2, 0, 0x7e, 7, 14, 0, 0x3e, 4, 30, 9, 0})
	f.Add([]byte{0, 0, 0x04, 4, 70, 9, 0, 9, 6, 4, 200})
	f.Fuzz(func(t *testing.T, script []byte) { runStreamModel(t, script) })
}
