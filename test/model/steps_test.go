package model_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// connect takes the network down, or brings it back.
func (m *model) connect(up bool) {
	for _, l := range m.levels {
		if up {
			m.network.Set(l.name, l.cache.Handler())
			continue
		}
		m.network.Set(l.name, nil)
		m.network.Cut(l.name)
	}
}

// step does one thing, and lets a read or two pass.
func (m *model) step(op, arg byte) {
	w, n := m.world, int(arg)
	switch op % 16 {
	case 0:
		m.note("the pod of %s is replaced", name(n%shops))
		w.setPod(n%shops, w.newAddress())
	case 1:
		m.note("every third pod is replaced")
		for i := n % 3; i < shops; i += 3 {
			w.setPod(i, w.newAddress())
		}
	case 2:
		m.emptyServices(n)
	case 3:
		m.note("all services have pods")
		for i := range shops {
			if w.addresses[i] == "" {
				w.setPod(i, w.newAddress())
			}
		}
	case 4:
		m.note("%s is changed", name(n%shops))
		w.setIngress(n%shops, w.versions[n%shops]+1)
	case 5:
		m.note("%s comes or goes", name(n%shops))
		w.setIngress(n%shops, 1-min(1, w.versions[n%shops]))
	case 6:
		m.deleteSome(n)
	case 7:
		m.note("namespace small is lost")
		for i := shops / 2; i < shops; i++ {
			w.setIngress(i, 0)
		}
	case 8:
		m.repair()
	case 9:
		m.note("reads fail for %d s", n%8)
		w.broken = true
		m.pass(n % 8)
		w.broken = false
	case 10:
		m.panics = []string{"compile", "beside", "sink"}[n%3]
		m.note("%s panics for %d s", m.panics, n/3%10)
		if n&64 != 0 {
			m.deleteSome(n / 3)
		}
		m.pass(n / 3 % 10)
		if n >= 128 {
			m.acceptAt(m.levels[root], 0)
		}
		m.panics = ""
	case 11:
		m.disk(m.levels[n%3])
	case 12:
		m.acceptAt(m.levels[n%3], n/3%4)
	case 13:
		m.restart(n%3, n/3%4)
	case 14:
		m.note("%d s pass", n%60)
		m.pass(n % 60)
	case 15:
		m.misfortune(n)
	}
	m.pass(5)
}

func (m *model) emptyServices(n int) {
	share := []int{1, 2, 4, shops}[n%4] // one of every so many is spared
	m.note("services are emptied, all but every %dth", share)
	for i := range shops {
		if share == 1 && i != n/4%shops || share > 1 && i%share == 0 {
			continue
		}
		m.world.setPod(i, "")
	}
}

func (m *model) deleteSome(n int) {
	of := []int{4, 2, 10, 1}[n%4]
	m.note("some Ingresses are deleted, %d", of)
	for i := range shops {
		if of == 1 || of == 2 && i%2 == n/4%2 || of == 4 && i%4 == n/4%4 || of == 10 && (i+n/4)%10 < 6 {
			m.world.setIngress(i, 0)
		}
	}
}

func (m *model) repair() {
	m.note("all Ingresses are there")
	for i := range shops {
		if m.world.versions[i] == 0 {
			m.world.setIngress(i, 1)
		}
	}
}

func (m *model) disk(l *level) {
	m.note("the disk of the %s goes or comes", l.name)
	if err := swapFolder(l.home, l.away, l.gone); err != nil {
		m.t.Fatal(err)
	}
	l.gone = !l.gone
	l.missed.Store(true)
}

// swapFolder moves a folder away and puts a file in its place, because a missing folder would be created again; or it undoes that.
func swapFolder(home, away string, back bool) error {
	if back {
		return errors.Join(os.Remove(home), os.Rename(away, home))
	}
	return errors.Join(os.Rename(home, away), os.WriteFile(home, nil, 0o600))
}

func (m *model) misfortune(n int) {
	if n%8 == 0 && m.restores == 0 {
		m.note("the cluster is restored from a backup")
		m.restores++
		m.world.revision -= 40
		return
	}
	m.note("the network is down for %d s", n%20)
	m.connect(false)
	m.cut = n % 20
	m.pass(m.cut)
	m.cut = 0
	m.connect(true)
}

// acceptAt accepts what a level holds: under the right digest, a wrong one, or none.
func (m *model) acceptAt(l *level, which int) {
	s := l.publisher.Holding()
	a := publish.Acceptance{Digest: s.Digest, By: "model", Why: "test"}
	switch which {
	case 2:
		a.Digest[0] ^= 1
	case 3:
		a.Digest = table.Digest{}
	}
	before := l.publisher.Table()
	m.handOver()
	t, err := m.accept(l, a)
	synctest.Wait()
	m.handOver()
	m.note("the %s is asked to accept %s (%d): %v", l.name, a.Digest.String()[:8], which, err)
	right := s.Held && which < 2
	switch {
	case err == nil && which > 1:
		m.violates("Recorded", "the %s accepts a table that was not named", l.name)
	case err != nil && l.publisher.Table() != before:
		m.violates("Recorded", "the %s refuses an acceptance and serves another table", l.name)
	case err != nil && right && m.panics != "sink":
		m.violates("Recorded", "the %s refuses the acceptance of what it holds: %v", l.name, err)
	case err == nil && !l.recorded(api.DecidedAccepted, t.Digest().String()):
		m.violates("Recorded", "the %s accepts %s without a record", l.name, t.Digest())
	case err == nil:
		if got, _ := parseETag(l.get("").Header().Get("Etag")); got != t.Digest().String() {
			m.violates("Recorded", "the %s serves %s after the acceptance of %s", l.name, got, t.Digest())
		}
	}
}

// accept does what the handler of an acceptance does: a panic counts as an answer, too.
func (m *model) accept(l *level, a publish.Acceptance) (t *table.Table, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			if m.panics != "sink" {
				m.violates("Recorded", "the %s panics when it is asked to accept %s: %v", l.name, a.Digest, v)
			}
		}
	}()
	return l.accept(a)
}

// restart stops a process and starts it again: with its file, with a truncated file, without a file, or without a file but with
// the table of a peer, with which a route server compares its first table.
func (m *model) restart(at, how int) {
	l := m.levels[at]
	m.note("the %s is restarted, with its file, a torn one, none, or none and a peer: %d", l.name, how)
	m.network.Set(l.name, nil)
	m.network.Cut(l.name)
	synctest.Wait()
	last, was := l.cache.Current(), l.now
	l.stop()
	l.watch.differs = time.Time{}
	var peer *table.Table
	switch {
	case how == 1 && !l.gone:
		if info, err := os.Stat(l.file()); err == nil {
			if err := os.Truncate(l.file(), info.Size()*2/3); err != nil {
				m.t.Fatal(err)
			}
		}
	case how > 1 && !l.gone:
		if err := os.RemoveAll(l.file()); err != nil {
			m.t.Fatal(err)
		}
	}
	l.watch.restart(m.onDisk(l, how))
	if how == 3 && at == root && last != nil {
		peer = last
		l.watch.restart(was)
	}
	if how > 0 {
		l.missed.Store(true)
	}
	if at == root {
		m.own = false
	}
	if m.planted.restart != nil {
		m.planted.restart(l)
	}
	m.begin(at, peer)
}

// onDisk returns the table that a level has on its disk when its process has stopped; nil if there is none.
func (m *model) onDisk(l *level, how int) *seen {
	text, err := os.ReadFile(l.file())
	if err != nil || how > 0 {
		return nil
	}
	t, _, err := table.ReadFile(bytes.NewReader(text))
	if err != nil {
		m.violates("File", "the last-known-good file of the %s: %v", l.name, err)
		return nil
	}
	return m.parsed[t.Digest().String()]
}
