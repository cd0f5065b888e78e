package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
	diffpage "github.com/routesrv/routesrv/shadowdiff/page"
	"github.com/routesrv/routesrv/source/tables"
)

type diffJob struct {
	ignore   shadowdiff.Ignore
	watch    bool
	interval time.Duration
	color    string

	reader   *tables.Reader
	compiler *compiler
	opened   map[string]*tables.Source // by the place
}

func (j *diffJob) define(flags *options.Flags) {
	flags.Add("--ignore", options.Parsed("LIST", &j.ignore, "", shadowdiff.ParseIgnore),
		"Differences to ignore: endpoints, for endpoints and their zones, and id=REGEX, for routes with a matching id; separated by commas. "+
			"The last line counts the ignored differences.")
	flags.Add("--watch", options.Bool(&j.watch, false),
		"Compare repeatedly until interrupted, and print only new and resolved differences. A difference is reported once skew cannot "+
			"explain it: when both tables have a revision that is new enough, else after three comparisons over two intervals. The exit "+
			"status is that of the last comparison.")
	flags.Add("--interval", options.Duration(&j.interval, shadowdiff.DefaultInterval, time.Millisecond, 24*time.Hour),
		"Time between two comparisons of --watch.")
	j.color, j.opened = "auto", make(map[string]*tables.Source)
	flags.Add("--color", options.Choice(&j.color, "auto", "always", "never"),
		"Colours in the text: auto means always on a terminal, unless the variable NO_COLOR is set.")
}

// side is a table with its name.
type side struct {
	name  string
	table *tables.Table
	err   error
}

// loadReplica loads the table that a replica serves.
func loadReplica(s *session) func(context.Context, Replica) (*tables.Table, error) {
	return func(ctx context.Context, r Replica) (*tables.Table, error) {
		if r.Main == nil {
			return nil, errors.New("its main listener is not known")
		}
		reader := tables.New(tables.Config{Timeout: s.timeout, Transport: r.Main.Transport, MaxRedirects: -1})
		source, err := reader.Open(r.Main.URL + "/routes")
		if err != nil {
			return nil, err
		}
		return source.Load(ctx)
	}
}

func (j *diffJob) run(ctx context.Context, s *session) (int, error) {
	if j.watch && s.output == "html" {
		return Trouble, usagef("--output: --watch prints text or json, not html")
	}
	if areEntries(s.args) {
		return j.entries(ctx, s)
	}
	if len(s.args) > 2 {
		return Trouble, unexpected(s.args[2])
	}
	var err error
	if j.reader, j.compiler, err = s.tables(); err != nil {
		return Trouble, err
	}
	defer j.reader.Close()
	if j.watch {
		return j.follow(ctx, s)
	}
	views, err := j.compare(ctx, s)
	status := statusOfViews(views)
	if err != nil {
		status = Trouble
	}
	if len(s.args) < 2 || s.program.Remote {
		return j.writeAll(s, views, status, program.Unjoined(err))
	}
	if err != nil {
		return Trouble, err
	}
	return status, printing(j.write(s, views[0]))
}

// entries compares two entries of the history, which the last two arguments name.
func (j *diffJob) entries(ctx context.Context, s *session) (int, error) {
	places, from, to := s.args[:len(s.args)-2], s.args[len(s.args)-2], s.args[len(s.args)-1]
	if j.watch {
		return Trouble, usagef("--watch compares tables: entries of the history do not change")
	}
	if !s.program.Remote {
		var err error
		if s.clusters, places, err = s.places.Clusters(places); err != nil {
			return Trouble, usageError(err)
		}
	}
	if len(places) > 0 {
		return Trouble, unexpected(places[0])
	}
	return s.showEntry(ctx, from, to)
}

func statusOfViews(views []*shadowdiff.Comparison) int {
	return verdict(!slices.ContainsFunc(views, func(v *shadowdiff.Comparison) bool { return !v.Report.Empty() || v.Unread > 0 }))
}

// notCompared records the parts of a table that are not routes.
func notCompared(v *shadowdiff.Comparison, label string, t *tables.Table) {
	for _, note := range unread(t) {
		v.Notes = append(v.Notes, shadowdiff.Note{Name: label + ", not compared", Text: note})
	}
	v.Unread += t.Unread
}

// compare loads the tables, and compares each with the first. The error names each table that cannot be read.
func (j *diffJob) compare(ctx context.Context, s *session) (views []*shadowdiff.Comparison, err error) {
	sides := j.sides(ctx, s)
	for i, t := range sides {
		if t.err != nil {
			name := t.name
			if !s.program.Remote {
				name = string(rune('A' + i))
			}
			err = errors.Join(err, fmt.Errorf("%s: %w", name, t.err))
		}
	}
	if err == nil && len(sides) < 2 {
		err = errors.New("there is only one table: nothing to compare it with")
	}
	for i, b := range sides {
		if a := sides[0]; i > 0 && a.err == nil && b.err == nil {
			view := &shadowdiff.Comparison{
				A:      shadowdiff.Side{Name: a.name, Revision: a.table.Revision, Read: a.table.Read},
				B:      shadowdiff.Side{Name: b.name, Revision: b.table.Revision, Read: b.table.Read},
				Report: shadowdiff.Diff(a.table.Routes, b.table.Routes).Without(j.ignore), At: s.now(), Owner: j.compiler.owners(),
			}
			notCompared(view, "A", a.table)
			notCompared(view, "B", b.table)
			views = append(views, view)
		}
	}
	return views, err
}

// write prints the comparison of two tables.
func (j *diffJob) write(s *session, v *shadowdiff.Comparison) error {
	switch s.output {
	case "json":
		return shadowdiff.WriteJSON(s.std.Out, v)
	case "html":
		return diffpage.Write(s.std.Out, v)
	}
	return shadowdiff.WriteText(s.std.Out, v, j.coloured(s))
}

// coloured reports whether the output has colours.
func (j *diffJob) coloured(s *session) bool {
	plain := slices.ContainsFunc(s.program.Env.Environ, func(e string) bool {
		return strings.HasPrefix(e, "NO_COLOR=") && e != "NO_COLOR=" || e == "TERM=dumb"
	})
	return j.color == "always" || j.color == "auto" && s.std.OutTerminal && !plain
}

// writeAll prints the comparisons of replicas, and which tables could not be read.
func (j *diffJob) writeAll(s *session, views []*shadowdiff.Comparison, status int, failed []error) (int, error) {
	if s.output == "json" {
		return status, writeComparisons(s, status, views, failed)
	}
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(s.std.Out)
		}
		if len(views) > 1 {
			writeLines(s.std.Out, []string{"=== " + v.A.Name + ", " + v.B.Name})
		}
		if err := j.write(s, v); err != nil {
			return Trouble, printing(err)
		}
	}
	for _, err := range failed {
		writeLines(s.std.Err, []string{err.Error()})
	}
	return status, nil
}

// writeComparisons prints the comparisons as one document.
func writeComparisons(s *session, status int, views []*shadowdiff.Comparison, failed []error) error {
	d := document{Command: "diff", Result: result(status), Comparisons: []json.RawMessage{}}
	for _, err := range failed {
		d.Errors = append(d.Errors, err.Error())
	}
	for _, v := range views {
		var b bytes.Buffer
		if err := shadowdiff.WriteJSON(&b, v); err != nil {
			return err
		}
		d.Comparisons = append(d.Comparisons, b.Bytes())
	}
	return writeDocument(s.std.Out, d)
}

// sides loads the tables: the arguments, and replicas if there are too few arguments.
func (j *diffJob) sides(ctx context.Context, s *session) []side {
	if len(s.args) == 0 {
		return replicaSides(ask(ctx, s, s.clusters, loadReplica(s)), false)
	}
	// Both tables are loaded at the same time, so that they come from the same state of a cluster as far as possible.
	loaded := make([][]side, len(s.args))
	var wg sync.WaitGroup
	for i, place := range s.args {
		source, err := j.open(place)
		if err != nil {
			loaded[i] = []side{{name: place, err: err}}
			continue
		}
		wg.Go(func() { loaded[i] = j.side(ctx, s, place, source) })
	}
	wg.Wait()
	all := slices.Concat(loaded...)
	if len(s.args) == 1 {
		// The cluster's table is the old state, and the argument the new one.
		all = append(replicaSides(ask(ctx, s, s.clusters[:1], loadReplica(s)), true), all...)
	}
	return all
}

// open returns the source of a place on its first use, and the same one later; nil for replicas.
func (j *diffJob) open(place string) (*tables.Source, error) {
	if strings.HasPrefix(place, "pod/") || strings.HasPrefix(place, "context/") {
		return nil, nil
	}
	source, ok := j.opened[place]
	if !ok || place == "-" {
		var err error
		if source, err = j.reader.Open(place); err != nil {
			return nil, err
		}
		j.opened[place] = source
	}
	return source, nil
}

// side loads the table of one place.
func (j *diffJob) side(ctx context.Context, s *session, place string, source *tables.Source) []side {
	if source != nil {
		t, err := source.Load(ctx)
		return []side{{source.Name(), t, err}}
	}
	var c Cluster
	var err error
	if name, ok := strings.CutPrefix(place, "context/"); ok {
		c, err = s.context(name)
	} else if len(s.clusters) == 0 {
		err = errors.New("there are no pods here")
	} else {
		c = only(s.clusters[0], strings.TrimPrefix(place, "pod/"))
	}
	if err != nil {
		return []side{{name: place, err: err}}
	}
	all := replicaSides(ask(ctx, s, []Cluster{c}, loadReplica(s)), true)
	for i := range all {
		if all[i].name == "" {
			all[i].name = place
		}
	}
	return all
}

// only returns the cluster with the replica of this name alone.
func only(c Cluster, name string) Cluster {
	find := c.Find
	c.Find = func(ctx context.Context) ([]Replica, error) {
		all, err := find(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			if r.Name == name {
				return []Replica{r}, nil
			}
		}
		return nil, fmt.Errorf("no replica has the name %s", name)
	}
	return c
}

// replicaSides returns the tables of replicas. With first it returns one table per cluster: from the first replica that answers.
func replicaSides(replies []query.Reply[*tables.Table], first bool) []side {
	var all []side
	for _, r := range replies {
		if r.Err != nil {
			all = append(all, side{name: r.Cluster, err: r.Err})
			continue
		}
		there := r.Answered()
		if first && len(there) > 0 {
			all = append(all, side{strings.TrimSuffix(query.Label(r.Cluster, there[0].Replica), ": "), there[0].Value, nil})
			continue
		}
		for _, a := range r.Answers {
			all = append(all, side{strings.TrimSuffix(query.Label(r.Cluster, a.Replica), ": "), a.Value, a.Err})
		}
	}
	return all
}

// follow compares two tables until it is interrupted. It prints a difference when it has lasted longer than skew explains, and again
// when it is resolved. It prints an error only when it differs from the previous one.
func (j *diffJob) follow(ctx context.Context, s *session) (int, error) {
	tracker := shadowdiff.NewTracker(shadowdiff.TrackerConfig{Interval: j.interval})
	tick := time.NewTicker(j.interval)
	defer tick.Stop()
	status, lastError := Trouble, ""
	var notes []shadowdiff.Note
	var last *shadowdiff.Comparison
	for {
		views, err := j.compare(ctx, s)
		switch {
		case ctx.Err() != nil: // interrupted: the tables loaded meanwhile may be incomplete
		case err != nil:
			if status = Trouble; err.Error() != lastError {
				for _, e := range program.Unjoined(err) {
					fmt.Fprintf(s.std.Err, "%s diff: %s\n", s.program.Name, shadowdiff.Printable(e.Error()))
				}
			}
			lastError = err.Error()
		default:
			view := views[0]
			status, lastError = statusOfViews(views[:1]), ""
			o := tracker.Observe(view.Report, shadowdiff.Meta{
				RevisionA: view.A.Revision, RevisionB: view.B.Revision, ReadA: view.A.Read, ReadB: view.B.Read, Now: view.At,
			})
			if !slices.Equal(view.Notes, notes) {
				notes = view.Notes
				for _, n := range notes {
					writeLines(s.std.Err, []string{n.Name + ": " + n.Text})
				}
			}
			view.Watch, last = &o, view
			if err := j.writeNews(s, &o); err != nil {
				return Trouble, printing(err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if last != nil && s.output == "text" {
				fmt.Fprintln(s.std.Out, last.Summary())
			}
			return status, nil
		}
	}
}

// writeNews prints what is new in an observation compared with the previous ones.
func (j *diffJob) writeNews(s *session, o *shadowdiff.Observation) error {
	owners := j.compiler.owners()
	for _, event := range []struct {
		name string
		of   []shadowdiff.Tracked
	}{{"new", o.New}, {"gone", o.Gone}} {
		for _, e := range event.of {
			if s.output == "json" {
				if err := shadowdiff.WriteEntryJSON(s.std.Out, e, owners, event.name, o.Now); err != nil {
					return err
				}
				continue
			}
			if _, err := fmt.Fprintf(s.std.Out, "%s %s: %s\n", o.Now.UTC().Format(time.RFC3339), event.name,
				shadowdiff.Printable(owners.Of(e.ID).String())); err != nil {
				return err
			}
			if err := shadowdiff.WriteEntry(s.std.Out, e, j.coloured(s)); err != nil {
				return err
			}
		}
	}
	return nil
}
