package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/program"
	"github.com/routesrv/routesrv/app/trial"
	"github.com/routesrv/routesrv/shadowdiff"
)

type trialJob struct {
	proxy, traffic *url.URL
	listen         string
}

func (j *trialJob) define(flags *options.Flags) {
	flags.Add("--proxy", options.Parsed("URL", &j.proxy, "", options.ListenerURL), "Support listener of the proxy.")
	flags.Add("--traffic", options.Parsed("URL", &j.traffic, "", options.ListenerURL),
		"Listener of the proxy for requests. Without it, filters are loaded and not used.")
	flags.Add("--listen", options.Address(&j.listen, "127.0.0.1:9099"), "Address at which the proxy fetches its table.")
}

func (j *trialJob) run(ctx context.Context, s *session) (int, error) {
	if j.proxy == nil {
		return Trouble, usagef("set --proxy, the support listener of the proxy")
	}
	if len(s.args) != 1 {
		return Trouble, usagef("must have one TABLE")
	}
	loaded, _, err := s.load(ctx, s.args[0])
	if err != nil {
		return Trouble, err
	}
	status, err := j.try(ctx, s, trial.Calls(loaded[0].Routes...))
	if err != nil {
		return Trouble, err
	}
	return verdict(len(status.Failed) == 0), printing(j.write(s, status))
}

// try serves the table of the trial until all calls have a verdict.
func (j *trialJob) try(ctx context.Context, s *session, calls []trial.Call) (api.Trial, error) {
	tried := trial.New(trial.Config{Support: j.proxy, Traffic: j.traffic, Log: program.NewLogger(s.server.Log, s.std.Err)})
	mux := http.NewServeMux()
	mux.Handle(api.PathTrialRoutes, tried)
	mux.HandleFunc(api.PathTrialAlive, tried.ServeAlive)
	listener, err := net.Listen("tcp", j.listen)
	if err != nil {
		return api.Trial{}, fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { tried.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) }) // it ends when it is closed
	defer server.Close()

	silent := s.now()
	for {
		waiting, status := tried.Ask(calls), tried.Status()
		if waiting == 0 {
			return status, nil
		}
		if status.Silent == "" {
			silent = s.now()
		}
		if now := s.now(); now.Sub(silent) > s.timeout {
			return status, errors.New(status.Silent)
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-tried.Changed():
		case <-time.After(time.Second):
		}
	}
}

func (j *trialJob) write(s *session, status api.Trial) error {
	if s.output == "json" {
		return shadowdiff.WriteJSONValue(s.std.Out, status, "  ")
	}
	text := fmt.Sprintf("%s: %d texts accepted, %d failed\n", j.proxy, status.Accepted, len(status.Failed))
	for _, f := range status.Failed {
		text += fmt.Sprintf("  %-8s %s: %s\n", f.Verdict, f.Text, f.Words)
	}
	_, err := io.WriteString(s.std.Out, shadowdiff.PrintableLines(text))
	return err
}
