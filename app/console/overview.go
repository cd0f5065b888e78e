package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Limits of the lists of the overview.
const (
	maxChanges = 100
	// sourceLate is the age of the last read from which a source is called late. It is late earlier if a read failed.
	sourceLate = 30 * time.Second
)

type tile struct {
	Name, Link string
	Sign, Tone string
	Word       string // the state in one word
	Detail     string
}

type overviewPage struct {
	Tiles    []tile
	State    Server
	Relay    bool
	Accept   string        // command that accepts a held table
	Problems *problemsView // nil on a relay
	Recorded bool          // the server has a history
	Changes  []api.HistoryEntry
	Fleet    fleetView
}

func (c *Console) overview(ctx context.Context, r *http.Request) answer {
	now, s := time.Now(), c.cfg.State()
	b := overviewPage{
		State: s, Relay: c.cfg.Relay, Accept: c.cfg.AcceptCommand + " " + s.Guard.Digest.String() + " --why REASON", Fleet: c.newFleetView(ctx),
	}
	if c.cfg.Problems != nil {
		b.Problems = newProblemsView(c.cfg.Problems(), r.URL.Query())
	}
	if b.Recorded = c.cfg.History != nil; b.Recorded {
		b.Changes = c.cfg.History(maxChanges)
	}
	b.Tiles = tilesOf(s, &b, now)
	return answer{Title: title(b.Tiles), Body: b, Live: true}
}

// title summarises problems for the tab of a browser.
func title(tiles []tile) string {
	for _, tone := range []string{bad, notice} {
		for _, t := range tiles {
			if t.Tone == tone && t.Name != "Problems" {
				return t.Sign + " " + t.Name + " " + t.Word
			}
		}
	}
	return "overview"
}

// newTile returns a tile with the sign of its tone.
func newTile(name, tone, word, detail string) tile {
	signs := map[string]string{good: "✓", notice: "▲", bad: "✕", neutral: "○"}
	return tile{name, "#" + strings.ToLower(name), signs[tone], tone, word, detail}
}

func tilesOf(s Server, b *overviewPage, now time.Time) []tile {
	all := []tile{tableTile(s, now), sourceTile(s, now), guardTile(s, now)}
	if s.Canary != nil {
		all = append(all, canaryTile(s.Canary, now))
	}
	if p := b.Problems; p != nil {
		n, tone := p.Errors+p.Warnings+p.Infos, neutral
		if p.Errors+p.Warnings > 0 {
			tone = notice
		}
		detail := fmt.Sprintf("%s, %s, %d info", plural(p.Errors, "error"), plural(p.Warnings, "warning"), p.Infos)
		t := newTile("Problems", tone, shadowdiff.Grouped(n), detail)
		if n == 0 {
			t = newTile("Problems", good, "none", "every object is served as written")
		}
		all = append(all, t)
	}
	return append(all, fleetTile(&b.Fleet, s.DyingClients))
}

func tableTile(s Server, now time.Time) tile {
	t := s.Table
	switch {
	case t == nil:
		return newTile("Table", bad, "none", "proxies get 404 until the first read")
	case t.Stale:
		return newTile("Table", notice, "stale", shadowdiff.Grouped(t.Routes)+" routes of a last-known-good file, not confirmed by a read yet")
	}
	return newTile("Table", good, shadowdiff.Grouped(t.Routes)+" routes", bytesText(t.Bytes)+", since "+newMoment(s.Since, now).Ago)
}

func sourceTile(s Server, now time.Time) tile {
	last, failures := s.Source.LastSuccess, s.Source.Failures
	read := "last read " + newMoment(last, now).Ago
	switch {
	case last.IsZero() && failures == 0:
		return newTile("Source", neutral, "not read yet", "the first read is in progress")
	case failures > 0:
		return newTile("Source", bad, "failing", plural(failures, "failure")+"; "+read)
	case now.Sub(last) > sourceLate:
		return newTile("Source", notice, "late", read)
	}
	return newTile("Source", good, "fresh", read)
}

func guardTile(s Server, now time.Time) tile {
	if g := s.Guard; g.Held {
		return newTile("Guard", bad, "held", text(string(g.Reason))+", since "+newMoment(g.Since, now).Ago)
	}
	for _, w := range s.Warnings {
		if w.What != api.WarnDeaths {
			t := newTile("Guard", notice, "harm published", cut(w.Text, 100))
			t.Link = "#warnings"
			return t
		}
	}
	return newTile("Guard", good, "open", "the newest read is served")
}

func canaryTile(c *api.Canary, now time.Time) tile {
	t := tile{"Canary", "#canary", "✓", good, "nothing soaks", "each change soaks for " + short(time.Duration(c.SoakSeconds*float64(time.Second)))}
	if c.Count > 0 {
		t.Word, t.Sign, t.Tone = plural(c.Count, "object")+" on the canary", "●", neutral
		t.Detail = "next promotion " + newMoment(c.NextPromotion, now).Ago
		if c.NextPromotion.IsZero() {
			t.Detail = "nothing is promoted before a verdict"
		}
	}
	switch v := c.Verdict; {
	case c.Halted > 0:
		t.Sign, t.Tone, t.Word = "▲", notice, fmt.Sprintf("%d of %s halted", c.Halted, plural(c.Count, "object"))
	case v != nil && v.Failed:
		t.Sign, t.Tone, t.Detail = "▲", notice, "the query is not answered: "+cut(v.Text, 80)
	case v != nil && v.Firing:
		t.Sign, t.Tone, t.Detail = "▲", notice, "the query fires, so nothing is promoted: "+cut(v.Text, 80)
	}
	return t
}

func fleetTile(f *fleetView, dying int) tile {
	c := f.Counts
	detail := fmt.Sprintf("%s of %s current", shadowdiff.Grouped(c.Current), plural(f.Total, "client"))
	switch {
	case !f.Known:
		return newTile("Fleet", neutral, "unknown", "no list of clients here")
	case f.Error != "":
		return newTile("Fleet", notice, "no answer", cut(f.Error, 100))
	case f.Total == 0:
		return newTile("Fleet", neutral, "no clients", "no client was heard lately")
	case dying > 0:
		return newTile("Fleet", bad, shadowdiff.Grouped(dying)+" with dying proxies", detail)
	case c.Rejected > 0:
		return newTile("Fleet", bad, shadowdiff.Grouped(c.Rejected)+" rejected", detail)
	case c.Behind > 0:
		return newTile("Fleet", notice, shadowdiff.Grouped(c.Behind)+" behind", detail)
	case f.Refusing > 0:
		return newTile("Fleet", notice, shadowdiff.Grouped(f.Refusing)+" refuse routes", detail)
	case c.Silent > 0:
		return newTile("Fleet", notice, shadowdiff.Grouped(c.Silent)+" silent", detail)
	}
	return newTile("Fleet", good, "current", plural(f.Total, "client"))
}

var decisionWords = map[string]string{api.DecidedHeld: "held", api.DecidedReleased: "released by time", api.DecidedAccepted: "accepted"}
