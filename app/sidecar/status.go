package sidecar

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/series"
	"github.com/routesrv/routesrv/poller"
	"github.com/routesrv/routesrv/rollout"
)

// modeReport is the immutable state of the controller after a step.
type modeReport struct {
	Mode          rollout.Mode              `json:"mode"`  // in force
	Asked         rollout.Mode              `json:"asked"` // the mode that the setting means for this pod
	Setting       rollout.Setting           `json:"setting"`
	Refused       string                    `json:"refused,omitempty"` // why Asked is not in force, and what to do
	ModeFileError string                    `json:"mode_file_error,omitempty"`
	Origin        origin                    `json:"origin"`
	Rank          *int64                    `json:"rank,omitempty"` // if the setting is a number of nodes; -1 while it is not known
	pre           *fleet.Pre                // for the report, likewise
	CutoverReady  *bool                     `json:"cutover_ready,omitempty"` // as the metric of this name; only in mode Pre
	Cutover       *cutoverReport            `json:"cutover,omitempty"`       // in mode Pre
	Switch        *switchReport             `json:"switch,omitempty"`        // a switch to another producer, in progress
	Fallback      *rollout.FallbackDecision `json:"fallback,omitempty"`      // in mode Exec
}

type cutoverReport struct {
	Ready        bool    `json:"ready"`
	Reason       string  `json:"reason,omitempty"` // why it is not ready
	CleanSeconds float64 `json:"clean_seconds"`
	Comparisons  int     `json:"clean_comparisons"`
	Differences  int     `json:"differences"`
	trouble      string  // why no comparison is possible now
}

type switchReport struct {
	To      origin    `json:"to"`
	Since   time.Time `json:"since,omitzero"` // time of the producer's first table
	Waiting string    `json:"waiting"`
	Guard   api.Guard `json:"guard"`
}

// report publishes the state for handlers and metrics.
func (c *controller) report(now time.Time) {
	d := c.decision
	v := &modeReport{Mode: d.Mode, Asked: d.Asked, Setting: c.decider.Setting(), Refused: d.Refused, Origin: c.origin()}
	if v.Setting.Count > 0 {
		v.Rank = new(c.rank.Load())
	}
	if c.modes != nil {
		v.ModeFileError = c.modes.problem
	}
	if d.Mode == rollout.Pre {
		e := c.shadow.evidence(now, d.Mode)
		r := c.cfg.Cutover.Judge(e)
		v.CutoverReady = &r.Ready
		v.Cutover = &cutoverReport{r.Ready, r.Reason, e.CleanFor.Seconds(), e.Comparisons, e.Differences, e.Trouble}
		if first := c.shadow.first; !first.IsZero() {
			v.pre = &fleet.Pre{Seconds: max(0, now.Sub(first).Seconds()), Differences: e.Differences, Ready: r.Ready}
			if e.Trouble == "" {
				v.pre.CleanSeconds = e.CleanFor.Seconds()
			}
		}
	}
	if x := c.served.Pending(); c.origin() != c.target || x != nil {
		v.Switch = &switchReport{To: c.target, Waiting: "it has not shown a table yet"}
		if x != nil {
			v.Switch.Since, v.Switch.Waiting, v.Switch.Guard = x.Since, x.Waiting, x.Guard.Guard
		}
	}
	if f := c.falling; d.Mode == rollout.Exec {
		v.Fallback = &f
	}
	c.shown.Store(v)
	c.metrics.show(v)
}

// statusReport is the body of /status.
type statusReport struct {
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Pod     string    `json:"pod"`
	// Share says whether the node or the pod decides about the share of the fleet here, and its name.
	Share rollout.Member `json:"share"`
	*modeReport
	Ready      bool              `json:"ready"`
	Fresh      bool              `json:"fresh"`
	Table      *api.Table        `json:"table,omitempty"`
	Self       *selfReport       `json:"self,omitempty"`      // while a table is computed
	Fetch      *dataplane.Status `json:"fetch,omitempty"`     // while a table is fetched
	Decisions  []api.Decision    `json:"decisions,omitempty"` // about held tables, newest first
	RoutesFile *api.File         `json:"routes_file,omitempty"`
	Proof      *proofReport      `json:"proof"` // proven and suspect tables
}

type selfReport struct {
	Fallback bool           `json:"fallback"`
	Source   api.Source     `json:"source"`
	Guard    api.Guard      `json:"guard"`
	Problems map[string]int `json:"problems"` // by severity
}

// status collects the status. The controller must not call it.
func (s *Sidecar) status() statusReport {
	r := statusReport{
		Version: s.cfg.Version, Started: time.Unix(0, s.started.Load()), Pod: s.cfg.Pod, Share: s.member, modeReport: s.controller.shown.Load(),
		RoutesFile: s.controller.served.File(), Decisions: s.controller.decisions.Last(),
		Proof: s.controller.proof.status(),
	}
	if r.Table = s.cache.Status(); r.Table != nil {
		r.Ready, r.Fresh = true, s.fresh().Fresh
	}
	if p := s.controller.selfNow.Load(); p != nil {
		r.Self = &selfReport{
			Fallback: p.fallback, Source: p.poller.Status(), Guard: p.publisher.Holding().Guard,
			Problems: poller.CountBySeverity(p.compiler.Problems()),
		}
	}
	if p := s.controller.remoteNow.Load(); p != nil {
		fetch := p.client.Status()
		r.Fetch = &fetch
	}
	return r
}

func (s *Sidecar) fresh() api.Fresh {
	r := api.Fresh{LimitSeconds: s.cfg.FreshLimit.Seconds()}
	t := s.cache.Status()
	if t == nil {
		r.Reason = "no table yet"
		return r
	}
	r.LastRead, r.AgeSeconds = t.LastRead, t.AgeSeconds
	switch {
	case r.LastRead.IsZero():
		r.Reason = "it is not known when the source was read"
	case r.AgeSeconds >= r.LimitSeconds:
		r.Reason = "the last read of the source is too old"
	default:
		r.Fresh = true
	}
	return r
}

func (c *controller) identity() string {
	i := fleet.Identity{
		Kind: fleet.Sidecar, ID: c.cfg.Pod, Node: c.cfg.Node, Zone: c.zone(), Version: c.cfg.Version, Interval: c.cfg.Fetch.Interval,
		Mode: c.shown.Load().Mode.String(),
	}
	if c.cfg.PodNamespace != "" && c.cfg.Pod != "" {
		i.ID, i.Pod = c.cfg.PodNamespace+"/"+c.cfg.Pod, true
	}
	return i.String()
}

// report sends reports about this data plane to the route server in use until ctx ends. While none is in use, it sends nothing.
func (s *Sidecar) report(ctx context.Context) {
	reporter := &fleet.Reporter{
		Logger: s.log,
		Send: func(ctx context.Context, body []byte) error {
			p := s.controller.remoteNow.Load()
			if p == nil {
				return nil
			}
			rank, err := p.client.Report(ctx, body)
			if rank >= 0 { // the last one stays in force while no server knows it
				s.controller.rank.Store(int64(rank))
			}
			return err
		},
		Collect: s.collect,
	}
	reporter.Run(ctx)
}

func (s *Sidecar) collect(now time.Time) (fleet.Report, bool) {
	p := s.controller.remoteNow.Load()
	if p == nil {
		return fleet.Report{}, false
	}
	status := p.client.Status()
	r := fleet.Report{Rejected: cmp.Or(dataplane.Rejected(&status), s.controller.proof.rejected()), Suspects: s.controller.proof.suspects(now)}
	if a := status.Applied; a != nil {
		r.Holds, r.HoldsAgo = fleet.Name{Digest: a.Digest, Revision: a.Revision}, max(0, now.Sub(a.Committed).Seconds())
	}
	if proven, ok := s.controller.proof.proven(); ok {
		r.Proven = fleet.Name{Digest: proven.Table.Digest(), Revision: proven.Table.Revision()}
	}
	shown := s.controller.shown.Load()
	r.Pre, r.WantsRank = shown.pre, shown.Setting.Count > 0
	r.Refused = s.controller.proof.refusedRoutes()
	if s.watch != nil {
		r.MetricsError = s.watch.trouble()
	}
	return r, true
}

// metrics are the series of the controller.
type metrics struct {
	mode, origin                                      *prometheus.GaugeVec
	ready, refused, held, computing, badMode, suspect prometheus.Gauge
	deaths                                            prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	made := series.In(reg)
	m := &metrics{
		mode:      made.Gauges("dataplane_mode", "1 for the mode in force: False, Pre or Exec.", "mode"),
		origin:    made.Gauges("dataplane_origin", "1 for the origin of the served table: routeserver, self, last_known_good or none.", "origin"),
		ready:     made.Gauge("dataplane_cutover_ready", "1 while mode Pre finds a cutover advisable."),
		refused:   made.Gauge("dataplane_mode_refused", "1 while the requested mode is refused."),
		held:      made.Gauge("dataplane_switch_held", "1 while a switch to another producer is held because of its table."),
		computing: made.Gauge("dataplane_fallback", "1 while a table is computed because no route server answers."),
		badMode:   made.Gauge("dataplane_mode_file_invalid", "1 while the mode file has no valid mode."),
		suspect:   made.Gauge("dataplane_suspect", "1 while the proven table is served, because newer ones crashed the proxy."),
		deaths:    made.Counter("dataplane_proxy_deaths_total", "Restarts of the proxy with tables that were not proven."),
	}
	m.show(&modeReport{Origin: fromNobody})
	return m
}

func (m *metrics) show(v *modeReport) {
	for _, mode := range rollout.Modes() {
		m.mode.WithLabelValues(mode.String()).Set(series.Bool(mode == v.Mode))
	}
	for _, o := range origins() {
		m.origin.WithLabelValues(string(o)).Set(series.Bool(o == v.Origin))
	}
	m.ready.Set(series.Bool(v.Cutover != nil && v.Cutover.Ready))
	m.refused.Set(series.Bool(v.Refused != ""))
	m.held.Set(series.Bool(v.Switch != nil && v.Switch.Guard.Held))
	m.computing.Set(series.Bool(v.Fallback != nil && v.Fallback.Compute))
	m.badMode.Set(series.Bool(v.ModeFileError != ""))
}
