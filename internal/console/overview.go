package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Limits of the lists of the overview.
const (
	maxDecisions = 5
	maxOwners    = 15
	maxRecent    = 12
	maxZones     = 40
	// sourceLate is the age of the last read from which a source is called late. It is late earlier if a read failed.
	sourceLate = 30 * time.Second
)

// tile is one of the summary boxes at the top of the overview.
type tile struct {
	Name, Link string
	Sign, Tone string
	Word       string // the state in one word
	Detail     string
}

// overviewPage is the body of the overview.
type overviewPage struct {
	Tiles     []tile
	Table     *tableView
	Source    sourceView
	Guard     guardView
	Problems  *problemsView // nil on a relay
	Fleet     fleetView
	Charts    []chart
	Recent    []publishRow
	Published int
}

type tableView struct {
	ETag, Digest string
	Revision     uint64
	Routes       string
	Bytes        string
	Zones        []string
	MoreZones    int
	Since        moment
	Stale        bool
	Newest       *changeView
}

// changeView is the newest change of an object.
type changeView struct {
	At     moment
	Object ownerLink
	By     string
}

type sourceView struct {
	Origin        string
	Relay         bool
	Read          moment
	Attempt       moment
	Next          moment
	Failures      int
	FailedTotal   string
	EmptyTotal    string
	Error         string
	Revision      uint64
	LastKnownGood *fileView
	Up            moment // when the process started
}

type fileView struct {
	Path, Error, Unusable string
	Written               moment
	Loaded                bool // this process has not written it yet
	LastRead              moment
}

// guardView is the state of the guard.
type guardView struct {
	Held       bool
	Reason     string
	Detail     string
	Kept       []keptRow // objects; empty for a table
	MoreKept   string
	Digest     string // the digest to accept
	Revision   uint64
	Routes     string
	Since      moment
	Release    moment
	ByTime     bool // Release is set
	Error      string
	Counts     []diffCount
	Owners     []ownerRow
	MoreOwners int
	Command    string // command that accepts the table
	Last       *api.Release
	LastAt     moment
	Decisions  []decisionRow
}

type diffCount struct {
	Sign, Name, Tone string
	N                int
}

type ownerRow struct {
	Owner, Link                      string
	Missing, Extra, Changed, Renamed int
}

type decisionRow struct {
	At     moment
	Word   string
	Digest string
	Reason string
	By     string
	Why    string
}

type publishRow struct {
	At                           moment
	Clock                        string
	Revision                     uint64
	Digest                       string
	Routes, Change               string
	Bytes, Took, Half, Most, All string
}

func (c *Console) overview(ctx context.Context, r *http.Request) (answer, error) {
	now, s := time.Now(), c.cfg.State()
	b := overviewPage{Source: newSourceView(s, c.cfg.Relay, now)}
	if s.Table != nil {
		b.Table = newTableView(s.Table, now)
	}
	b.Guard = c.newGuardView(ctx, s, now)
	if c.cfg.Problems != nil {
		b.Problems = newProblemsView(c.cfg.Problems(), r.URL.Query(), now)
	}
	b.Fleet, _ = c.newFleetView(ctx, now)
	published := c.cfg.Publishes.Since(now.Add(-publishesFor))
	b.Charts, b.Published, b.Recent = chartsOf(published, now), len(published), recent(published, now)
	b.Tiles = tilesOf(s, &b, now)
	return answer{Title: title(b.Tiles), Body: b, Live: true}, nil
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

// tilesOf returns the summary boxes.
func tilesOf(s State, b *overviewPage, now time.Time) []tile {
	all := []tile{tableTile(s, now), sourceTile(s, now), guardTile(s, now)}
	if p := b.Problems; p != nil {
		t := tile{"Problems", "#problems", "✓", good, "none", "every object is served as written"}
		if p.Errors+p.Warnings+p.Infos > 0 {
			t.Word, t.Detail = thousands(p.Errors+p.Warnings+p.Infos), fmt.Sprintf("%s, %s, %d info", plural(p.Errors, "error"), plural(p.Warnings, "warning"), p.Infos)
			t.Sign, t.Tone = "●", neutral
		}
		if p.Errors+p.Warnings > 0 {
			t.Sign, t.Tone = "▲", notice
		}
		all = append(all, t)
	}
	return append(all, fleetTile(&b.Fleet))
}

func tableTile(s State, now time.Time) tile {
	t := tile{"Table", "#table", "✓", good, "", ""}
	switch {
	case s.Table == nil:
		t.Sign, t.Tone, t.Word, t.Detail = "✕", bad, "none", "proxies get 404 until the first read"
	case s.Table.Stale:
		t.Sign, t.Tone, t.Word, t.Detail = "▲", notice, "stale", thousands(s.Table.Routes)+" routes of a last-known-good file, not confirmed by a read yet"
	default:
		t.Word, t.Detail = thousands(s.Table.Routes)+" routes", bytesText(s.Table.Bytes)+", since "+newMoment(s.Table.Since, now).Ago
	}
	return t
}

func sourceTile(s State, now time.Time) tile {
	t := tile{"Source", "#source", "✓", good, "fresh", ""}
	age := now.Sub(s.Source.LastSuccess)
	read := "last read " + newMoment(s.Source.LastSuccess, now).Ago
	switch {
	case s.Source.LastSuccess.IsZero() && s.Source.Failures == 0:
		t.Sign, t.Tone, t.Word, t.Detail = "○", neutral, "not read yet", "the first read is in progress"
	case s.Source.Failures > 0:
		t.Sign, t.Tone, t.Word, t.Detail = "✕", bad, "failing", plural(s.Source.Failures, "failure")+"; "+read
	case age > sourceLate:
		t.Sign, t.Tone, t.Word, t.Detail = "▲", notice, "late", read
	default:
		t.Detail = read
	}
	return t
}

func guardTile(s State, now time.Time) tile {
	if g := s.Guard; g.Held {
		return tile{"Guard", "#guard", "✕", bad, "held", text(string(g.Reason)) + ", since " + newMoment(g.Since, now).Ago}
	}
	return tile{"Guard", "#guard", "✓", good, "open", "what is read is served"}
}

func fleetTile(f *fleetView) tile {
	t := tile{"Fleet", "#fleet", "○", neutral, "unknown", "no list of clients here"}
	switch {
	case !f.Known:
	case f.Error != "":
		t.Sign, t.Tone, t.Word, t.Detail = "▲", notice, "no answer", cut(f.Error, 100)
	case f.Total == 0:
		t.Word, t.Detail = "nobody", "no client was heard lately"
	default:
		rejected, behind, silent := f.Counts[0].N, f.Counts[1].N, f.Counts[2].N
		t.Sign, t.Tone, t.Word, t.Detail = "✓", good, "current", plural(f.Total, "client")
		switch {
		case rejected > 0:
			t.Sign, t.Tone, t.Word = "✕", bad, thousands(rejected)+" rejected"
		case behind > 0:
			t.Sign, t.Tone, t.Word = "▲", notice, thousands(behind)+" behind"
		case f.Refusing > 0:
			t.Sign, t.Tone, t.Word = "▲", notice, thousands(f.Refusing)+" refuse routes"
		case silent > 0:
			t.Sign, t.Tone, t.Word = "○", notice, thousands(silent)+" silent"
		}
		if t.Tone != good {
			t.Detail = fmt.Sprintf("%s of %s current", thousands(f.Counts[3].N), plural(f.Total, "client"))
		}
	}
	return t
}

func newTableView(t *Table, now time.Time) *tableView {
	v := &tableView{
		ETag: text(t.ETag), Digest: t.Digest.String(), Revision: t.Revision, Routes: thousands(t.Routes),
		Bytes: bytesText(t.Bytes), Since: newMoment(t.Since, now), Stale: t.Stale,
	}
	if c := t.Newest; c != nil {
		v.Newest = &changeView{newMoment(c.At, now), linkTo(c.Object), cut(c.By, 100)}
	}
	for i, z := range t.Zones {
		if i == maxZones {
			v.MoreZones = len(t.Zones) - i
			break
		}
		v.Zones = append(v.Zones, cut(z, 60))
	}
	return v
}

func newSourceView(s State, relay bool, now time.Time) sourceView {
	v := sourceView{
		Origin: cut(s.Origin, 300), Relay: relay, Read: newMoment(s.Source.LastSuccess, now), Attempt: newMoment(s.Source.LastAttempt, now),
		Next: newMoment(s.Source.NextAttempt, now), Failures: s.Source.Failures, FailedTotal: strconv.FormatUint(s.Source.FailedTotal, 10),
		EmptyTotal: strconv.FormatUint(s.Source.EmptyTotal, 10), Error: cut(s.Source.LastError, 600), Revision: s.Source.Revision,
		Up: newMoment(s.Started, now),
	}
	if v.Next.Machine != "" && !s.Source.NextAttempt.After(now) {
		v.Next.Ago = "now"
	}
	if f := s.LastKnownGood; f != nil {
		v.LastKnownGood = &fileView{text(f.Path), text(f.Error), text(f.Unusable), newMoment(f.Written, now), f.Written.IsZero() && !f.LastRead.IsZero(), newMoment(f.LastRead, now)}
	}
	return v
}

// maxKeptRows is how many kept objects the page lists.
const maxKeptRows = 100

// keptRow is an object that is served at an earlier version than the newest.
type keptRow struct {
	Object        ownerLink
	Served, Waits string
	Since, Until  moment
}

// newGuardView compares the held table with the served one.
func (c *Console) newGuardView(ctx context.Context, s State, now time.Time) guardView {
	v := guardView{Last: s.Guard.Last}
	if l := v.Last; l != nil {
		v.LastAt = newMoment(l.At, now)
		shown := *l
		shown.By, shown.Why, shown.Digest = text(l.By), text(l.Why), shortDigest(l.Digest)
		v.Last = &shown
	}
	words := map[string]string{
		api.DecidedHeld: "held", api.DecidedReleased: "released by time", api.DecidedAccepted: "accepted",
	}
	for i, e := range s.Decisions {
		if i == maxDecisions {
			break
		}
		v.Decisions = append(v.Decisions, decisionRow{
			newMoment(e.Time, now), cmp.Or(words[e.What], text(e.What)), shortDigest(e.Digest.String()), text(string(e.Reason)), text(e.By), text(e.Why),
		})
	}
	g := s.Guard
	if !g.Held {
		return v
	}
	v.Held, v.Reason, v.Detail = true, text(string(g.Reason)), text(g.Detail)
	v.Digest = g.Digest.String()
	for i, k := range g.Kept {
		if i == maxKeptRows {
			break
		}
		v.Kept = append(v.Kept, keptRow{linkTo(k.Ref), text(k.Served), text(k.Waits), newMoment(k.Since, now), newMoment(k.Until, now)})
	}
	if more := g.KeptCount - len(v.Kept); more > 0 {
		v.MoreKept = thousands(more)
	}
	v.Revision, v.Routes = g.Revision, thousands(g.Routes)
	v.Since, v.Release, v.ByTime = newMoment(g.Since, now), newMoment(g.ReleaseAt, now), !g.ReleaseAt.IsZero()
	v.Command = c.cfg.AcceptCommand + " " + v.Digest + " --why REASON"
	if c.cfg.Held == nil {
		return v
	}
	d, err := c.cfg.Held(ctx)
	switch {
	case err != nil:
		v.Error = text(err.Error())
	case d != nil:
		v.addDifference(d)
	}
	return v
}

func (v *guardView) addDifference(d *shadowdiff.View) {
	n := d.Report.Counts()
	v.Counts = []diffCount{
		{"−", "routes go", bad, n.Missing}, {"+", "routes come", good, n.Extra}, {"~", "routes change", notice, n.Changed},
		{">", "ids change", neutral, n.Renamed}, {"=", "routes stay", neutral, n.Equal},
	}
	for _, group := range d.Groups() {
		row := ownerRow{Owner: cut(group.Owner.String(), 200)}
		if group.Owner.Namespace != "" && len(group.Entries) > 0 {
			row.Link = routeLink(group.Entries[0].ID)
		}
		for _, e := range group.Entries {
			switch e.Kind {
			case shadowdiff.Missing:
				row.Missing++
			case shadowdiff.Extra:
				row.Extra++
			case shadowdiff.Changed:
				row.Changed++
			case shadowdiff.Renamed:
				row.Renamed++
			}
		}
		v.Owners = append(v.Owners, row)
	}
	slices.SortStableFunc(v.Owners, func(a, b ownerRow) int {
		return cmp.Or(cmp.Compare(b.Missing, a.Missing), cmp.Compare(b.Changed+b.Extra+b.Renamed, a.Changed+a.Extra+a.Renamed))
	})
	if len(v.Owners) > maxOwners {
		v.MoreOwners = len(v.Owners) - maxOwners
		v.Owners = v.Owners[:maxOwners]
	}
}

// recent returns the last publishes, newest first.
func recent(all []Publish, now time.Time) []publishRow {
	var rows []publishRow
	for i := len(all) - 1; i >= 0 && len(rows) < maxRecent; i-- {
		p := all[i]
		row := publishRow{
			At: newMoment(p.Time, now), Clock: clock(p.Time), Revision: p.Revision, Digest: shortDigest(p.Digest.String()), Routes: thousands(p.Routes),
			Bytes: bytesText(p.Bytes), Took: "last-known-good file", Half: optional(p.Half), Most: optional(p.Most), All: optional(p.All),
		}
		if p.Took >= 0 {
			row.Took = durationText(p.Took)
		}
		if i > 0 {
			switch d := p.Routes - all[i-1].Routes; {
			case d > 0:
				row.Change = "+" + thousands(d)
			case d < 0:
				row.Change = "−" + thousands(-d)
			default:
				row.Change = "±0"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func optional(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return durationText(d)
}

func percent(n, of int) string {
	return strconv.FormatFloat(100*float64(n)/float64(max(of, 1)), 'f', 2, 64) + "%"
}
