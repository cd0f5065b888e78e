package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/query"
)

// askHeld reads the held table and its differences. The key of the answer is the digest, empty if nothing is held.
func askHeld(ctx context.Context, r Replica) (*spoken, error) {
	nothing := &spoken{text: []byte("nothing is held\n")}
	var said api.HeldTable
	p, err := query.Get(ctx, r.Support, api.PathHeld, nil, &said, http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case p.Status == http.StatusNotFound && strings.HasPrefix(string(p.Body), "no table is held"):
		return nothing, nil
	case said.Hold == nil || said.Hold.Digest.IsZero():
		return nil, fmt.Errorf("/guard/held: %s: is this the support listener of a route server?", p.Text)
	}
	text, err := query.GetAs(ctx, r.Support, api.PathHeld, nil, "text/plain", http.StatusNotFound)
	switch {
	case err != nil:
		return nil, err
	case text.Status == http.StatusNotFound: // released between the two requests
		return nothing, nil
	}
	return &spoken{key: said.Hold.Digest.String(), text: headOf(text.Body), raw: p.Body, status: Unhealthy}, nil
}

// acceptLine says how to accept the table in the pod: these programs have a command for it.
var acceptLine = regexp.MustCompile(`(?m)^accept: .*\n`)

// maxHeldLines is how many lines of a comparison are printed.
const maxHeldLines = 60

// headOf returns the first lines of a comparison, with the number of omitted ones.
func headOf(text []byte) []byte {
	if end := bytes.Index(text, []byte("\n\n")) + 1; end > 0 {
		text = slices.Concat(acceptLine.ReplaceAll(text[:end], nil), text[end:])
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if more := len(lines) - maxHeldLines; more > 1 {
		lines = append(lines[:maxHeldLines:maxHeldLines], fmt.Appendf(nil, "… and %d more lines: held -o json has all\n", more-1))
	}
	return bytes.Join(lines, nil)
}

func runHeld(ctx context.Context, s *session) (int, error) {
	replies := ask(ctx, s, s.clusters, askHeld)
	for _, r := range replies {
		for _, a := range r.Answered() {
			if a.Value.key != "" {
				a.Value.text = fmt.Appendf(nil, "To publish it: %s accept %s%s --why REASON\n\n%s", s.program.Name, s.acceptPlace(r.Cluster), a.Value.key, a.Value.text)
			}
		}
	}
	return s.speak("held", replies)
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
