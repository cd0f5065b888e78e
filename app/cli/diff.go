package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
	"github.com/routesrv/routesrv/source/tables"
)

type diffJob struct{ ignore shadowdiff.Ignore }

func (j *diffJob) define(flags *options.Flags) {
	flags.Add("--ignore", options.Parsed("LIST", &j.ignore, "", shadowdiff.ParseIgnore),
		"Differences to ignore: endpoints, for endpoints and their zones, and id=REGEX, for routes with a matching id; separated by commas. "+
			"The last line counts the ignored differences.")
}

func (j *diffJob) run(ctx context.Context, s *session) (int, error) {
	if len(s.args) > 2 {
		return Trouble, unexpected(s.args[2])
	}
	reader, compiler, err := s.tables()
	if err != nil {
		return Trouble, err
	}
	defer reader.Close()
	sides, failed := sidesOf(ctx, s, reader)
	if len(failed) == 0 && len(sides) < 2 {
		failed = append(failed, errors.New("there is only one table: nothing to compare it with"))
	}
	if !s.program.Remote && len(failed) > 0 {
		return Trouble, errors.Join(failed...)
	}
	status := verdict(true)
	var views []*shadowdiff.Comparison
	for i, b := range sides {
		if a := sides[0]; i > 0 {
			v := &shadowdiff.Comparison{
				A: shadowdiff.Side{Name: a.name, Revision: a.table.Revision}, B: shadowdiff.Side{Name: b.name, Revision: b.table.Revision},
				Report: shadowdiff.Diff(a.table.Routes, b.table.Routes).Without(j.ignore), At: s.now(), Owner: compiler.owners(),
			}
			notCompared(v, "A", a.table)
			notCompared(v, "B", b.table)
			views, status = append(views, v), max(status, verdict(v.Report.Empty() && v.Unread == 0))
		}
	}
	if len(failed) > 0 {
		status = Trouble
	}
	return status, printing(j.write(s, status, views, failed))
}

// notCompared records the parts of a table that are not routes.
func notCompared(v *shadowdiff.Comparison, label string, t *tables.Table) {
	for _, note := range unread(t) {
		v.Notes = append(v.Notes, shadowdiff.Note{Name: label + ", not compared", Text: note})
	}
	v.Unread += t.Unread
}

// write prints the comparisons, and which tables could not be read. Of replicas, the JSON form is one document.
func (j *diffJob) write(s *session, status int, views []*shadowdiff.Comparison, failed []error) error {
	switch {
	case s.output == "json" && s.program.Remote:
		d := document{Command: "diff", Result: result(status), Comparisons: []json.RawMessage{}}
		for _, err := range failed {
			d.Errors = append(d.Errors, err.Error())
		}
		for _, v := range views {
			var b strings.Builder
			if err := shadowdiff.WriteJSON(&b, v); err != nil {
				return err
			}
			d.Comparisons = append(d.Comparisons, json.RawMessage(b.String()))
		}
		return writeDocument(s.std.Out, d)
	case s.output == "json":
		return shadowdiff.WriteJSON(s.std.Out, views[0])
	}
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(s.std.Out)
		}
		if len(views) > 1 {
			writeLines(s.std.Out, []string{"=== " + v.A.Name + ", " + v.B.Name})
		}
		if err := shadowdiff.WriteText(s.std.Out, v); err != nil {
			return err
		}
	}
	for _, err := range failed {
		writeLines(s.std.Err, []string{err.Error()})
	}
	return nil
}

// side is a table with its name.
type side struct {
	name  string
	table *tables.Table
}

// sidesOf loads the tables: the arguments, and replicas if there are too few arguments.
func sidesOf(ctx context.Context, s *session, reader *tables.Reader) (all []side, failed []error) {
	if len(s.args) == 0 {
		return replicaSides(ask(ctx, s, s.clusters, loadReplica(s)), false)
	}
	if len(s.args) == 1 { // the cluster's table is the old state, and the argument the new one
		all, failed = replicaSides(ask(ctx, s, s.clusters[:1], loadReplica(s)), true)
	}
	// Both tables are loaded at the same time, so that they come from the same state of a cluster as far as possible.
	loaded, errs := make([]*tables.Table, len(s.args)), make([]error, len(s.args))
	var wg sync.WaitGroup
	for i, place := range s.args {
		wg.Go(func() { loaded[i], errs[i] = reader.Load(ctx, place) })
	}
	wg.Wait()
	for i, t := range loaded {
		if errs[i] != nil {
			failed = append(failed, fmt.Errorf("%c: %w", 'A'+i, errs[i]))
		} else {
			all = append(all, side{t.Name, t})
		}
	}
	return all, failed
}

// loadReplica loads the table that a replica serves.
func loadReplica(s *session) func(context.Context, Replica) (*tables.Table, error) {
	return func(ctx context.Context, r Replica) (*tables.Table, error) {
		if r.Dial == nil {
			return nil, errors.New("its main listener is not known")
		}
		transport, err := query.Transport(s.tls)
		if err != nil {
			return nil, err
		}
		transport.DialContext, transport.Proxy = r.Dial, nil
		scheme := "http"
		if s.tls != (options.TLSFiles{}) {
			scheme = "https"
		}
		reader := tables.New(tables.Config{Timeout: s.timeout, Transport: transport})
		return reader.Load(ctx, scheme+"://"+r.Host+"/routes")
	}
}

// replicaSides returns the tables of replicas. With first it returns one table per cluster: from the first replica that answers.
func replicaSides(replies []query.Reply[*tables.Table], first bool) (all []side, failed []error) {
	for _, r := range replies {
		there := r.Answered()
		if first && len(there) > 0 {
			there = there[:1]
		} else {
			for _, text := range r.Missing() {
				failed = append(failed, errors.New(text))
			}
		}
		for _, a := range there {
			all = append(all, side{strings.TrimSuffix(query.Label(r.Cluster, a.Replica), ": "), a.Value})
		}
	}
	return all, failed
}
