package server

import (
	"cmp"
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/routesrv/routesrv/explain"
	"github.com/routesrv/routesrv/fleet"
	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/internal/console"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/match/report"
)

// consoleClients is how many clients a page considers at most, the worst first.
const consoleClients = 5000

// console builds the pages of this server.
func (s *Server) console(held *httpserve.HeldPage) *console.Console {
	cfg := console.Config{
		Name: s.clients.name, Version: s.cfg.Version, Relay: s.cfg.Source == nil, State: s.consoleState, Held: held.Difference, AcceptCommand: acceptCommand,
		Publishes: &s.publishes, Logger: s.log,
		Fleet: func(ctx context.Context, state string) (fleet.View, error) {
			return *s.clients.merged(ctx, fleet.Query{State: fleet.State(state), Limit: consoleClients}), nil
		},
		Match: func(ctx context.Context, q url.Values) (*report.View, error) {
			done, ok := s.questions.turn(ctx, "/match")
			if !ok {
				return nil, console.ErrBusy
			}
			defer done()
			return s.match(q)
		},
	}
	if s.compiler != nil {
		cfg.Problems = s.compiler.Problems
		cfg.Explain = func(ctx context.Context, q explain.Query) (*explain.Explanation, error) {
			done, ok := s.questions.turn(ctx, "/explain")
			if !ok {
				return nil, console.ErrBusy
			}
			defer done()
			return s.explain(q), nil
		}
	}
	return console.New(cfg)
}

// consoleState returns the data of /status for the pages.
func (s *Server) consoleState() console.State {
	r := s.report()
	state := console.State{
		Started: r.Started, Origin: cmp.Or(s.cfg.Origin, "cluster"), Source: r.Source,
		Guard: r.Guard, Decisions: r.Decisions, LastKnownGood: r.LastKnownGood,
	}
	if r.Upstream != nil {
		var servers []string
		for _, one := range r.Upstream.Servers {
			servers = append(servers, one.URL)
		}
		state.Origin = strings.Join(servers, ", ")
	}
	if t := r.Table; t != nil {
		state.Table = &console.Table{
			ETag: api.Tag{Digest: t.Digest, Revision: t.Revision}.String(), Digest: t.Digest, Revision: t.Revision, Routes: t.Routes,
			Bytes: t.Bytes, Zones: t.Zones, LastRead: t.LastRead, Stale: t.Stale,
		}
		if served := s.publisher.Served(); served != nil {
			state.Table.Since = served.Committed
			state.Table.Newest = newestChange(served.Snapshot)
		}
	}
	return state
}

// newestChange finds the object of a snapshot that was changed last, and by whom; nil if nothing is known. It costs as much as the
// objects, less than a millisecond for 20,000.
func newestChange(s *kube.Snapshot) *console.Change {
	if s == nil {
		return nil
	}
	var newest string // as in kube.Meta: the time in UTC, which sorts as text, and the field manager
	var object kube.Ref
	for _, o := range s.Ingresses {
		if o.Changed > newest {
			newest, object = o.Changed, o.Ref()
		}
	}
	for _, o := range s.RouteGroups {
		if o.Changed > newest {
			newest, object = o.Changed, o.Ref()
		}
	}
	text, by, _ := strings.Cut(newest, " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	return &console.Change{At: at, Object: object, By: by}
}

// reachedEvery is how often the propagation times of the fleet are saved for the charts. The fleet keeps them only for the last
// tables.
const reachedEvery = 5 * time.Second

// rememberReached saves the propagation times until ctx ends, so that the charts cover hours.
func (s *Server) rememberReached(ctx context.Context) {
	ticker := time.NewTicker(reachedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.publishes.Reached(s.clients.Publishes())
		case <-ctx.Done():
			return
		}
	}
}
