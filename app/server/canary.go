package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/httpserve"
	"github.com/routesrv/routesrv/compile/rules"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

const (
	queryEvery   = 10 * time.Second
	queryTimeout = 5 * time.Second
	// promoteEvery is the maximum interval between checks for due changes; a promotion happens when it is due.
	promoteEvery = time.Second
	// promotedShown is how long teams see a promotion.
	promotedShown = 2 * time.Minute
	maxSeries     = 3 // in the text of a verdict
)

// CanaryConfig sets how long changes are served to the canary alone, and which query judges them.
type CanaryConfig struct {
	Soak time.Duration // 0 means that nothing soaks
	// Query is an alert expression, and Prometheus the server to query; set both or neither.
	Query      string
	Prometheus *url.URL
}

// canary serves the second table of a server, and queries Prometheus for harm it does.
type canary struct {
	s       *Server
	cache   *etagcache.Cache
	query   promv1.API // nil without a query
	queries *prometheus.CounterVec

	mu       sync.Mutex // guards the fields below
	verdict  publish.Verdict
	promoted []promotion // within promotedShown
}

type promotion struct {
	*publish.Kept
	at time.Time
}

// newCanary creates the second cache; nil without a soak time, or on a relay.
func newCanary(s *Server) (*canary, error) {
	cfg := s.cfg.Canary
	if cfg.Soak == 0 || s.cfg.Source == nil {
		return nil, nil
	}
	c := &canary{s: s, queries: series.In(s.registry).Counters("routesrv_canary_queries_total",
		"Canary queries: clear returned nothing, firing returned series, error was not answered.", "result", "clear", "firing", "error")}
	if cfg.Query != "" {
		client, err := promapi.NewClient(promapi.Config{Address: cfg.Prometheus.String()})
		if err != nil {
			return nil, fmt.Errorf("--prometheus: %w", err)
		}
		c.query = promv1.NewAPI(client)
	}
	var err error
	c.cache, err = etagcache.New(etagcache.Config{
		Logger: s.cfg.Logger.With("table", "canary"), Recheck: func() { s.tables.Recheck() }, MaxStreams: s.cfg.MaxStreams,
		Saw: func(seen etagcache.Seen) { s.clients.Saw(seen, true) },
		Published: func(order uint64, t *table.Table, _ bool) {
			s.clients.Published(order, nameOf(t), true)
		},
	})
	return c, err
}

// config returns the configuration of the publisher.
func (c *canary) config() publish.CanaryConfig {
	if c == nil {
		return publish.CanaryConfig{}
	}
	return publish.CanaryConfig{Sink: c.cache, Soak: c.s.cfg.Canary.Soak, Judged: c.query != nil, Promoted: c.note}
}

// note records a promotion. It does not block.
func (c *canary) note(list []*publish.Kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range list {
		c.promoted = append(c.promoted, promotion{k, time.Now()})
	}
}

// run promotes due changes, and queries Prometheus, until the context ends.
func (c *canary) run(ctx context.Context) {
	var asking sync.WaitGroup
	if c.query != nil {
		asking.Go(func() { c.ask(ctx) })
	}
	defer asking.Wait()
	for {
		wait := promoteEvery
		if at := c.s.publisher.NextPromotion(); !at.IsZero() {
			wait = min(wait, max(time.Until(at), 0)) // all replicas promote at the same moment
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			c.s.publisher.Promote()
		}
	}
}

// ask queries Prometheus until the context ends.
func (c *canary) ask(ctx context.Context) {
	for tick := time.NewTicker(queryEvery); ; {
		v := c.judge(ctx)
		if ctx.Err() != nil {
			tick.Stop()
			return
		}
		c.mu.Lock()
		was := c.verdict
		c.verdict = v
		c.mu.Unlock()
		result := "clear"
		switch {
		case v.Err:
			result = "error"
		case v.Firing:
			result = "firing"
		}
		c.queries.WithLabelValues(result).Inc()
		if v.Err && !was.Err {
			c.s.log.Error("canary query failed, soaks are extended", "error", v.Text)
		}
		c.s.publisher.Judge(v)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// judge queries once, as for an alert expression: every returned series fires.
func (c *canary) judge(ctx context.Context) publish.Verdict {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	v := publish.Verdict{At: time.Now()}
	value, _, _, err := c.query.Query(ctx, c.s.cfg.Canary.Query, v.At)
	switch found := value.(type) {
	case nil:
		err = cmp.Or(err, errors.New("no answer"))
	case *model.Scalar:
		v.Firing, v.Text = true, found.Value.String()
	case model.Vector:
		v.Firing, v.Text = len(found) > 0, "no series"
		var words []string
		for _, sample := range found[:min(len(found), maxSeries)] {
			words = append(words, sample.Metric.String()+" "+sample.Value.String())
		}
		if more := len(found) - maxSeries; more > 0 {
			words = append(words, fmt.Sprintf("%d more", more))
		}
		v.Text = cmp.Or(strings.Join(words, ", "), v.Text)
	default:
		err = fmt.Errorf("the query returns a %s; it must return an instant vector", value.Type())
	}
	if err != nil {
		v = publish.Verdict{At: v.At, Err: true, Text: err.Error()}
	}
	return v
}

// status returns the soaking changes; nil without a canary.
func (c *canary) status() *api.Canary {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	verdict := c.verdict
	c.mu.Unlock()
	all := c.s.publisher.Soaking()
	st := &api.Canary{
		SoakSeconds: c.s.cfg.Canary.Soak.Seconds(), Query: c.s.cfg.Canary.Query, Count: len(all),
		NextPromotion: c.s.publisher.NextPromotion(), Table: c.cache.Status(),
	}
	if c.query != nil && !verdict.At.IsZero() {
		st.Verdict = &api.CanaryVerdict{At: verdict.At, Firing: verdict.Firing, Failed: verdict.Err, Text: verdict.Text}
	}
	for _, k := range all {
		if k.Soak.Halted != "" {
			st.Halted++
		}
		if len(st.Objects) < api.MaxSoaking {
			st.Objects = append(st.Objects, api.Soaking{
				Ref: k.Ref, Detail: k.Detail, Since: k.Since, Until: k.Until, Began: k.Soak.Began, Halted: k.Soak.Halted, By: k.By,
				Capped: k.Since.After(k.Soak.Began) && !k.Until.Equal(k.Since.Add(c.s.cfg.Canary.Soak)), Served: k.Served(), Waits: k.Waits(),
			})
		}
	}
	return st
}

// problems returns soaking and halted changes, and recent promotions, as problems of their objects.
func (c *canary) problems(since time.Time) (all []poller.Problem) {
	if c == nil {
		return nil
	}
	for _, k := range c.s.publisher.Soaking() {
		p := rules.Problem{Owner: k.Ref, Reason: rules.Soaking, Severity: rules.Info,
			Message: fmt.Sprintf("served %s, %s soaks on the canary until %s", k.Served(), k.Waits(), k.Until.Format(time.RFC3339))}
		if k.Soak.Halted != "" {
			p.Reason, p.Severity = rules.Halted, rules.Warning
			p.Message = fmt.Sprintf("served %s, %s was halted on the canary: %s", k.Served(), k.Waits(), k.Soak.Halted)
		}
		all = append(all, poller.Problem{Since: k.Since, Problem: p})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.promoted) > 0 && time.Since(c.promoted[0].at) > promotedShown {
		c.promoted = c.promoted[1:]
	}
	for _, k := range c.promoted {
		if k.at.After(since) && !k.Deleted {
			all = append(all, poller.Problem{Since: k.at, Problem: rules.Problem{
				Owner: k.Ref, Reason: rules.Promoted, Severity: rules.Info,
				Message: "the change of " + k.Since.Format(time.RFC3339) + " has soaked on the canary and is served to all proxies",
			}})
		}
	}
	return all
}

// canaryEndpoints returns the endpoints of the canary. Without a canary they serve the table of the fleet, so that manifests can
// be prepared.
func (s *Server) canaryEndpoints(routes, streams http.Handler) []httpserve.Endpoint {
	if s.canary != nil {
		routes = s.canary.cache.Handler()
		streams = routes
	}
	get := []string{http.MethodGet, http.MethodHead}
	at := func(h http.Handler) http.Handler { return http.StripPrefix(api.PathCanary, h) }
	all := []httpserve.Endpoint{
		{Path: api.PathCanary + "/routes", Methods: get, ChecksMethods: true, Handler: at(routes),
			Does: "the table of the [canary](../operate/before-a-change.md#canary), like `/routes`; without `--canary` the same table"},
		{Path: api.PathCanary + "/routes/{zone}", Methods: get, ChecksMethods: true, Handler: at(routes),
			Does: "the same for the proxies of one zone"},
		{Path: api.PathCanary + api.PathClients, Methods: []string{http.MethodPost}, MaxBody: fleet.MaxReport,
			Handler: http.HandlerFunc(s.serveReport), Does: "takes the report of a client of the canary"},
	}
	if s.cfg.MaxStreams > 0 {
		all = append(all, httpserve.Endpoint{
			Path: api.PathCanary + "/routes/watch", Methods: []string{http.MethodGet}, ChecksMethods: true, Handler: at(streams),
			Does: "the table of the canary and its changes, like `/routes/watch`", Condition: "unless `--max-streams` is 0",
		})
	}
	return all
}
