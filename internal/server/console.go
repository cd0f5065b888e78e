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
		Logger: s.log,
		Fleet: func(ctx context.Context, q fleet.Query) (fleet.View, error) {
			q.Limit = consoleClients
			return *s.clients.merged(ctx, q), nil
		},
		Match: func(ctx context.Context, q url.Values) (*report.View, error) {
			done, ok := s.questions.turn(ctx, api.PathMatch)
			if !ok {
				return nil, console.ErrBusy
			}
			defer done()
			return s.match(q)
		},
	}
	if s.compiler != nil {
		cfg.Problems = s.compiler.Problems
		cfg.History = func(n int) []api.HistoryEntry {
			return s.history.Entries(time.Time{}, n, func(*api.HistoryEntry) bool { return true })
		}
		cfg.Explain = func(ctx context.Context, q explain.Query) (*explain.Explanation, error) {
			done, ok := s.questions.turn(ctx, api.PathExplain)
			if !ok {
				return nil, console.ErrBusy
			}
			defer done()
			return s.explain(q), nil
		}
	}
	return console.New(cfg)
}

// consoleState returns the status for the pages, and what is behind the served table.
func (s *Server) consoleState() console.State {
	state := console.State{Status: s.report(), Origin: cmp.Or(s.cfg.Origin, "cluster")}
	if state.Upstream != nil {
		var servers []string
		for _, one := range state.Upstream.Servers {
			servers = append(servers, one.URL)
		}
		state.Origin = strings.Join(servers, ", ")
	}
	if served := s.publisher.Served(); served != nil {
		state.Since, state.Newest = served.Committed, newestChange(served.Snapshot)
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
	for o := range s.Objects() {
		if at := o.Metadata().Changed; at > newest {
			newest, object = at, o.Ref()
		}
	}
	text, by, _ := strings.Cut(newest, " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	return &console.Change{At: at, Object: object, By: by}
}
