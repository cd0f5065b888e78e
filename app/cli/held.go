package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/api"
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
	h := &holding{Guard: *said.Hold, raw: p.Body, text: text.Body}
	if head := bytes.Index(h.text, []byte("\n\n")) + 1; head > 0 {
		h.text = slices.Concat(acceptLine.ReplaceAll(h.text[:head], nil), h.text[head:])
	}
	h.Held = true
	return h, nil
}

// acceptLine says how to accept the table in the pod: these programs have a command for it.
var acceptLine = regexp.MustCompile(`(?m)^accept: .*\n`)

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
		writeLines(s.std.Out, []string{"=== " + query.Label(r.Cluster, "") + "held by " + strings.Join(g.replicas, ", "), "To publish it: " + accept, ""})
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

// writeHead prints the first lines of a text, and the number of omitted ones.
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
