package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
)

// holding describes the table that a replica holds; the zero value means none.
type holding struct {
	api.Guard
	text []byte
	raw  json.RawMessage
}

func (h *holding) json() json.RawMessage { return h.raw }

// askHeld reads the held table and its differences, as text and as JSON.
func askHeld(ctx context.Context, r Replica) (*holding, error) {
	var said api.HeldTable
	p, err := query.Get(ctx, r.Support, api.PathHeld, nil, &said, http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case p.Status == http.StatusNotFound && strings.HasPrefix(string(p.Body), "no table is held"):
		return &holding{}, nil
	case said.Hold == nil || said.Hold.Digest.IsZero():
		return nil, fmt.Errorf("/guard/held: %s: is this the support listener of a route server?", p.Text)
	}
	text, err := query.GetAs(ctx, r.Support, api.PathHeld, nil, "text/plain", http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case text.Status == http.StatusNotFound: // released between the two requests
		return &holding{}, nil
	}
	h := &holding{Guard: *said.Hold, raw: p.Body, text: withoutCommand(text.Body)}
	h.Held = true
	return h, nil
}

// withoutCommand removes the line that shows how to accept the table with curl, because that address is not reachable from here.
func withoutCommand(text []byte) []byte {
	var b strings.Builder
	head := true
	for line := range strings.Lines(string(text)) {
		if head = head && line != "\n"; head && strings.HasPrefix(line, "accept: ") {
			continue
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}

type heldJob struct{ noFlags }

func (heldJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askHeld)
	judge := func(_ int, r query.Reply[*holding]) documentCluster {
		one := Healthy
		for _, a := range r.Answers {
			switch {
			case a.Err != nil && !a.Fault:
				one = Trouble
			case a.Err == nil && a.Value.Held:
				one = max(one, Unhealthy)
			}
		}
		return outline(r, one)
	}
	return conclude(s, "held", replies, judge, func([]documentCluster) error {
		for _, r := range replies {
			if err := s.writeHeld(r); err != nil {
				return err
			}
			writeLines(s.std.Err, r.Missing())
		}
		return nil
	})
}

// writeHeld prints the tables that the replicas of a cluster hold, each digest once.
func (s *session) writeHeld(r query.Reply[*holding]) error {
	where := ", in the pod of each replica"
	if s.program.Remote || s.program.Beside {
		where = ""
	}
	if len(r.Answered()) == 0 {
		return nil
	}
	held := false
	for _, g := range agreeing(r, func(h *holding) string { return h.Digest.String() }) {
		if !g.value.Held {
			continue
		}
		held = true
		accept := s.program.Name + " accept " + s.acceptPlace(r.Cluster) + g.value.Digest.String() + " --why REASON"
		writeLines(s.std.Out, []string{"=== " + query.Label(r.Cluster, "") + "held by " + strings.Join(g.replicas, ", "), "To publish it" + where + ": " + accept, ""})
		if err := writeHead(s.std.Out, g.value.text); err != nil {
			return err
		}
	}
	if !held {
		writeLines(s.std.Out, []string{query.Label(r.Cluster, "") + "nothing is held"})
	}
	return nil
}

// maxHeldLines is how many lines of a comparison are printed.
const maxHeldLines = 60

// writeHead prints the first lines of a text, and how many more there are.
func writeHead(w io.Writer, text []byte) error {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if more := len(lines) - maxHeldLines; more > 1 {
		lines = append(lines[:maxHeldLines:maxHeldLines], fmt.Appendf(nil, "… and %d more lines: held -o json has all\n", more-1))
	}
	return writeText(w, bytes.Join(lines, nil))
}

// acceptPlace returns the arguments of accept before the digest: the cluster, and the flags that choose its pods.
func (s *session) acceptPlace(cluster string) string {
	place := ""
	if cluster != "" {
		place = "--context " + quoted(cluster) + " "
	}
	for _, name := range []string{"kubeconfig", "server-namespace", "selector", "support-port"} {
		if s.flags.Lookup(name) != nil && s.flags.Given(name) {
			place += "--" + name + " " + quoted(s.flags.Value(name)) + " "
		}
	}
	return place
}

// plainWord matches a word that needs no quotes in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`)

// quoted quotes a word for a shell.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// digestForm matches a digest.
var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// acceptJob publishes what is held: all, or with namespaces and objects (KIND/NAMESPACE/NAME) some of the kept objects.
type acceptJob struct {
	by, why             string
	namespaces, objects []string
	yes                 bool
}

func (j *acceptJob) define(flags *options.Flags) {
	flags.Add("-n,--namespace", options.Texts("NAME", &j.namespaces), "Only objects of this namespace. May be repeated.")
	flags.Add("--object", options.Texts("NAME", &j.objects), "Only this object, as KIND/NAMESPACE/NAME. May be repeated.")
	flags.Add("--by", options.Text("NAME", &j.by, ""),
		"Who decides this, in a pod; empty means the id of the user. kubectl routesrv asks the API server instead.")
	flags.Add("--why", options.Text("REASON", &j.why, ""), "The reason; required.")
	flags.Add("--yes", options.Bool(&j.yes, false), "Do not ask.")
}

func (j *acceptJob) run(ctx context.Context, s *session) (int, error) {
	digest := strings.ToLower(s.args[0])
	switch {
	case !digestForm.MatchString(digest):
		return Trouble, usagef("%q is not a digest: must be the 64 hexadecimal digits that %s held shows", s.args[0], s.program.Name)
	case strings.TrimSpace(j.why) == "":
		return Trouble, usagef("set --why to the reason")
	case len(s.clusters) != 1:
		return Trouble, usagef("choose one cluster: each holds a different table")
	case !j.yes && !s.std.InTerminal:
		return Trouble, usagef("stdin is not a terminal: use --yes")
	}
	if s.program.Remote && j.by != "" {
		writeLines(s.std.Err, []string{"--by has no effect here: the API server says who you are"})
	}
	r := ask(ctx, s, s.clusters, askHeld)[0]
	status, chosen := Healthy, map[string]string{} // the digest that each replica is to publish
	for _, a := range r.Answered() {
		switch {
		case !a.Value.Held:
		case a.Value.Digest.String() == digest:
			chosen[a.Replica] = digest
		default:
			writeLines(s.std.Err, []string{query.Label(r.Cluster, a.Replica) + "holds something else, " + a.Value.Digest.String() + ": look at it with the command held"})
			status = max(status, Unhealthy)
		}
	}
	writeLines(s.std.Err, r.Missing())
	if len(r.Missing()) > 0 {
		status = Trouble
	}
	if len(chosen) == 0 {
		writeLines(s.std.Err, []string{"nothing is held with this digest"})
		return max(status, Unhealthy), nil
	}
	j.show(s, r, chosen)
	if !j.yes {
		sure, err := confirm(s, number(len(chosen), "replica"), "Publish this on")
		if err != nil || !sure {
			fmt.Fprintln(s.std.Err, "nothing was changed")
			return max(status, Unhealthy), err
		}
	}
	// Do not ask replicas that hold nothing. found is keyed by name, since pods may have come and gone meanwhile.
	replies := ask(ctx, s, s.clusters, func(ctx context.Context, replica Replica) (*posted[api.Accepted], error) {
		if chosen[replica.Name] == "" {
			return nil, nil
		}
		form := url.Values{"digest": {digest}, "by": {j.by}, "why": {j.why}, "namespace": j.namespaces, "object": j.objects}
		return post[api.Accepted](ctx, replica, api.PathAccept, form)
	})
	return j.report(s, replies[0], chosen, status)
}

// show prints what is about to be published: the differences once, and which replicas hold the table.
func (j *acceptJob) show(s *session, r query.Reply[*holding], chosen map[string]string) {
	if s.output == "json" {
		return
	}
	var names []string
	for _, a := range r.Answered() {
		if chosen[a.Replica] == "" {
			continue
		}
		if names = append(names, a.Replica); len(names) == 1 {
			_ = writeHead(s.std.Out, a.Value.text)
		}
	}
	writeLines(s.std.Out, []string{"", "Held by " + query.Label(r.Cluster, "") + strings.Join(names, ", ")})
}

// confirm asks on the terminal.
func confirm(s *session, where, what string) (bool, error) {
	fmt.Fprintf(s.std.Err, "%s %s? Type yes: ", what, where)
	line, err := bufio.NewReader(s.std.In).ReadString('\n')
	if err != nil && line == "" {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(line) == "yes", nil
}

// report prints the result for every replica.
func (j *acceptJob) report(s *session, r query.Reply[*posted[api.Accepted]], chosen map[string]string, status int) (int, error) {
	var lines, failed []string
	left := len(chosen)
	for _, a := range r.Answers {
		switch {
		case chosen[a.Replica] == "":
			continue
		case a.Err != nil:
			failed = append(failed, query.Label(r.Cluster, a.Replica)+a.Err.Error())
		default:
			left--
			lines = append(lines, fmt.Sprintf("%sserves %s, %s", query.Label(r.Cluster, a.Replica), shortDigest(a.Value.said.Digest.String()), number(a.Value.said.Routes, "route")))
		}
	}
	if r.Err != nil {
		failed = append(failed, r.Missing()...)
	}
	if left > 0 {
		status = Trouble
	}
	if left > 0 && len(failed) == 0 {
		failed = append(failed, "a replica that held it is gone")
	}
	if s.output == "json" {
		d := outline(r, status)
		d.Result = result(status)
		return status, writeDocument(s.std.Out, document{Command: "accept", Result: d.Result, Clusters: []documentCluster{d}})
	}
	writeLines(s.std.Out, lines)
	writeLines(s.std.Err, failed)
	return status, nil
}
