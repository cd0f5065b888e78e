package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Schema names the form of -o json. Within one version, fields are only added.
const Schema = "routesrv.cli/v1"

// document is the form of -o json, the same for all commands.
type document struct {
	Schema   string            `json:"schema"`
	Command  string            `json:"command"`
	Result   result            `json:"result"`
	Clusters []documentCluster `json:"clusters,omitzero"`

	// Errors and Comparisons are set by diff, which has no clusters.
	Errors      []string          `json:"errors,omitempty"`
	Comparisons []json.RawMessage `json:"comparisons,omitzero"`
}

type documentCluster struct {
	Name     string            `json:"name,omitempty"` // of the context
	Result   result            `json:"result"`
	Error    string            `json:"error,omitempty"` // why the replicas could not be found
	Wrong    []string          `json:"wrong,omitempty"` // problems, one sentence each
	Replicas []documentReplica `json:"replicas"`
	// Answer is the merged answer of the replicas, for commands that merge.
	Answer any `json:"answer,omitempty"`
}

type documentReplica struct {
	Name   string          `json:"name"`
	Error  string          `json:"error,omitempty"`  // why there is no answer
	Wrong  []string        `json:"wrong,omitempty"`  // problems, one sentence each
	Answer json.RawMessage `json:"answer,omitempty"` // as the replica sent it

	differs bool // from other replicas, without a majority
}

// result is an exit status, which a document shows as a word.
type result int

// MarshalText implements [encoding.TextMarshaler].
func (r result) MarshalText() ([]byte, error) {
	return []byte([...]string{Healthy: "healthy", Unhealthy: "unhealthy", Trouble: "trouble"}[r]), nil
}

// writeDocument prints -o json. It escapes characters in strings that could affect a terminal.
func writeDocument(w io.Writer, d document) error {
	d.Schema = Schema
	return printing(shadowdiff.WriteJSONValue(w, d))
}

// printing reports that a result could not be printed, unless err is nil.
func printing(err error) error {
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// answer is what a replica answered, with the JSON as it was sent.
type answer[T any] struct {
	said T
	raw  json.RawMessage
}

func (a *answer[T]) json() json.RawMessage {
	if a == nil {
		return nil // the replica was not asked
	}
	return a.raw
}

// rawAnswer is implemented by answers that a document shows as the replica sent them.
type rawAnswer interface{ json() json.RawMessage }

// outline returns a cluster with its replicas and their raw answers. Its result is trouble if no replica answered, else status.
func outline[T any](r query.Reply[T], status int) documentCluster {
	d := documentCluster{Name: r.Cluster, Replicas: []documentReplica{}}
	if r.Err != nil {
		d.Error = r.Err.Error()
	}
	for _, a := range r.Answers {
		one := documentReplica{Name: a.Replica}
		if a.Err != nil {
			one.Error = a.Err.Error()
		} else if raw, ok := any(a.Value).(rawAnswer); ok {
			one.Answer = raw.json()
		}
		d.Replicas = append(d.Replicas, one)
	}
	if len(r.Answered()) == 0 {
		status = Trouble
	}
	d.Result = result(status)
	return d
}

// conclude prints the result of a command, as a document or as the text of write, and returns the exit status: the worst of the
// clusters. judge describes one of them.
func conclude[T any](s *session, command string, replies []query.Reply[T], judge func(int, query.Reply[T]) documentCluster, write func() error) (int, error) {
	worst := result(Healthy)
	docs := make([]documentCluster, len(replies))
	for i, r := range replies {
		docs[i] = judge(i, r)
		worst = max(worst, docs[i].Result)
	}
	if s.output == "json" {
		return int(worst), writeDocument(s.std.Out, document{Command: command, Result: worst, Clusters: docs})
	}
	return int(worst), printing(write())
}

// reported is what a command has to say about one cluster.
type reported struct {
	documentCluster
	rows  [][]string
	notes []string // sentences below the table
}

// tabulate prints the result of a command like conclude, as text in a table with sentences below it.
func tabulate[T any](s *session, command string, head []string, replies []query.Reply[T], each func(int, query.Reply[T]) reported) (int, error) {
	g := &grid{}
	s.row(g, "CONTEXT", head)
	var notes []string
	judge := func(i int, r query.Reply[T]) documentCluster {
		one := each(i, r)
		for _, cells := range one.rows {
			s.row(g, r.Cluster, cells)
		}
		notes = append(notes, one.notes...)
		return one.documentCluster
	}
	return conclude(s, command, replies, judge, func() error {
		if len(g.rows) > 1 {
			if err := g.write(s.std.Out); err != nil {
				return err
			}
			if len(notes) > 0 {
				fmt.Fprintln(s.std.Out)
			}
		}
		writeLines(s.std.Out, notes)
		return nil
	})
}

// row adds a row. It begins with the name of the cluster if there are several.
func (s *session) row(g *grid, cluster string, cells []string) {
	if s.named {
		cells = append([]string{cluster}, cells...)
	}
	g.add(cells...)
}

// agreement is an answer with the replicas that gave it.
type agreement[T any] struct {
	replicas []string
	value    T
}

// agreeing groups the replicas whose answers have the same key, in the order of the first replica of each group.
func agreeing[T any](r query.Reply[T], key func(T) string) (all []*agreement[T]) {
	at := make(map[string]*agreement[T])
	for _, a := range r.Answered() {
		g := at[key(a.Value)]
		if g == nil {
			g = &agreement[T]{value: a.Value}
			at[key(a.Value)] = g
			all = append(all, g)
		}
		g.replicas = append(g.replicas, a.Replica)
	}
	return all
}

// grid is a text table. The first row is the longest.
type grid struct {
	rows [][]string
}

// maxCell limits a cell, in characters.
const maxCell = 80

func (g *grid) add(cells ...string) {
	for i, c := range cells {
		c = shadowdiff.Printable(c)
		if r := []rune(c); len(r) > maxCell && i < len(cells)-1 {
			c = string(r[:maxCell-1]) + "…"
		}
		if c == "" {
			c = "-"
		}
		cells[i] = c
	}
	g.rows = append(g.rows, cells)
}

func (g *grid) write(w io.Writer) error {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range g.rows {
		fmt.Fprintln(columns, strings.Join(row, "\t")+strings.Repeat("\t", len(g.rows[0])-len(row)))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// writeLines prints sentences, each on a line.
func writeLines(w io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(w, shadowdiff.Printable(l))
	}
}

// writeText prints the text of a server line by line.
func writeText(w io.Writer, text []byte) error {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(shadowdiff.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// age formats a duration in one unit, such as 12s, 5m, 3h or 4d.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// since returns the age of a moment, or "" for none.
func (s *session) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(s.now().Sub(t))
}

// shortDigest returns the first characters of a digest.
func shortDigest(d string) string {
	if len(d) > 12 {
		return d[:12]
	}
	return d
}
