package console

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

const (
	maxChanges = 500            // entries of the time line
	dayShown   = 24 * time.Hour // before now
)

// changesView is the history of what is served.
type changesView struct {
	Entries []api.HistoryEntry // the newest first
	Marks   []mark
}

// mark is an entry of the last day, as a part of the width of the time line.
type mark struct {
	At, Tone string
	Title    string
}

// newChangesView returns the history, or nil if the server has none.
func (c *Console) newChangesView(now time.Time) *changesView {
	if c.cfg.History == nil {
		return nil
	}
	v := &changesView{Entries: c.cfg.History(maxChanges)}
	for _, e := range v.Entries {
		age := now.Sub(e.At)
		if age < 0 || age > dayShown {
			continue
		}
		m := mark{At: fmt.Sprintf("%.2f%%", 100*(1-age.Seconds()/dayShown.Seconds())), Tone: neutral, Title: fmt.Sprintf("entry %d at %s", e.N, e.At.UTC().Format("15:04:05"))}
		for _, d := range e.Decisions {
			switch {
			case d.What == api.DecidedHeld:
				m.Tone = bad
			case m.Tone != bad:
				m.Tone = notice
			}
		}
		v.Marks = append(v.Marks, m)
	}
	return v
}
