package console

import (
	"sync"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/table"
)

// Publishes remembers recently served tables: the last 4096 of the last 24 hours, with about 100 bytes each. The zero value is
// ready to use, and all methods are safe for concurrent use.
type Publishes struct {
	mu   sync.Mutex
	ring []Publish
	next int // position of the next entry, once the ring is full
}

const (
	maxPublishes = 4096
	publishesFor = 24 * time.Hour
)

// Publish is a table that was served.
type Publish struct {
	Time     time.Time // when this server began to serve it
	Digest   table.Digest
	Revision uint64
	Routes   int
	Bytes    int
	// Took is the time from the end of the read that first showed the table until it was served, including the time for which a
	// guard held it. It is negative if the table came from a last-known-good file.
	Took time.Duration
	// Half, Most and All are the times until half, 99 percent and all of the live clients held the table or a newer one; 0 while
	// unknown.
	Half, Most, All time.Duration
}

// Add records a table that is served from now on. stale means that it comes from a last-known-good file. Add never blocks for
// long.
func (p *Publishes) Add(t *table.Table, now time.Time, stale bool) {
	one := Publish{Time: now, Digest: t.Digest(), Revision: t.Revision(), Routes: t.Len(), Bytes: t.Bytes(), Took: -1}
	if !stale {
		one.Took = max(now.Sub(t.Time()), 0)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ring) < maxPublishes {
		p.ring = append(p.ring, one)
		return
	}
	p.ring[p.next] = one
	p.next = (p.next + 1) % maxPublishes
}

// Reached records how long the fleet took to receive tables. It ignores tables that are no longer remembered.
func (p *Publishes) Reached(tables []fleet.Publish) {
	if len(tables) == 0 {
		return
	}
	type name struct {
		digest   table.Digest
		revision uint64
	}
	known := make(map[name]*fleet.Publish, len(tables))
	for i := range tables {
		known[name{tables[i].Digest, tables[i].Revision}] = &tables[i]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.ring {
		if f := known[name{p.ring[i].Digest, p.ring[i].Revision}]; f != nil && near(p.ring[i].Time, f.Time) {
			p.ring[i].Half, p.ring[i].Most, p.ring[i].All = seconds(f.Half), seconds(f.Most), seconds(f.All)
		}
	}
}

// near distinguishes publishes of the same table that was served twice.
func near(a, b time.Time) bool { return b.IsZero() || a.Sub(b).Abs() < 10*time.Second }

func seconds(s *float64) time.Duration {
	if s == nil || !(*s >= 0) || *s > publishesFor.Seconds() {
		return 0
	}
	return max(time.Duration(*s*float64(time.Second)), time.Nanosecond)
}

// Since returns the publishes after a time, the oldest first. The caller owns the slice.
func (p *Publishes) Since(after time.Time) []Publish {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []Publish
	for i := range p.ring {
		one := p.ring[(p.next+i)%len(p.ring)]
		if one.Time.After(after) {
			all = append(all, one)
		}
	}
	return all
}
