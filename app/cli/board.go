package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
	"github.com/routesrv/routesrv/app/board"
	"github.com/routesrv/routesrv/app/options"
	"github.com/routesrv/routesrv/app/query"
	"github.com/routesrv/routesrv/shadowdiff"
)

// defaultCleanFor is how long data planes in mode Pre must have been clean.
const defaultCleanFor = 72 * time.Hour

// boardJob shows many clusters on one page, or reports which are not clean.
type boardJob struct {
	port     int
	cleanFor time.Duration
}

func (j *boardJob) define(flags *options.Flags) {
	flags.Add("--port", options.Number(&j.port, 0, 0, 65535), "Port of the page on 127.0.0.1; 0 chooses one.")
	flags.Add("--clean-for", options.Duration(&j.cleanFor, defaultCleanFor, 0, 90*day),
		"How long the data planes in mode Pre must have been clean.")
}

func (j *boardJob) run(ctx context.Context, s *session) (int, error) {
	clusters, err := j.clusters(s)
	if err != nil {
		return Trouble, usageError(err)
	}
	b, err := board.New(board.Config{Clusters: clusters, CleanFor: j.cleanFor, SlowLimit: s.timeout})
	if err != nil {
		return Trouble, usageError(err)
	}
	if s.output != "page" {
		return writeBoard(s, b.Ask(ctx))
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(j.port)))
	if err != nil {
		return Trouble, fmt.Errorf("--port: %w", err)
	}
	fmt.Fprintf(s.std.Out, "http://%s/ shows %s until Ctrl-C\n", l.Addr(), number(len(clusters), "cluster"))
	return Healthy, b.Serve(ctx, l)
}

// clusters returns the clusters of the file, or the ones selected by flags.
func (j *boardJob) clusters(s *session) ([]Cluster, error) {
	if s.urls != "" {
		if len(s.args) > 0 {
			return nil, unexpected(s.args[0])
		}
		return s.listed()
	}
	if !s.program.Remote {
		return nil, errors.New("set --urls FILE: a line for each cluster, NAME URL, with the URL of a support listener")
	}
	found, rest, err := s.places.Clusters(s.args)
	if err == nil && len(rest) > 0 {
		err = unexpected(rest[0])
	}
	var all []Cluster
	for _, c := range found {
		find := func(ctx context.Context) ([]Replica, error) { return query.Bounded(ctx, c.Find) }
		all = append(all, Cluster{Name: cmp.Or(c.Name, "cluster"), Find: find})
	}
	return all, err
}

// listed reads the file of clusters: NAME URL on each line.
func (s *session) listed() (all []Cluster, err error) {
	const most = 1 << 20
	in := s.std.In
	if s.urls != "-" {
		f, err := os.Open(s.urls)
		if err != nil {
			return nil, fmt.Errorf("--urls: %w", err)
		}
		defer f.Close()
		in = f
	}
	transport, err := s.places.Certificates().Transport()
	if err != nil {
		return nil, err
	}
	s.close = transport.CloseIdleConnections
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = 1, 0 // one question at a time
	lines := bufio.NewScanner(io.LimitReader(in, most))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || !query.IsURL(words[1]) {
			return nil, fmt.Errorf("--urls: line %d: must be NAME URL", n)
		}
		r := Replica{Name: words[1], Support: &Listener{URL: strings.TrimSuffix(words[1], "/"), Transport: transport}}
		all = append(all, Cluster{Name: words[0], Find: func(context.Context) ([]Replica, error) { return []Replica{r}, nil }})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--urls: %w", err)
	}
	return all, nil
}

// writeBoard prints which clusters are not clean, and returns the exit status.
func writeBoard(s *session, doc *api.Board) (int, error) {
	status := Healthy
	g := &grid{}
	g.add("CLUSTER", "STATE", "FALSE", "PRE", "EXEC", "CLEAN", "WHY")
	for i := range doc.Clusters {
		c := &doc.Clusters[i]
		clean, why := "no", c.Error
		switch {
		case c.State == api.BoardAway:
			status = Trouble
		case c.Pre == nil:
			status, why = max(status, Unhealthy), "its clients are not known"
		case c.Pre.Clean:
			clean = "yes"
		default:
			status, why = max(status, Unhealthy), c.Pre.Reason
		}
		g.add(c.Name, c.State, strconv.Itoa(c.Modes["False"]), strconv.Itoa(c.Modes["Pre"]), strconv.Itoa(c.Modes["Exec"]), clean, why)
	}
	if s.output == "json" {
		return status, printing(shadowdiff.WriteJSONValue(s.std.Out, doc, "  "))
	}
	return status, g.write(s.std.Out)
}
