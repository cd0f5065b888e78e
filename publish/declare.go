package publish

import (
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// declaredBy separates the scope of a freeze from the entry of the ConfigMap that orders it, in the name of the freeze. No name of an object has it.
const declaredBy = "@"

// declare makes the orders that a read declares those of the list, without those of earlier reads that it no longer declares. The list keeps the
// entries of orders that did not change, and the pins of operators: a command is newer than what Git says. The caller holds mu.
func (p *Publisher) declare(newest Candidate, now time.Time) {
	var orders []Order
	if p.cfg.Declared != nil {
		orders = p.cfg.Declared(newest.Snapshot, now)
	}
	was := p.keeper.list.where(func(k *Kept) bool { return k.Declared != "" && steered(k.Reason) })
	list := p.keeper.list.without(was)
	changed := false
	for _, o := range orders {
		entries, err := keptList(nil).edit(o, now)
		if err != nil {
			continue // it names nothing
		}
		for i, k := range entries {
			if old := was.find(k.Ref); old != nil && old.Declared == k.Declared && old.Detail == k.Detail && old.Until.Equal(k.Until) && sameVersion(old.Object(), k.Object()) {
				entries[i] = old
			}
		}
		entries = entries.where(func(k *Kept) bool { by := list.find(k.Ref); return by == nil || by.Reason != ReasonPin })
		if len(entries) > len(entries.where(func(k *Kept) bool { return was.find(k.Ref) == k })) {
			changed = true
			p.decide(o)
		}
		list = list.and(entries)
	}
	if gone := was.without(list); len(gone) > 0 {
		changed = true
		p.log.Warn(LogSteerOver, "count", len(gone), "objects", gone.names(), "by", gone[0].By, "detail", gone[0].Detail)
		for _, k := range gone {
			d := decisionOf(api.DecidedReleased, newest.Table, keptList{k})
			d.Objects, d.By = k.Detail, k.By
			p.cfg.Decided(d)
		}
	}
	if p.keeper.list = list; changed {
		p.saveKept(list) // on disk before the table
		p.showSteering()
	}
}
