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
	text, err := r.Support.do(ctx, http.MethodGet, api.PathHeld, nil, "text/plain")
	if err != nil {
		return nil, err
	}
	h := &holding{Guard: *said.Hold, raw: p.body}
	switch text.status {
	case http.StatusOK:
		h.text = withoutCommand(text.body)
	case http.StatusNotFound: // released between the two requests
		return &holding{}, nil
	default:
		return nil, text.refusal(api.PathHeld)
	}
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
		d := outline(r, one)
		for k, a := range r.answers {
			if a.err == nil {
				d.Replicas[k].Answer = a.value.raw
			}
		}
		return d
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
	order, groups := byDigest(r)
	if len(order) == 0 && len(r.answered()) > 0 {
		writeLines(s.std.Out, []string{label(r.cluster, "") + "nothing is held"})
	}
	for _, digest := range order {
		g := groups[digest]
		writeLines(s.std.Out, []string{"=== " + label(r.cluster, "") + "held by " + strings.Join(g.replicas, ", ")})
		if err := writeText(s.std.Out, g.held.text); err != nil {
			return err
		}
		fmt.Fprintln(s.std.Out)
		writeLines(s.std.Out, []string{"To publish it" + where + ": " + s.program.Name + " accept " + s.acceptPlace(r.cluster) + digest + " --why REASON"})
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

type heldBy struct {
	replicas []string
	held     *holding
}

// byDigest groups the replicas by the table that they hold, in the order of the first replica of each group.
func byDigest(r reply[*holding]) (order []string, groups map[string]*heldBy) {
	groups = make(map[string]*heldBy)
	for _, a := range r.answered() {
		if !a.value.Held {
			continue
		}
		g := groups[a.value.Digest.String()]
		if g == nil {
			g = &heldBy{held: a.value}
			groups[a.value.Digest.String()] = g
			order = append(order, a.value.Digest.String())
		}
		g.replicas = append(g.replicas, a.replica)
	}
	return order, groups
}
