package board

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/fleet"
)

// question is a request to the support listener of a cluster.
type question struct {
	path string
	// rounds is the interval of the question, in multiples of Config.Every.
	rounds int
	// read reads the answer and returns what it changes in the document of the cluster.
	read func(b *Board, r io.Reader) (func(*api.BoardCluster), error)
}

// questions are asked in this order. Without an answer to the first one, a cluster is away; a server may lack the others.
var questions = []question{
	{api.PathStatus, 1, readStatus},
	{api.PathClients + "?limit=20000", 3, readClients},
	{api.PathProblems, 6, readProblems},
	{api.PathHistory + "?since=1h&limit=1000", 6, readHistory},
}

// ask asks a cluster one question.
func (b *Board) ask(ctx context.Context, c *cluster, q int) error {
	at, err := b.find(ctx, c)
	if err != nil {
		return cause(ctx, err)
	}
	resp, err := at.Support.Get(ctx, questions[q].path, "application/json")
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		if q > 0 {
			return nil // a relay has no history, and an older server may lack more
		}
		return fmt.Errorf("%s: %s", questions[q].path, resp.Status)
	}
	apply, err := questions[q].read(b, io.LimitReader(resp.Body, maxAnswer))
	if err != nil && q > 0 && ctx.Err() == nil {
		return nil // for example too long: the tile stays as it is
	}
	if err != nil {
		return cause(ctx, fmt.Errorf("read %s: %w", questions[q].path, err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.doc.Replica = at.Name
	apply(&c.doc)
	return nil
}

// cause returns the error of a question, which is the time limit if that has passed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %v", ctx.Err(), err)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the tile names the cluster
	}
	return err
}

// find returns the replica to ask.
func (b *Board) find(ctx context.Context, c *cluster) (*Replica, error) {
	b.mu.Lock()
	at, tries := c.target, c.tries
	b.mu.Unlock()
	if at != nil {
		return at, nil
	}
	all, err := c.Find(ctx)
	if err != nil {
		return nil, err
	}
	fault := "no replica"
	for i := range all {
		if r := &all[(i+tries)%len(all)]; r.Fault == "" {
			at = r
			break
		} else {
			fault = r.Name + ": " + r.Fault
		}
	}
	if at == nil {
		return nil, errors.New(fault)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.target = at
	return at, nil
}

func readStatus(_ *Board, r io.Reader) (func(*api.BoardCluster), error) {
	var s api.Status
	if err := json.NewDecoder(r).Decode(&s); err != nil {
		return nil, err
	}
	if s.Started.IsZero() {
		return nil, errors.New("this is not the status of a route server")
	}
	return func(d *api.BoardCluster) {
		d.Asked, d.Version, d.Relay = time.Now().UTC(), cut(s.Version), s.Upstream != nil
		d.Kept, d.Orders, d.Problems, d.Table = s.Guard.KeptCount, 0, s.Problems, nil
		d.Warnings = nil
		for _, w := range s.Warnings {
			d.Warnings = append(d.Warnings, cut(w.Text))
		}
		if s.Steering != nil {
			d.Orders = len(s.Steering.Orders)
		}
		if t := s.Table; t != nil {
			d.Table = &api.BoardTable{
				Digest: t.Digest, Revision: t.Revision, Routes: t.Routes, LastRead: t.LastRead, Stale: t.Stale, Held: s.Guard.Held && d.Kept == 0,
			}
		}
	}, nil
}

// readClients reads the clients one by one: of a large fleet, only counts and the worst clients stay in memory.
func readClients(b *Board, r io.Reader) (func(*api.BoardCluster), error) {
	var counts fleet.Counts
	modes, versions := make(map[string]int), make(map[string]int)
	var laggards []api.BoardLaggard
	p := pre{cleanFor: b.cfg.CleanFor}
	err := eachField(r, map[string]func(*json.Decoder) error{
		"counts": func(d *json.Decoder) error { return d.Decode(&counts) },
		"clients": eachElement(func(c *fleet.Client) {
			if c.State != fleet.Silent {
				modes[cmp.Or(c.Mode, "other")]++
				versions[cut(c.Version)]++
				p.add(c)
			}
			if c.State != fleet.Current && len(laggards) < shown { // the worst come first
				laggards = append(laggards, api.BoardLaggard{ID: cut(c.ID), State: string(c.State), BehindSeconds: c.BehindSeconds, Reason: cut(c.Reason)})
			}
		}),
	})
	if err != nil {
		return nil, err
	}
	return func(d *api.BoardCluster) {
		d.Clients = map[string]int{
			string(fleet.Current): counts.Current, string(fleet.Behind): counts.Behind, string(fleet.Rejected): counts.Rejected, string(fleet.Silent): counts.Silent,
		}
		d.Modes, d.Versions, d.Laggards, d.Pre = modes, most(versions), laggards, p.result(modes)
	}, nil
}

func readProblems(_ *Board, r io.Reader) (func(*api.BoardCluster), error) {
	reasons := make(map[string]int)
	err := eachField(r, map[string]func(*json.Decoder) error{
		"problems": eachElement(func(p *api.Problem) {
			if p.Severity != "info" {
				reasons[cut(p.Reason)]++
			}
		}),
	})
	return func(d *api.BoardCluster) { d.Reasons = most(reasons) }, err
}

func readHistory(_ *Board, r io.Reader) (func(*api.BoardCluster), error) {
	count := 0
	var last []api.BoardEntry
	err := eachElement(func(e *api.HistoryEntry) {
		if count++; len(last) < shown {
			last = append(last, api.BoardEntry{At: e.At, What: whatOf(e)})
		}
	})(json.NewDecoder(r))
	return func(d *api.BoardCluster) { d.Changes, d.History = count, last }, err
}

// whatOf describes an entry in a few words.
func whatOf(e *api.HistoryEntry) string {
	var parts []string
	for _, c := range e.Changes[:min(1, len(e.Changes))] {
		parts = append(parts, c.Ref.String()+" "+c.What)
	}
	if more := e.Count - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d objects", more))
	}
	for _, d := range e.Decisions[:min(1, len(e.Decisions))] {
		parts = append(parts, d.What+": "+d.Objects)
	}
	return cut(strings.Join(parts, "; "))
}

// eachField reads an object and calls the function of each of its fields. It skips the others.
func eachField(r io.Reader, fields map[string]func(*json.Decoder) error) error {
	d := json.NewDecoder(r)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("want an object"))
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		read := fields[fmt.Sprint(name)]
		if read == nil {
			read = func(d *json.Decoder) error { var skipped json.RawMessage; return d.Decode(&skipped) }
		}
		if err := read(d); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// eachElement returns a function that reads a list element by element.
func eachElement[T any](yield func(*T)) func(*json.Decoder) error {
	return func(d *json.Decoder) error {
		t, err := d.Token()
		switch {
		case err != nil:
			return err
		case t == nil:
			return nil // null
		case t != json.Delim('['):
			return errors.New("want a list")
		}
		for d.More() {
			var one T
			if err := d.Decode(&one); err != nil {
				return err
			}
			yield(&one)
		}
		_, err = d.Token()
		return err
	}
}

// most returns the most frequent names.
func most(counts map[string]int) (all []api.BoardCount) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, api.BoardCount{Name: cmp.Or(name, "unknown"), Count: counts[name]})
	}
	slices.SortStableFunc(all, func(x, y api.BoardCount) int { return y.Count - x.Count })
	return all[:min(len(all), shown)]
}

const (
	// maxAge is how old the last read of a source may be.
	maxAge = time.Minute
	// settling is the time after the start of a data plane in which differences are ignored: its two sides start at different
	// moments.
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
	if notice = append(notice, d.Warnings...); len(d.Warnings) > 0 && d.Pre != nil && d.Pre.Clean {
		unclean := *d.Pre
		unclean.Clean, unclean.Reason = false, d.Warnings[0]
		d.Pre = &unclean
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
