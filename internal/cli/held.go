package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/config"
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
	p, err := r.Support.get(ctx, api.PathHeld, nil, &said, http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case p.status == http.StatusNotFound && strings.HasPrefix(string(p.body), "no table is held"):
		return &holding{}, nil
	case said.Hold == nil || said.Hold.Digest.IsZero():
		return nil, fmt.Errorf("/guard/held: %s: is this the support listener of a route server?", p.text)
	}
	text, err := r.Support.getAs(ctx, api.PathHeld, nil, "text/plain", http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case text.status == http.StatusNotFound: // released between the two requests
		return &holding{}, nil
	}
	h := &holding{Guard: *said.Hold, raw: p.body, text: withoutCommand(text.body)}
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

type heldJob struct{}

func (heldJob) define(*config.Parser) {}

func (heldJob) run(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askHeld)
	judge := func(_ int, r reply[*holding]) documentCluster {
		one := Healthy
		for _, a := range r.answers {
			switch {
			case a.err != nil && !a.fault:
				one = Trouble
			case a.err == nil && a.value.Held:
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
			writeLines(s.std.Err, r.missing())
		}
		return nil
	})
}

// writeHeld prints the tables that the replicas of a cluster hold, each digest once.
func (s *session) writeHeld(r reply[*holding]) error {
	where := ", in the pod of each replica"
	if s.program.Remote || s.program.Beside {
		where = ""
	}
	if len(r.answered()) == 0 {
		return nil
	}
	held := false
	for _, g := range agreeing(r, func(h *holding) string { return h.Digest.String() }) {
		if !g.value.Held {
			continue
		}
		held = true
		writeLines(s.std.Out, []string{"=== " + label(r.cluster, "") + "held by " + strings.Join(g.replicas, ", ")})
		if err := writeText(s.std.Out, g.value.text); err != nil {
			return err
		}
		fmt.Fprintln(s.std.Out)
		accept := s.program.Name + " accept " + s.acceptPlace(r.cluster) + g.value.Digest.String() + " --why REASON"
		writeLines(s.std.Out, []string{"To publish it" + where + ": " + accept})
	}
	if !held {
		writeLines(s.std.Out, []string{label(r.cluster, "") + "nothing is held"})
	}
	return nil
}

// acceptPlace returns the arguments of accept before the digest: the cluster, and the flags that choose its pods.
func (s *session) acceptPlace(cluster string) string {
	place := ""
	if cluster != "" {
		place = "--context " + quoted(cluster) + " "
	}
	for _, name := range []string{"kubeconfig", "namespace", "selector", "support-port"} {
		if s.parser.Given(name) {
			place += "--" + name + " " + quoted(s.parser.Value(name)) + " "
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
