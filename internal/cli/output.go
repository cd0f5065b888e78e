package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/routesrv/routesrv/shadowdiff"
)

// Schema names the form of -o json. Within one version, fields are only added.
const Schema = "routesrv.cli/v1"

// document is the form of -o json, the same for all commands.
type document struct {
	Schema  string `json:"schema"`
	Command string `json:"command"`
	// Result is healthy, unhealthy or trouble, like the exit status.
	Result   string            `json:"result"`
	Clusters []documentCluster `json:"clusters"`
}

type documentCluster struct {
	Name     string            `json:"name,omitempty"` // of the context
	Result   string            `json:"result"`
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

// resultName returns the word for an exit status.
func resultName(status int) string {
	return [...]string{Healthy: "healthy", Unhealthy: "unhealthy", Trouble: "trouble"}[status]
}

// writeDocument prints -o json. It escapes characters in strings that could affect a terminal.
func writeDocument(w io.Writer, command string, status int, clusters []documentCluster) error {
	if err := shadowdiff.WriteJSONValue(w, document{Schema, command, resultName(status), clusters}, "  "); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// conclude prints the result of a command, as a document or as the text of write, and returns the exit status: the worst of the
// clusters. judge describes one of them.
func conclude[T any](s *session, command string, replies []reply[T], judge func(int, reply[T]) documentCluster, write func([]documentCluster) error) (int, error) {
	status := Healthy
	docs := make([]documentCluster, len(replies))
	for i, r := range replies {
		docs[i] = judge(i, r)
		status = max(status, statusOf(docs[i].Result))
	}
	if s.output == "json" {
		return status, writeDocument(s.std.Out, command, status, docs)
	}
	if err := write(docs); err != nil {
		return Trouble, fmt.Errorf("print the result: %w", err)
	}
	return status, nil
}

// statusOf returns the exit status for the word of a result.
func statusOf(result string) int {
	for _, s := range []int{Unhealthy, Trouble} {
		if result == resultName(s) {
			return s
		}
	}
	return Healthy
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

// number returns a count with its noun.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shortDigest returns the first characters of a digest.
func shortDigest(d string) string {
	if len(d) > 12 {
		return d[:12]
	}
	return d
}
