package board

import (
	"fmt"
	"time"

	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/api"
)

const (
	// maxAge is how old the last read of a source may be.
	maxAge = time.Minute
	// settling is the time after the start of a data plane that need not be clean: its two sides begin at different moments.
	settling = 15 * time.Minute
)

// judged returns the document of a cluster with its state. The caller holds the mutex of the board.
func (c *cluster) judged(now time.Time) api.BoardCluster {
	d := c.doc
	var bad, notice []string
	switch t := d.Table; {
	case !d.AwaySince.IsZero():
		d.State, d.Why = api.BoardAway, nil
		return d
	case d.Asked.IsZero():
		d.State = api.BoardAsking
		return d
	case t == nil:
		bad = append(bad, "no table yet")
	case t.Stale:
		bad = append(bad, "serves a table that no read has confirmed")
	case !t.LastRead.IsZero() && now.Sub(t.LastRead) > maxAge:
		bad = append(bad, "its source was not read for "+now.Sub(t.LastRead).Truncate(time.Second).String())
	case t.Held:
		bad = append(bad, "holds a table back")
	}
	if d.Kept > 0 {
		notice = append(notice, fmt.Sprintf("keeps %d objects", d.Kept))
	}
	if n := d.Clients[string(fleet.Rejected)]; n > 0 {
		notice = append(notice, fmt.Sprintf("%d clients rejected a table", n))
	}
	if d.Pre != nil && d.Pre.Differ > 0 {
		notice = append(notice, fmt.Sprintf("%d data planes in Pre show a difference", d.Pre.Differ))
	}
	d.Why = append(bad, notice...)
	switch {
	case len(bad) > 0:
		d.State = api.BoardBad
	case len(notice) > 0:
		d.State = api.BoardNotice
	default:
		d.State = api.BoardGood
	}
	return d
}

// pre collects how the data planes in mode Pre compare.
type pre struct {
	cleanFor      time.Duration
	doc           api.BoardPre
	oldest, dirty float64 // the longest and the shortest clean time; dirty counts only where it shows a difference in the period
	isDirty       bool
}

// add counts a client. A data plane that started within the period is clean if it has been since then, apart from its first minutes:
// pods are replaced all the time.
func (p *pre) add(c *fleet.Client) {
	if c.Mode != "Pre" {
		return
	}
	p.doc.Planes++
	r := c.Pre
	if r == nil {
		return
	}
	p.doc.Reported++
	if r.Ready {
		p.doc.Ready++
	}
	if r.Differences > 0 {
		p.doc.Differ++
	}
	p.oldest = max(p.oldest, r.CleanSeconds)
	if r.Differences > 0 || r.CleanSeconds+settling.Seconds() < min(p.cleanFor.Seconds(), r.Seconds) {
		if !p.isDirty || r.CleanSeconds < p.dirty {
			p.dirty = r.CleanSeconds
		}
		p.isDirty = true
	}
}

// result returns the summary of a cluster whose clients have these modes.
func (p *pre) result(modes map[string]int) *api.BoardPre {
	d := &p.doc
	if d.CleanSeconds = p.oldest; p.isDirty {
		d.CleanSeconds = p.dirty
	}
	switch wanted := p.cleanFor; {
	case d.Planes == 0 && modes["Exec"] > 0 && modes["False"] == 0:
		d.Clean = true // the cutover is done
	case d.Planes == 0:
		d.Reason = "no data plane is in Pre"
	case d.Reported < d.Planes:
		d.Reason = fmt.Sprintf("%d of %d data planes in Pre do not say how their tables compare", d.Planes-d.Reported, d.Planes)
	case d.Differ > 0:
		d.Reason = fmt.Sprintf("%d of %d data planes in Pre show a difference", d.Differ, d.Planes)
	case d.CleanSeconds+settling.Seconds() < wanted.Seconds():
		d.Reason = fmt.Sprintf("clean for %v of %v", time.Duration(d.CleanSeconds*float64(time.Second)).Truncate(time.Minute), wanted)
	default:
		d.Clean = true
	}
	return d
}
