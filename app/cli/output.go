package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

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

// reported is what a command has to say about one cluster.
type reported struct {
	documentCluster
	rows  [][]string // of the table
	text  []byte     // of servers
	notes []string   // below
}

// note adds a sentence about replicas, or about the cluster.
func (one *reported) note(replicas, text string) {
	one.notes = append(one.notes, query.Label(one.Name, replicas)+text)
}

// tabulate prints the result of a command, as a document or as a table with texts and sentences below it, and returns the exit status: the
// worst of the clusters. each describes one of them, and returns its status. Who did not answer is named on standard error.
func tabulate[T any](s *session, command string, head []string, replies []query.Reply[T], each func(int, query.Reply[T], *reported) int) (int, error) {
	worst := result(Healthy)
	g, text, notes := &grid{}, []byte(nil), []string(nil)
	s.row(g, "CONTEXT", head)
	d := document{Command: command}
	for i, r := range replies {
		one := &reported{documentCluster: outline(r)}
		one.Result = result(each(i, r, one))
		worst = max(worst, one.Result)
		d.Clusters = append(d.Clusters, one.documentCluster)
		for _, cells := range one.rows {
			s.row(g, r.Cluster, cells)
		}
		text, notes = append(text, one.text...), append(notes, one.notes...)
	}
	if s.output == "json" {
		d.Result = worst
		return int(worst), writeDocument(s.std.Out, d)
	}
	var b strings.Builder
	if len(g.rows) > 1 {
		if g.write(&b); len(notes) > 0 {
			b.WriteByte('\n')
		}
	}
	b.WriteString(shadowdiff.PrintableLines(string(text)))
	writeLines(&b, notes)
	_, err := io.WriteString(s.std.Out, b.String())
	for _, r := range replies {
		writeLines(s.std.Err, r.Missing())
	}
	return int(worst), printing(err)
}

// outline returns a cluster with its replicas and their raw answers.
func outline[T any](r query.Reply[T]) documentCluster {
	d := documentCluster{Name: r.Cluster, Replicas: []documentReplica{}}
	if r.Err != nil {
		d.Error = r.Err.Error()
	}
	for _, a := range r.Answers {
		one := documentReplica{Name: a.Replica}
		if a.Err != nil {
			one.Error = a.Err.Error()
		} else if raw, ok := any(a.Value).(interface{ json() json.RawMessage }); ok {
			one.Answer = raw.json()
		}
		d.Replicas = append(d.Replicas, one)
	}
	return d
}

// silent returns [Trouble] if a replica that runs did not answer, or none did, else [Healthy].
func silent[T any](r query.Reply[T]) int {
	if len(r.Answered()) == 0 || slices.ContainsFunc(r.Answers, func(a query.Answer[T]) bool { return a.Err != nil && !a.Fault }) {
		return Trouble
	}
	return Healthy
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
type grid struct{ rows [][]string }

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

// write prints the table; the writer must not fail.
func (g *grid) write(w io.Writer) {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range g.rows {
		fmt.Fprintln(columns, strings.Join(row, "\t")+strings.Repeat("\t", len(g.rows[0])-len(row)))
	}
	columns.Flush()
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// writeLines prints sentences, each on a line.
func writeLines(w io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprintln(w, shadowdiff.Printable(l))
	}
}

// writeText prints the text of a server.
func writeText(w io.Writer, text []byte) error {
	_, err := io.WriteString(w, shadowdiff.PrintableLines(string(text)))
	return err
}

// age formats a duration as kubectl does, such as 12s, 5m or 3h.
func age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// seconds formats a number of seconds as an age.
func seconds(n float64) string { return age(time.Duration(n * float64(time.Second))) }

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
