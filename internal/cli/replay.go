package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/routesrv/routesrv/eskip"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/match"
	"github.com/routesrv/routesrv/match/report"
	"github.com/routesrv/routesrv/shadowdiff"
)

type replayJob struct {
	old, new string // tables
	headers  []string
	ignore   shadowdiff.Ignore
	proxy    match.Options
}

func replayCommand() command {
	return command{
		name: "replay", args: "LOG...", summary: "Asks two tables for the routes of recorded requests.",
		intro: `Reads logs of requests, and lists which requests get another route, other filters or another backend in the new table, by how many
there are. Use it before an upgrade, a cutover or the merge of a change. Nothing is sent to a proxy or a backend, and nothing is stored.

Each TABLE is one of

    a file of routes, such as the copy that a data plane keeps
    a file or folder of manifests
    the URL of a route server, such as http://routesrv/routes
    the URL of the support listener of a Skipper, such as http://10.2.0.7:9911/routes

LOG is a file, which may be compressed with gzip, or - for standard input. A line is one of Skipper's access log, also in JSON, or a method
and a URL: GET https://shop.example.org/cart. Other lines are counted and skipped.

A log has no cookies and hardly any headers. Add with -H what all requests have, such as X-Forwarded-Proto.

The exit status is 0 if all requests are treated as before, 1 if some are not, and 2 after an error.`,
		examples: []example{
			{"What would these manifests change for the traffic of yesterday?", "replay --old http://routesrv/routes --new ./manifests access.log.gz"},
			{"Pods come and go, so ignore endpoints", "replay --ignore endpoints --old ./before.eskip --new ./after.eskip access.log"},
		},
		min: 1, max: 1000, local: true, outputs: []string{"text", "json"},
		job: func() job { return &replayJob{proxy: match.Options{ValidateQuery: true, Zone: time.LoadLocation}} },
	}
}

func (j *replayJob) define(g config.Section) {
	g.Ask("old", "", config.Text("TABLE", &j.old, ""), "Table before the change.")
	g.Ask("new", "", config.Text("TABLE", &j.new, ""), "Table after the change.")
	g.Ask("header", "H", config.Repeated("'NAME: VALUE'", func(s string) error {
		j.headers = append(j.headers, s)
		return report.AddHeader(&match.Request{}, s)
	}), "Header of every request. May be repeated.")
	g.Ask("ignore", "", config.Parsed("LIST", &j.ignore, "", shadowdiff.ParseIgnore), "Differences that do not count: endpoints, for other endpoints of a backend.")
	defineProxy(g, &j.proxy)
}

func (j *replayJob) run(ctx context.Context, s *session) (int, error) {
	if j.old == "" || j.new == "" {
		return Trouble, usagef("want --old and --new, the tables before and after the change")
	}
	if len(j.ignore.IDs) > 0 {
		return Trouble, usagef("--ignore: want endpoints; a request has no id")
	}
	reader, _, err := s.tables()
	if err != nil {
		return Trouble, err
	}
	defer reader.Close()
	var loaded [2][]*eskip.Route
	for i, place := range []string{j.old, j.new} {
		source, err := reader.Open(place)
		if err != nil {
			return Trouble, err
		}
		table, err := source.Load(ctx)
		if err != nil {
			return Trouble, fmt.Errorf("%s: %w", source.Name(), err)
		}
		loaded[i] = table.Routes
	}
	o := s.server.Compile
	j.proxy.ExtraFilters, j.proxy.ExtraPredicates, j.proxy.ForwardBackendURL = o.ExtraFilters, o.ExtraPredicates, o.ForwardBackendURL
	replay := report.NewReplay(loaded[0], loaded[1], j.proxy, j.ignore)
	for _, log := range s.args {
		if err := j.read(ctx, s, replay, log); err != nil {
			return Trouble, fmt.Errorf("%s: %w", log, err)
		}
	}
	result := replay.Report()
	if result.Requests == 0 {
		return Trouble, fmt.Errorf("no line of the logs is a request: %s", result.FirstSkipped)
	}
	if err := j.write(s, &result); err != nil {
		return Trouble, fmt.Errorf("print the result: %w", err)
	}
	if result.Different() > 0 {
		return Unhealthy, nil
	}
	return Healthy, nil
}

func (j *replayJob) write(s *session, r *report.Replayed) error {
	if s.output == "json" {
		return r.WriteJSON(s.std.Out)
	}
	return r.WriteText(s.std.Out)
}

// read replays one log, and shows its progress on a terminal.
func (j *replayJob) read(ctx context.Context, s *session, replay *report.Replay, path string) error {
	log, size := s.std.In, int64(0)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		log = f
	}
	shown := false
	last := s.now()
	progress := func(bytes int64) {
		if now := s.now(); isTerminal(s.std.Err) && now.Sub(last) > time.Second {
			last, shown = now, true
			if size > 0 {
				fmt.Fprintf(s.std.Err, "\r%s: %d %%", path, 100*bytes/size)
			} else {
				fmt.Fprintf(s.std.Err, "\r%s: %d MiB", path, bytes>>20)
			}
		}
	}
	each := func(r *match.Request) {
		for _, h := range j.headers {
			_ = report.AddHeader(r, h) // define has checked it
		}
	}
	err := replay.Read(ctx, log, each, progress)
	if shown {
		_, _ = io.WriteString(s.std.Err, "\n")
	}
	return err
}
