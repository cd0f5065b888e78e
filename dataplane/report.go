package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// Limits of a report.
const (
	reportTimeout = 3 * time.Second
	// noReports is how long a server that does not accept reports gets none.
	noReports = 5 * time.Minute
)

// ErrNoReports means that the server in use does not accept reports, for example because it is another kind of server.
var ErrNoReports = errors.New("the route server does not accept reports")

// introduce adds the client's identity to a request.
func (c *Client) introduce(req *http.Request) {
	req.Header.Set("User-Agent", userAgent)
	if identity := c.cfg.Identity(); identity != "" {
		req.Header[api.HeaderClient] = []string{identity}
	}
}

// Report sends a report of this client, JSON, to the server in use. Nothing depends on it: an error changes no state, except that
// a server that does not accept reports gets none for five minutes. The error is then ErrNoReports.
func (c *Client) Report(ctx context.Context, body []byte) error {
	s := c.inUse()
	c.mu.Lock()
	until := s.noReports
	c.mu.Unlock()
	if time.Now().Before(until) {
		return ErrNoReports
	}
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, reportTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.JoinPath("..", api.ReportPath).String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("report to %s: %w", s.name, err)
	}
	req.Header.Set("Content-Type", "application/json")
	c.introduce(req)
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("report to %s: %w", s.name, transportError(err))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // so that the connection can be reused
	switch resp.StatusCode {
	case http.StatusNoContent, http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		c.mu.Lock()
		s.noReports = time.Now().Add(noReports)
		c.mu.Unlock()
		return ErrNoReports
	default:
		return fmt.Errorf("report to %s: status %d", s.name, resp.StatusCode)
	}
}
