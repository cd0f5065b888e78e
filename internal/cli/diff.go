package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/routesrv/routesrv/internal/source/tables"
	"github.com/routesrv/routesrv/shadowdiff"
)

type diffJob struct {
	ignore string
}

func diffCommand() command {
	return command{
		name: "diff", args: "[A [B]]", summary: "Compares the tables of replicas, clusters and files by meaning.",
		intro: `Without arguments the command compares the tables of all replicas with that of the first: in one cluster, or with
--contexts in several. With A alone, it compares A with the first replica of the cluster. A and B are each a file of
routes, the URL of a route server or of a Skipper, - for standard input, pod/NAME for a replica of this cluster, or
context/NAME for the first replica of another cluster. Compile manifests with routesrv compile first.

If the listener for proxies requires certificates (components/mtls), give --cacert, --cert and --key.

The exit status is 0 if the tables have the same meaning, 1 if they differ, and 2 if a table cannot be read.`,
		examples: []example{
			{"Do all replicas serve the same?", "diff"},
			{"Would these manifests change anything?", "diff <(routesrv compile -config-file flags.yaml ./manifests)"},
			{"Blue and green", "diff --ignore endpoints context/blue context/green"},
		},
		max: 2, outputs: []string{"text", "json"},
		job: func() job { return &diffJob{} },
	}
}

func (j *diffJob) define(set *pflag.FlagSet) {
	set.StringVar(&j.ignore, "ignore", "", "what is no difference: endpoints, and id=REGEX; a comma separates")
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

// Elsewhere is implemented by places that can also name single replicas and other clusters, for diff.
type Elsewhere interface {
	// Context returns the cluster of another context.
	Context(name string) (Cluster, error)
}

func (j *diffJob) run(ctx context.Context, s *session) (int, error) {
	ignore, err := shadowdiff.ParseIgnore(j.ignore)
	if err != nil {
		return Trouble, usageError{fmt.Errorf("--ignore: %w", err)}
	}
	sides := j.sides(ctx, s)
	var failed []error
	for _, t := range sides {
		if t.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t.name, t.err))
		}
	}
	if len(failed) == 0 && len(sides) < 2 {
		failed = append(failed, errors.New("there is only one table: nothing to compare it with"))
	}
	status := Healthy
	views := []*shadowdiff.View{}
	for i, b := range sides {
		if a := sides[0]; i > 0 && a.err == nil && b.err == nil {
			v := &shadowdiff.View{
				A:      shadowdiff.Side{Name: a.name, Revision: a.table.Revision, Read: a.table.Read},
				B:      shadowdiff.Side{Name: b.name, Revision: b.table.Revision, Read: b.table.Read},
				Report: shadowdiff.Diff(a.table.Routes, b.table.Routes).Without(ignore), At: s.now(),
			}
			if views = append(views, v); !v.Report.Empty() {
				status = Unhealthy
			}
		}
	}
	if len(failed) > 0 {
		status = Trouble
	}
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
		if err := shadowdiff.WriteText(s.std.Out, v, shadowdiff.TextOptions{}); err != nil {
			return Trouble, fmt.Errorf("print the comparison: %w", err)
		}
	}
	for _, err := range failed {
		writeLines(s.std.Err, []string{err.Error()})
	}
	return status, nil
}

// writeComparisons prints the comparisons as one document.
func writeComparisons(s *session, status int, views []*shadowdiff.View, failed []error) error {
	doc := struct {
		Schema      string            `json:"schema"`
		Command     string            `json:"command"`
		Result      string            `json:"result"`
		Errors      []string          `json:"errors,omitempty"`
		Comparisons []json.RawMessage `json:"comparisons"`
	}{Schema: Schema, Command: "diff", Result: resultName(status), Comparisons: []json.RawMessage{}}
	for _, err := range failed {
		doc.Errors = append(doc.Errors, err.Error())
	}
	for _, v := range views {
		var b bytes.Buffer
		if err := shadowdiff.WriteJSON(&b, v); err != nil {
			return err
		}
		doc.Comparisons = append(doc.Comparisons, b.Bytes())
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("print the comparison: %w", err)
	}
	_, err = s.std.Out.Write(append(shadowdiff.PrintableJSON(text), '\n'))
	return err
}

// sides loads the tables: the arguments, and replicas if there are too few arguments.
func (j *diffJob) sides(ctx context.Context, s *session) []side {
	if len(s.args) == 0 {
		return replicaSides(ask(ctx, s, s.clusters, loadReplica(s)), false)
	}
	var all []side
	local := tables.New(tables.Config{Stdin: s.std.In, Timeout: s.timeout})
	defer local.Close()
	for _, place := range s.args {
		all = append(all, s.side(ctx, local, place)...)
	}
	if len(s.args) == 1 {
		// The cluster's table is the old state, and the argument the new one.
		all = append(replicaSides(ask(ctx, s, s.clusters[:1], loadReplica(s)), true), all...)
	}
	return all
}

// side loads the table of one place.
func (s *session) side(ctx context.Context, local *tables.Reader, place string) []side {
	if name, ok := strings.CutPrefix(place, "pod/"); ok {
		one := s.clusters[0]
		find := one.Find
		one.Find = func(ctx context.Context) ([]Replica, error) {
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
		all := replicaSides(ask(ctx, s, []Cluster{one}, loadReplica(s)), true)
		for i := range all {
			if all[i].name == "" {
				all[i].name = place
			}
		}
		return all
	}
	if name, ok := strings.CutPrefix(place, "context/"); ok {
		c, err := s.context(name)
		if err != nil {
			return []side{{name: place, err: err}}
		}
		return replicaSides(ask(ctx, s, []Cluster{c}, loadReplica(s)), true)
	}
	source, err := local.Open(place)
	if err != nil {
		return []side{{name: place, err: err}}
	}
	t, err := source.Load(ctx)
	return []side{{source.Name(), t, err}}
}

// replicaSides returns the tables of replicas. With first it returns one table per cluster: from the first replica that answers.
func replicaSides(replies []reply[*tables.Table], first bool) []side {
	var all []side
	for _, r := range replies {
		if r.err != nil {
			all = append(all, side{name: r.cluster, err: r.err})
			continue
		}
		there := r.answered()
		if first && len(there) > 0 {
			all = append(all, side{strings.TrimSuffix(label(r.cluster, there[0].replica), ": "), there[0].value, nil})
			continue
		}
		for _, a := range r.answers {
			all = append(all, side{strings.TrimSuffix(label(r.cluster, a.replica), ": "), a.value, a.err})
		}
	}
	return all
}
