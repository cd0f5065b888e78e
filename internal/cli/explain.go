package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/shadowdiff"
)

type explainJob struct{}

func (explainJob) define(*config.Parser) {}

// askExplain asks the support listener of a route server.
func askExplain(ctx context.Context, l *Listener, query explain.Query) (*explain.Explanation, []byte, error) {
	q := url.Values{}
	for name, val := range map[string]string{
		"kind": string(query.Kind), "namespace": query.Namespace, "name": query.Name, "route": query.Route, "host": query.Host,
	} {
		if val != "" {
			q.Set(name, val)
		}
	}
	e := &explain.Explanation{}
	p, err := get(ctx, l, api.PathExplain, q, e, http.StatusNotFound)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case e.Schema == "" && p.status == http.StatusNotFound:
		return nil, nil, fmt.Errorf("/explain: %s %q: this is for the support listener of a route server that reads a cluster", p.text, p.line())
	case e.Schema != explain.Schema:
		return nil, nil, errors.New("the route server explains by the schema " + e.Schema + ", and this program knows " + explain.Schema)
	}
	return e, p.body, nil
}

// spoken is an answer of one replica in text form.
type spoken struct {
	key    string // equal for answers with the same meaning
	text   []byte
	raw    json.RawMessage
	status int
}

func spokenKey(a *spoken) string { return a.key }

func (a *spoken) json() json.RawMessage { return a.raw }

// explained returns an explanation as an answer. raw is its JSON.
func explained(e *explain.Explanation, raw []byte) (*spoken, error) {
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil {
		return nil, err
	}
	a := &spoken{key: e.Result + "\n" + e.Cause, text: text.Bytes(), raw: raw, status: Unhealthy}
	if e.Result == "fine" || e.Result == rules.Info.String() {
		a.status = Healthy
	}
	return a, nil
}

func (explainJob) run(ctx context.Context, s *session) (int, error) {
	what, place := s.args, ""
	if !s.program.Remote {
		what, place = s.args[:len(s.args)-1], s.args[len(s.args)-1]
	}
	query, err := explain.ParseQuery(what...)
	if err != nil {
		return Trouble, usageError{err}
	}
	switch {
	case isURL(place):
		if s.clusters, _, err = s.places.Clusters([]string{strings.TrimSuffix(strings.TrimSuffix(place, "/"), api.PathExplain)}); err != nil {
			return Trouble, usageError{err}
		}
	case place != "":
		e, err := s.explainManifests(ctx, place, query)
		if err != nil {
			return Trouble, err
		}
		raw, err := json.Marshal(e)
		if err != nil {
			return Trouble, err
		}
		return s.say(explained(e, raw))
	}
	return s.speak("explain", ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*spoken, error) {
		e, raw, err := askExplain(ctx, r.Support, query)
		if err != nil {
			return nil, err
		}
		return explained(e, raw)
	}))
}

func isURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// say prints the answer about a table that was an argument.
func (s *session) say(a *spoken, err error) (int, error) {
	if err != nil {
		return Trouble, err
	}
	if s.output == "json" {
		err = shadowdiff.WriteJSONValue(s.std.Out, a.raw, "  ")
	} else {
		_, err = s.std.Out.Write(a.text) // as our own code made it
	}
	if err != nil {
		return Trouble, fmt.Errorf("print the result: %w", err)
	}
	return a.status, nil
}

// speak prints text answers, each once for the replicas that agree, and returns the exit status.
func (s *session) speak(name string, replies []reply[*spoken]) (int, error) {
	if answers := replies[0].answered(); !s.program.Remote && len(replies[0].answers) == 1 && len(answers) == 1 {
		return s.say(answers[0].value, nil) // of the only URL
	}
	judge := func(_ int, r reply[*spoken]) documentCluster {
		one := Healthy
		for _, a := range r.answered() {
			one = max(one, a.value.status)
		}
		disagree := len(agreeing(r, spokenKey)) > 1
		if disagree {
			one = max(one, Unhealthy)
		}
		d := outline(r, one)
		if disagree {
			d.Wrong = []string{"the replicas disagree"}
		}
		return d
	}
	return conclude(s, name, replies, judge, func([]documentCluster) error {
		for i, r := range replies {
			if err := s.writeAgreements(r, i > 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeAgreements prints each answer of a cluster once, with the replicas that gave it if there are several. later answers begin with
// an empty line.
func (s *session) writeAgreements(r reply[*spoken], later bool) error {
	groups := agreeing(r, spokenKey)
	for k, g := range groups {
		var heads []string
		if s.named {
			heads = append(heads, r.cluster)
		}
		if len(groups) > 1 {
			heads = append(heads, strings.Join(g.replicas, ", "))
		}
		if later || k > 0 {
			fmt.Fprintln(s.std.Out)
		}
		if len(heads) > 0 {
			writeLines(s.std.Out, []string{"=== " + strings.Join(heads, ": ")})
		}
		if err := writeText(s.std.Out, g.value.text); err != nil {
			return err
		}
	}
	if len(groups) > 1 {
		writeLines(s.std.Err, []string{label(r.cluster, "") + "the replicas disagree"})
	}
	writeLines(s.std.Err, r.missing())
	return nil
}
