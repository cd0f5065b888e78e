package config

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/guard"
)

// Upstream configures the route servers whose table a relay serves instead of compiling one.
type Upstream struct {
	// URLs are the route servers, the preferred one first; empty means this server is not a relay.
	URLs []string
	// UpdateMode, FullEvery, Timeout and MaxBytes are for dataplane.Config and have its limits.
	UpdateMode dataplane.UpdateMode
	FullEvery  time.Duration
	Timeout    time.Duration
	MaxBytes   int64
	// CAFile holds the authorities for the route servers' certificates; empty means the system's. CertFile and KeyFile are the
	// client certificate: set both or neither.
	CAFile, CertFile, KeyFile string
}

// Upstream adds the flags of a relay. The parser must have the flags of a route server.
func (p *Parser) Upstream(c *RouteServer) {
	u := &c.Upstream
	g := p.group(GroupUpstream)
	g.own("upstream", repeated("URL", func(s string) error {
		before := len(u.URLs)
		for one := range strings.SplitSeq(s, ",") {
			if one = strings.TrimSpace(one); one != "" {
				u.URLs = append(u.URLs, one)
			}
		}
		if len(u.URLs) == before {
			return errors.New("want the URL of a route server")
		}
		return nil
	}), "Serve the table of another route server unchanged, instead of reading objects. The preferred one comes first; may be "+
		"repeated, or be a list separated by commas. The relay fetches the full table and makes the tables of all zones from "+
		"it. -source-poll-timeout and --poll-max-backoff set how often it asks, and --state-dir keeps the last table. The "+
		"guard passes losses, because the other server has judged them, unless --guard=max-loss is set.")
	g.own("update-mode", parsed("MODE", &u.UpdateMode, dataplane.Auto.String(), dataplane.ParseUpdateMode), "How to get new tables "+
		"from --upstream: stream, poll, or auto (stream, and poll while streams do not work).")
	g.own("full-fetch-interval", duration(&u.FullEvery, dataplane.DefaultFullEvery, time.Minute, 30*24*time.Hour), "How often to fetch "+
		"a full table from --upstream in spite of deltas; a random part of up to half is subtracted.")
	g.own("fetch-timeout", duration(&u.Timeout, dataplane.DefaultTimeout, time.Millisecond, time.Hour), "Time limit of a "+
		"request to --upstream, to the last byte of the answer; for a stream, to its beginning.")
	var limit int
	g.own("max-table-bytes", number(&limit, 0, 0, math.MaxInt), "Largest table to accept from --upstream. 0 means four times "+
		"the last table and at least 64 MiB, or 512 MiB before the first table, and at most a quarter of the memory limit (of "+
		"the cgroup, or GOMEMLIMIT).")
	g.own("upstream-ca-file", text(&u.CAFile, ""), "CAs of --upstream and --peers, PEM, instead of those of the system. Read "+
		"again when the file changes.")
	g.own("upstream-client-cert", text(&u.CertFile, ""), "Certificate to present to --upstream or --peers, PEM. Read again "+
		"when the file changes.")
	g.own("upstream-client-key", text(&u.KeyFile, ""), "Private key of that certificate, PEM.")
	p.check(func() {
		u.MaxBytes = int64(limit)
		p.checkUpstream(c)
	})
}

// groupsOfObjects are the groups of flags about objects, which a relay does not see.
var groupsOfObjects = []Group{
	GroupSelection, GroupGenerated, GroupConversion, GroupAnnotations, GroupEastWest, GroupProcessing, GroupShards,
}

// checkUpstream reports contradictions as errors, and warns about flags without effect.
func (p *Parser) checkUpstream(c *RouteServer) {
	u := &c.Upstream
	if (u.CertFile == "") != (u.KeyFile == "") {
		p.failf("upstream-client-key", "want both --upstream-client-cert and --upstream-client-key, or neither")
	}
	if len(u.URLs) == 0 {
		for _, o := range p.flags {
			switch {
			case o.group != GroupUpstream || o.name == "peers" || !p.given(o.name):
			case !slices.Contains(peersFiles, o.name):
				p.warn(o.name, "has no effect without --upstream")
			case len(c.Peers) == 0:
				p.warn(o.name, "has no effect without --upstream or --peers")
			}
		}
		return
	}
	switch {
	case c.Source.Kubernetes:
		p.failf("upstream", "cannot be combined with -kubernetes: the table is compiled here or comes from another route "+
			"server, not both")
	case len(c.Source.Manifests) > 0:
		p.failf("upstream", "cannot be combined with --manifests: the table is compiled here or comes from another route "+
			"server, not both")
	}
	if !p.guardSet["max-loss"] {
		c.Guard.MaxLoss = 0 // a relay has its own default: it passes losses
	}
	if !p.guardSet["hold"] {
		c.Guard.Hold = guard.DefaultHold // of a whole table
	}
	for _, o := range p.flags {
		ofObjects := o.group == GroupSource && o.name != "kubernetes" && o.name != "manifests"
		for _, g := range groupsOfObjects {
			ofObjects = ofObjects || o.group == g
		}
		if ofObjects && p.given(o.name) {
			p.warn(o.name, "has no effect with --upstream, whose table is served unchanged")
		}
	}
}
