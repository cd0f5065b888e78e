package publish

import (
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

// Boot serves the table of the last-known-good file, marked stale, and resumes the holds and kept objects of an earlier
// process. limit is the maximum size of the table in bytes; names returns the ETags that servers have for it, and may be nil.
// Call Boot before the first offer. Boot never fails, and never blocks on the path: anything but a whole file of ours is set
// aside, or left alone if that is impossible.
func (p *Publisher) Boot(limit int64, names func(*table.Table) []string) {
	f := p.file
	if f.cfg.Path == "" || p.Served() != nil {
		return
	}
	t, meta, err := f.load(limit + maxHeader)
	if err != nil { // the path is unusable, so no table
		f.wrote(err, false)
		return
	}
	s := f.readState()
	kept := p.keptFile.load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeOver(kept) // also without a table
	if t == nil {
		return
	}
	p.log.Info(LogFileLoaded, "file", f.cfg.Name, "path", f.cfg.Path, "count", t.Len(), "bytes", t.Bytes(), "hash", t.Digest().String(),
		"revision", t.Revision(), "saved", meta.Saved, "origin", meta.Origin)
	c := Candidate{Table: t, Origin: meta.Origin, Sent: t.Digest()}
	if names != nil {
		c.Names = names(t)
	}
	c.Read.At = s.readOf(meta, time.Now())

	p.cfg.Canary.Sink.Restore(c.Table, c.Read.At)
	p.cfg.Sink.Restore(c.Table, c.Read.At)
	p.canary.Store(c.Table)
	p.served.Store(&Served{Candidate: c, Committed: time.Now(), Stale: true})
	close(p.ready)
	f.mu.Lock()
	f.want = content{table: t, origin: meta.Origin, saved: meta.Saved, read: c.Read.At}
	f.disk = f.want
	f.mu.Unlock()
}

// takeOver continues with the entries of another process, except ended ones for the whole table, which must not release a
// later loss. The caller holds mu.
func (p *Publisher) takeOver(list keptList) {
	now := time.Now()
	list = list.where(func(k *Kept) bool { return k.Kind != kindTable || !k.over(now) })
	if tables := list.tables(); len(tables) > 0 {
		p.log.Warn("hold of the previous process continues", "reason", string(tables[0].Reason), "since", tables[0].Since)
	}
	if p.policy.builder == nil {
		list = list.tables()
	}
	if objects := list.objects().others(); len(objects) > 0 {
		p.log.Warn("objects that the previous process kept stay kept", "count", len(objects), "objects", objects.names())
	}
	p.show(&standing{list: list, digest: list.objects().acceptable().digest()})
}

// TakeOver keeps what another replica keeps, so that the first table of this process includes it. Call it before the first
// offer. A process that has entries takes over only freezes and pins: an operator may have changed them while it was down.
func (p *Publisher) TakeOver(list []*Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy.builder == nil {
		return
	}
	theirs := keptList(list).sorted()
	if own := p.standing.Load().list; len(own) > 0 {
		theirs = own.where(func(k *Kept) bool { return !steered(k.Reason) }).and(theirs.where(func(k *Kept) bool { return steered(k.Reason) }))
	}
	p.takeOver(theirs)
}

// Adopt sets what the other replicas keep: an object that a guard keeps there is also kept here if it is lost here, since an
// accident may exceed the limits of only one replica. A change soaks here from the same time on as there, so that all promote
// it together.
func (p *Publisher) Adopt(list []*Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers, p.theirs = keptList(Accidents(list)).sorted(), make(map[kube.Ref][]*Kept)
	for _, k := range keptList(list).soaking() {
		p.theirs[k.Ref] = append(p.theirs[k.Ref], k)
	}
}

// Accidents returns the entries of Ingresses and RouteGroups that the guard keeps because they were lost.
func Accidents(list []*Kept) []*Kept {
	return keptList(list).where(func(k *Kept) bool {
		return k.By == keptBy && (k.Kind == kube.KindIngress || k.Kind == kube.KindRouteGroup) && k.Reason.Loses()
	})
}

// Tend retries failed writes, and records from time to time when the served table was read. A producer calls it after each
// attempt.
func (p *Publisher) Tend() {
	p.mu.Lock() // otherwise this write could come after the write of a newer table
	defer p.mu.Unlock()
	if s := p.served.Load(); s != nil {
		p.file.tend(s.Table, s.Read.At)
	}
}

// Flush writes what the last-known-good file lacks, and waits a limited time for that. Call it when the process ends.
func (p *Publisher) Flush() {
	p.mu.Lock() // Accept may be running
	defer p.mu.Unlock()
	if s := p.served.Load(); s != nil {
		p.file.update(func(want *content) { want.shown(s.Table, s.Read.At) })
	}
	p.file.flush()
	p.file.wait()
}

// Prove writes a table with which a proxy has run to the last-known-good file: see FileConfig.Unproven. A sink may be
// running. Call it after Boot.
func (p *Publisher) Prove(c Candidate) { p.file.prove(c) }

// File returns the state of the last-known-good file; nil if there is none.
func (p *Publisher) File() *api.File { return p.file.status() }
