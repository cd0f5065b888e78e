package sidecar

import (
	"cmp"
	"context"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/fleet"
)

// identity returns how a sidecar identifies itself to route servers.
func (c *controller) identity() string {
	i := fleet.Identity{
		Kind: fleet.Sidecar, ID: c.cfg.Pod, Node: c.cfg.Node, Zone: c.zone(), Version: c.cfg.Version, Interval: c.cfg.Fetch.Interval,
		Mode: c.view.Load().Mode.String(),
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
			if p := s.controller.remoteNow.Load(); p != nil {
				return p.client.Report(ctx, body)
			}
			return nil
		},
		Collect: s.collect,
	}
	if s.figures != nil {
		defer s.figures.Close()
		reporter.Figures = func(ctx context.Context, fetched time.Time) (*fleet.Figures, fleet.Applied, error) {
			f, applied, err := s.figures.Figures(ctx, fetched)
			if err == nil && s.controller.proof.read(f) || err != nil && s.controller.proof.unread(err) {
				s.controller.replaceSuspect()
			}
			return f, applied, err
		}
	}
	reporter.Run(ctx)
}

// collect builds the report.
func (s *Sidecar) collect(now time.Time) (fleet.Report, bool) {
	p := s.controller.remoteNow.Load()
	if p == nil {
		return fleet.Report{}, false
	}
	status := p.client.Status()
	r := fleet.Report{Rejected: cmp.Or(dataplane.Rejected(&status), s.controller.proof.rejected()), Suspects: s.controller.proof.report(now)}
	if a := status.Applied; a != nil {
		r.Holds, r.HoldsAgo = fleet.Name{Digest: a.Digest, Revision: a.Revision}, max(0, now.Sub(a.Committed).Seconds())
	}
	if proven, ok := s.controller.proof.proven(); ok {
		r.Proven = fleet.Name{Digest: proven.Table.Digest(), Revision: proven.Table.Revision()}
	}
	r.Pre = s.controller.view.Load().pre
	var at time.Time
	if r.Fetched, at = s.controller.proof.hasFetched(); !r.Fetched.IsZero() {
		r.FetchedAgo = max(0, now.Sub(at).Seconds())
	}
	return r, true
}
