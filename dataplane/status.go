package dataplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/routesrv/routesrv/internal/api"
	"github.com/routesrv/routesrv/publish"
	"github.com/routesrv/routesrv/table"
)

// Status is a summary of a [Client] for people and machines.
type Status = api.Fetch

// Rejected says why a client does not accept the table that it was sent, in words for operators; empty if it does.
func Rejected(s *Status) string {
	if s.Held != nil {
		return "guard: " + s.Held.Detail
	}
	for _, server := range s.Servers {
		if server.InUse && slices.Contains(verifyReasons, Reason(server.Reason)) {
			return server.Reason + ": " + server.LastError
		}
	}
	return ""
}

// loopState is the part of the status that rounds change.
type loopState struct {
	api.Fetch
	started time.Time       // when Run began
	stream  api.FetchStream // without a URL before the first stream
	leftOut leftOut
}

// Current returns the applied table, or nil.
func (c *Client) Current() *table.Table { return c.publisher.Table() }

// Publisher returns the publisher that judges and keeps the tables.
func (c *Client) Publisher() *publish.Publisher { return c.publisher }

// appliedOf describes the applied table.
func appliedOf(s *publish.Served) *api.Applied {
	a := &api.Applied{
		Digest: s.Table.Digest(), Revision: s.Table.Revision(), Routes: s.Table.Len(), Bytes: s.Table.Bytes(), Origin: s.Origin,
		Committed: s.Committed, Confirmed: s.Confirmed, SourceRead: s.Read.At, Stale: s.Stale, ServerState: s.State,
	}
	if !s.Stale {
		a.ETag = firstOf(s.Names)
	}
	return a
}

// Status returns the state of the client.
func (c *Client) Status() Status {
	served, held, file := c.publisher.Served(), c.heldStatus(), c.publisher.File()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.loop.Fetch
	s.Held, s.LastKnownGood = held, file
	if served != nil {
		s.Applied = appliedOf(served)
		s.AgeSeconds = api.AgeSeconds(time.Now(), s.Applied.SourceRead)
		if s.Applied.Digest == c.loop.leftOut.of {
			s.Applied.LeftOut = c.loop.leftOut.count
		}
	}
	if stream := c.loop.stream; stream.URL != "" {
		s.Stream = &stream
	}
	for _, server := range c.servers {
		s.Servers = append(s.Servers, server.status)
	}
	return s
}

func (c *Client) heldStatus() *api.Guard {
	g := c.publisher.State()
	if !g.Held {
		return nil
	}
	r := g.Report(nil)
	return &r
}

// reportTimeout limits the time for a report.
const reportTimeout = 3 * time.Second

// Report sends a report of this client, JSON, to the server in use. Nothing depends on it: an error changes no state. A server of
// another kind accepts no reports.
func (c *Client) Report(ctx context.Context, body []byte) error {
	s := c.inUse()
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, reportTimeout))
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}}
	resp, f := c.request(ctx, http.MethodPost, s.url.JoinPath("..", api.ReportPath), header, nil, bytes.NewReader(body))
	if f != nil {
		return fmt.Errorf("report to %s: %w", s.name, f.Err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be reused
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("report to %s: status %d", s.name, resp.StatusCode)
	}
	return nil
}
