package dataplane_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// model is a data plane between two route servers and a disk, all of which misbehave, together with a naive notion of what may
// happen: it knows which tables were ever served, and not how the client works.
type model struct {
	t        *testing.T
	w        *world
	c        *dataplane.Client
	dir      string // of the last-known-good file
	trace    []string
	revision uint64 // of the newest table
	served   map[table.Digest]*table.Table

	diskGone bool      // a file is in place of the state folder
	diskOld  bool      // a table was applied while it was missing
	applied  servedLog // by this process
	fine     time.Time // when a poll last ended with a table that nothing holds back
	resumed  bool      // a hold may be resumed that no poll has shown yet
	accepted bool      // in this step
	lower    [2]int    // consecutive answers with a table that is older than that of the client
	insisted bool      // one of them has reached two since the last newer table
}

func newModel(t *testing.T) *model {
	m := &model{t: t, w: newWorld(t, 2), served: make(map[table.Digest]*table.Table), revision: 100}
	m.dir = filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m.w.cfg.StateDir = m.dir
	net := network{}
	for i, s := range m.w.servers {
		net[string(rune('a'+i))] = m.watch(i, s)
	}
	m.w.cfg.Transport = net
	m.w.cfg.Guard.Hold = modelHold
	m.c = m.w.client()
	return m
}

func (m *model) failf(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

// watch checks the requests of the client, and counts how often a server sends an older table.
func (m *model) watch(i int, s *routeServer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, cur := m.c.Status(), m.c.Current()
		for name := range strings.SplitSeq(r.Header.Get("If-None-Match"), ", ") {
			known := name == "" || cur != nil && strings.Contains(name, cur.Digest().String()) ||
				status.Held != nil && strings.Contains(name, status.Held.Digest.String())
			if !known {
				m.t.Errorf("a request names %s, which is neither applied nor held", name)
			}
		}
		s.ServeHTTP(w, r)
		if r.Method == http.MethodHead {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		older := cur != nil && s.table != nil && s.table.Revision() < cur.Revision() && s.table.Digest() != cur.Digest()
		if !older || s.answer != nil {
			m.lower[i] = 0
			return
		}
		if m.lower[i]++; m.lower[i] >= 2 {
			m.insisted = true
		}
	}
}

// step does one thing and checks that everything is as allowed.
func (m *model) step(op, arg byte) {
	m.t.Helper()
	before := m.c.Current()
	m.accepted = false
	switch op % 10 {
	case 0, 1:
		m.publish(int(arg>>7), arg&0x7f)
	case 2:
		m.note("both servers have the newest table")
		m.catchUp()
	case 3, 4:
		m.note("poll")
		m.poll()
	case 5:
		m.fault(arg)
	case 6:
		m.restart(arg&1 != 0, false)
		before = nil
	case 7:
		m.note("%d s pass, with polls", arg%100)
		for range arg % 100 / 10 {
			time.Sleep(10 * time.Second)
			m.poll()
		}
	case 8:
		m.disk()
	case 9:
		if arg%3 == 2 {
			m.restart(false, m.tear(int64(arg)))
			before = nil
			break
		}
		m.odd(arg)
	}
	m.check(before)
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

// publish gives a server a new table with a selection of seven routes.
func (m *model) publish(i int, choice byte) {
	var ids []string
	for bit := range 7 {
		if choice&(1<<bit) != 0 {
			ids = append(ids, string(rune('a'+bit)))
		}
	}
	m.revision++
	tab := newTable(m.t, m.revision, ids...)
	m.served[tab.Digest()] = tab
	m.w.servers[i].set(tab)
	m.note("server %d has %v at %d", i, ids, m.revision)
}

func (m *model) catchUp() {
	a, b := m.w.servers[0], m.w.servers[1]
	switch {
	case a.table == nil || b.table != nil && b.table.Revision() > a.table.Revision():
		a.set(b.table)
	default:
		b.set(a.table)
	}
}

// poll makes a round and records whether the client considers its table fine.
func (m *model) poll() {
	before := m.c.Current()
	err := m.c.Poll(m.t.Context())
	synctest.Wait() // for retried writes
	cur := m.c.Current()
	m.guarded(before, cur)
	held := m.c.Status().Held != nil
	m.resumed = m.resumed && !held && cur == before
	if cur != nil && err == nil && !held && !m.resumed {
		m.fine = time.Now()
	}
}

// guarded checks the guard. An acceptance and a restart clear its memory.
func (m *model) guarded(before, cur *table.Table) {
	if cur == nil {
		return
	}
	switch {
	case before == nil:
		m.applied = nil
		if cur.Len() == 0 {
			m.failf("an empty table was applied without an operator's acceptance")
		}
	case len(m.applied) == 0 || m.applied[len(m.applied)-1].table != before:
		m.applied = servedLog{{table: before}}
	}
	if wrong := m.applied.add(cur, m.fine); wrong != "" {
		m.failf("%s", wrong)
	}
}

// fault makes one server, or both, answer one poll badly.
func (m *model) fault(arg byte) {
	kind, both, size := arg%8, arg&0x80 != 0, int(arg>>3)
	m.note("fault %d, both %v, size %d", kind, both, size)
	for i, s := range m.w.servers {
		if both || i == int(arg>>6&1) {
			s.fail(m.badAnswer(kind, size, s.table))
		}
	}
	m.poll()
	for _, s := range m.w.servers {
		s.fail(nil)
	}
}

func (m *model) badAnswer(kind byte, size int, tab *table.Table) http.HandlerFunc {
	if tab == nil {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	}
	text := tab.Text()
	lines := strings.SplitAfter(string(text), "\n")
	half := []byte(strings.TrimSuffix(strings.Join(lines[:len(lines)/2], ""), "\n"))
	send := func(w http.ResponseWriter, body []byte, length int) {
		w.Header().Set("Etag", etagOf(tab, ""))
		w.Header().Set("X-Revision", strconv.FormatUint(tab.Revision(), 10))
		if length >= 0 {
			w.Header().Set("Content-Length", strconv.Itoa(length))
		}
		_, _ = w.Write(body)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		switch kind {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1:
			hang(w, r)
		case 2: // broken off
			send(w, text[:min(size*8, max(0, len(text)-1))], len(text))
		case 3: // broken off, without a length
			send(w, half, -1)
		case 4: // half a table that claims to be complete
			send(w, half, len(half))
		case 5: // a routing table of somebody else, under this name
			send(w, []byte(`evil: * -> "http://192.0.2.1";`), -1)
		case 6:
			w.Header().Set("Content-Encoding", "zstd")
			send(w, encode("zstd", text)[:size], -1)
		default:
			w.Header().Set("Etag", `"`+strings.Repeat("0", 64)+`"`)
			w.WriteHeader(http.StatusNotModified)
		}
	}
}

// restart ends the process and starts it again; servers may be down meanwhile, and the file may be truncated.
func (m *model) restart(away, torn bool) {
	m.note("restart, servers away %v", away)
	before, held := m.c.Current(), m.resumed || m.c.Status().Held != nil
	m.c = m.w.client()
	got := m.c.Boot()
	intact := !m.diskGone && !m.diskOld && !torn
	switch {
	case intact && before != nil && (got == nil || got.Digest() != before.Digest()):
		m.failf("booted with %v, want what was applied:\n%s", got, before.Text())
	case intact && before == nil && got != nil:
		m.failf("booted with a table that was never applied")
	case torn && got != nil:
		m.failf("booted with a file that is torn")
	}
	m.lower, m.insisted, m.resumed = [2]int{}, false, held // a hold that was resumed keeps its end
	if !held {
		m.fine = time.Now()
	}
	m.diskOld = m.diskGone
	if away {
		for _, s := range m.w.servers {
			s.status(http.StatusBadGateway)
		}
		m.poll()
		for _, s := range m.w.servers {
			s.fail(nil)
		}
	}
}

// disk puts a file in place of the state folder, or restores the folder.
func (m *model) disk() {
	away, err := m.dir+".gone", error(nil)
	if m.diskGone {
		err = errors.Join(os.Remove(m.dir), os.Rename(away, m.dir))
	} else { // a missing folder would be created again
		err = errors.Join(os.Rename(m.dir, away), os.WriteFile(m.dir, nil, 0o600))
	}
	m.diskGone = !m.diskGone
	m.note("disk away %v", m.diskGone)
	if err != nil {
		m.failf("%v", err)
	}
	if m.diskGone {
		m.diskOld = true // tables applied from now on are not in the file
	}
}

// odd does rare things.
func (m *model) odd(arg byte) {
	switch arg % 3 {
	case 0:
		m.revision -= min(m.revision-1, 50)
		m.publish(0, arg|0x0f)
		m.catchUpTo(0)
		m.note("the cluster was restored: it is at %d", m.revision)
	case 1:
		held := m.c.Status().Held
		tab, err := m.c.Accept(publish.Acceptance{Digest: heldBy(m.c)})
		synctest.Wait() // for the disk
		m.note("accept: %v", err)
		if (held == nil) != (err != nil) || err == nil && tab.Digest() != held.Digest {
			m.failf("accepted %v (%v), held was %v", tab, err, held)
		}
		if m.accepted = err == nil; m.accepted {
			m.fine = time.Now()
		}
	}
}

// tear truncates the file, if it exists.
func (m *model) tear(share int64) bool {
	path := filepath.Join(m.dir, "table.eskip")
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	size := info.Size() * share / 256
	m.note("the file is torn at %d of %d", size, info.Size())
	if err := os.Truncate(path, size); err != nil {
		m.failf("%v", err)
	}
	return true
}

func (m *model) catchUpTo(i int) { m.w.servers[1-i].set(m.w.servers[i].table) }

// check checks the invariants.
func (m *model) check(before *table.Table) {
	m.t.Helper()
	cur := m.c.Current()
	if cur == nil {
		if before != nil {
			m.failf("the table is gone")
		}
		return
	}
	was, ok := m.served[cur.Digest()]
	if !ok || string(was.Text()) != string(cur.Text()) {
		m.failf("no server has ever had\n%s", cur.Text())
	}
	if before != nil && cur.Revision() < before.Revision() && !m.insisted && !m.accepted {
		m.failf("went from %d to %d, and no server insisted", before.Revision(), cur.Revision())
	}
	if before != nil && cur.Revision() > before.Revision() {
		m.insisted = false
	}
	if m.diskGone {
		return
	}
	data, err := os.ReadFile(filepath.Join(m.dir, "table.eskip"))
	if os.IsNotExist(err) && m.diskOld {
		return
	}
	onDisk, _, err := table.ReadFile(bytes.NewReader(data))
	if err != nil || m.served[onDisk.Digest()] == nil {
		m.failf("the file has what no server has ever had (%v):\n%s", err, data)
	}
	if onDisk.Digest() == cur.Digest() {
		m.diskOld = false
	} else if !m.diskOld {
		m.failf("the file has\n%s\nand the client\n%s", onDisk.Text(), cur.Text())
	}
}

// heal repairs everything: then the client has what the servers have, in memory and on disk.
func (m *model) heal() {
	if m.diskGone {
		m.disk()
	}
	m.publish(0, 0x7f)
	m.catchUpTo(0)
	for range 4 { // a restored cluster is believed the second time, and a failed write is retried after 30 s
		time.Sleep(time.Minute)
		m.poll()
	}
	m.check(m.c.Current())
	holds(m.t, m.c, m.w.servers[0].table)
	fileHolds(m.t, filepath.Join(m.dir, "table.eskip"), m.w.servers[0].table)
}

func runModel(t *testing.T, script []byte) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t)
		for i := 0; i+1 < len(script) && i < 200; i += 2 {
			m.step(script[i], script[i+1])
		}
		m.heal()
	})
}

// FuzzModel runs the model with any script.
func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 0x7f, 3, 0, 5, 0x82, 3, 0, 6, 1, 3, 0})
	f.Add([]byte{0, 0x7f, 3, 0, 0, 0x01, 7, 99, 7, 99})
	f.Add([]byte{0, 0x7f, 3, 0, 9, 0, 3, 0, 3, 0, 6, 0})
	f.Add([]byte{0, 0x7f, 3, 0, 8, 0, 0, 0x6f, 3, 0, 8, 0, 6, 0, 3, 0})
	f.Add([]byte{0, 0x7f, 3, 0, 9, 0x83, 6, 1, 3, 0})
	f.Add([]byte{0, 0x7f, 3, 0, 0, 0, 3, 0, 9, 1, 3, 0, 5, 0x84, 5, 0x87, 3, 0})
	f.Fuzz(func(t *testing.T, script []byte) { runModel(t, script) })
}
