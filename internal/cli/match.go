package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones for Before, After and Between: the image has no zone files

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
)

type matchJob struct {
	request match.Request
	proxy   match.Options
	headers []string // as given
	at      string
}

func newMatchJob() job {
	return &matchJob{proxy: match.Options{ValidateQuery: true, Candidates: match.DefaultCandidates, Zone: time.LoadLocation}}
}

// clientTime is the flag for when the request arrives.
const clientTime = "at"

func (j *matchJob) define(flags *config.Parser) {
	j.request.Header = map[string][]string{}
	flags.Ask("request", config.Text("METHOD", &j.request.Method, "GET", func(s string) error {
		if s == "" || strings.ContainsAny(s, " \t\r\n") {
			return fmt.Errorf("%q: want a method such as POST", s)
		}
		return nil
	}))
	flags.Ask("header", config.Repeated("'NAME: VALUE'", func(s string) error {
		j.headers = append(j.headers, s)
		return report.AddHeader(&j.request, s)
	}))
	flags.Ask("from", config.Text("ADDRESS", &j.request.RemoteAddr, "", func(s string) error {
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Errorf("%q: want the IP address from which the connection comes", s)
		}
		return nil
	}))
	flags.Ask(clientTime, config.Text("TIME", &j.at, "", func(s string) (err error) {
		if j.request.Time, err = time.Parse(time.RFC3339, s); err != nil {
			err = fmt.Errorf("%q: want a time as in 2026-12-24T18:00:00+01:00", s)
		}
		return err
	}))
	flags.Ask("candidates", config.Number(&j.proxy.Candidates, match.DefaultCandidates, 0, 1000))
	defineProxy(flags, &j.proxy)
}

// defineProxy adds the flags that say how the proxies are set.
func defineProxy(flags *config.Parser, proxy *match.Options) {
	flags.Ask("normalize-host", config.Bool(&proxy.NormalizeHost, false))
	flags.Ask("ignore-trailing-slash", config.Bool(&proxy.IgnoreTrailingSlash, false))
	flags.Ask("rfc-patch-path", config.Bool(&proxy.RFCPatchPath, false))
	flags.Ask("validate-query", config.Bool(&proxy.ValidateQuery, true))
	flags.Ask("disabled-filters", config.List(&proxy.DisabledFilters))
}

func (j *matchJob) run(ctx context.Context, s *session) (int, error) {
	if err := report.SetURL(&j.request, s.args[0]); err != nil {
		return Trouble, usageError{&config.Error{Flag: "URL", Err: err}}
	}
	if len(s.args) == 2 {
		return s.say(j.here(ctx, s, s.args[1]))
	}
	return j.there(ctx, s)
}

// here finds the route in the table of one place.
func (j *matchJob) here(ctx context.Context, s *session, place string) (*spoken, error) {
	all, compiler, err := s.load(ctx, place)
	if err != nil {
		return nil, err
	}
	loaded := all[0]
	if j.at == "" {
		j.request.Time, j.request.Slack = s.now().UTC(), report.ClockSlack
	}
	if j.proxy.Candidates == 0 {
		j.proxy.Candidates = -1
	}
	o := s.server.Compile
	j.proxy.ExtraFilters, j.proxy.ExtraPredicates, j.proxy.ForwardBackendURL = o.ExtraFilters, o.ExtraPredicates, o.ForwardBackendURL
	table, refusals := match.New(loaded.Routes, j.proxy)
	v := report.View{
		Request: j.request, URL: s.args[0], Table: loaded.name, Routes: len(loaded.Routes), Refusals: refusals, Result: table.Find(j.request), Owner: compiler.owners(),
	}
	var text, raw bytes.Buffer
	if err := v.WriteText(&text); err != nil {
		return nil, err
	}
	if err := v.WriteJSON(&raw); err != nil {
		return nil, err
	}
	a := &spoken{text: text.Bytes(), raw: raw.Bytes(), status: Unhealthy}
	if v.Matched() {
		a.status = Healthy
	}
	return a, nil
}

// matched is the part of a match in JSON that this command uses.
type matched struct {
	Schema string `json:"schema"`
	Result string `json:"result"`
	Answer *struct {
		Status int `json:"status"`
	} `json:"answer"`
	Outcomes []struct {
		Route *struct {
			ID      string `json:"id"`
			Filters []string
			Backend string
		} `json:"route"`
		Undecided []struct{ Predicate string } `json:"undecided"`
	} `json:"outcomes"`
}

// there asks the replicas.
func (j *matchJob) there(ctx context.Context, s *session) (int, error) {
	q := url.Values{"url": {s.args[0]}, "method": {j.request.Method}, "header": j.headers}
	for name, val := range map[string]string{"from": j.request.RemoteAddr, clientTime: j.at} {
		if val != "" {
			q.Set(name, val)
		}
	}
	for name, val := range map[string]bool{
		"normalize-host": j.proxy.NormalizeHost, "ignore-trailing-slash": j.proxy.IgnoreTrailingSlash, "rfc-patch-path": j.proxy.RFCPatchPath,
		"validate-query": j.proxy.ValidateQuery,
	} {
		if s.parser.Given(name) {
			q.Set(name, strconv.FormatBool(val))
		}
	}
	return s.speak("match", ask(ctx, s, s.clusters, func(ctx context.Context, r Replica) (*spoken, error) {
		m := &matched{}
		p, err := get(ctx, r.Support, api.PathMatch, q, m, http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		if m.Schema == "" {
			return nil, fmt.Errorf("/match: %s: is this the support listener of a route server?", p.text)
		}
		key, err := json.Marshal([]any{m.Result, m.Answer, m.Outcomes})
		if err != nil {
			return nil, err
		}
		a := &spoken{key: string(key), raw: p.body, status: Unhealthy}
		if m.Result == "match" {
			a.status = Healthy
		}
		if s.output == "json" {
			return a, nil
		}
		text, err := getAs(ctx, r.Support, api.PathMatch, q, "text/plain", http.StatusNotFound)
		if err != nil {
			return nil, err
		}
		a.text = text.body
		return a, nil
	}))
}
